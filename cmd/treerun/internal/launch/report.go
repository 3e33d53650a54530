package launch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

const (
	stderrLines = 20 // number of the last lines of a failed rank that are repeated
	maxRanks    = 16 // number of ranks that are described one by one
)

// report prints why the job did not end well: one block, the last output of treerun.
func (s *supervisor) report() {
	switch s.cause.kind {
	case none:
		s.reportUnclosed()
	case byFailure:
		ends := s.ends()
		first, ok := firstFailure(ends)
		if !ok {
			return
		}
		f := failure{first: first, ends: ends}
		f.woken = s.start.Add(first.After).Sub(s.continued).Abs() < s.job.Remote.PeerTimeout
		f.stderr = s.ranks[first.Rank].streams[wire.Stderr].Tail.Lines(stderrLines)
		if first.ReadJobFile { // else it never waited for another rank
			f.early = earlyLeavers(ends, first)
		}
		s.job.Screen.Err.Errorf("%s", f)
	case bySignal:
		s.job.Screen.Err.Errorf("stopped by %s%s", job.SignalName(s.cause.signal), s.notWell())
	case byTimeout:
		s.job.Screen.Err.Errorf("%s", timeoutText(s.job.Timeout, s.job.Size, s.late, s.early))
	case byOutput:
		if !errors.Is(s.cause.err, syscall.EPIPE) {
			s.job.Screen.Err.Errorf("%v", s.cause.err)
		}
	}
}

// reportUnclosed names the ranks that have ended without Close, in a job that has ended well: a failure that only Close
// detects has not been reported.
func (s *supervisor) reportUnclosed() {
	var open []int
	for _, m := range s.ranks {
		if m.Joined && !m.Closed {
			open = append(open, m.Rank)
		}
	}
	if len(open) > 0 {
		s.job.Screen.Err.Errorf("%s ended without Close (%s): a failure that only Close finds is not reported (hint: end "+
			"with check(c.Close()) and w.Close())", numbers.Count(len(open), "rank"), topo.RankList(open))
	}
}

// notWell names the rank because of which --sigterm-exit-code does not apply, and how it ended.
func (s *supervisor) notWell() string {
	if s.cause.signal != syscall.SIGTERM || s.job.SigtermCode == cmdline.SignalCode(syscall.SIGTERM) {
		return ""
	}
	for _, e := range s.ends() {
		if e.failed() {
			return fmt.Sprintf("; rank %d %s: the exit code is not that of --sigterm-exit-code", e.Rank, e.how())
		}
	}
	return ""
}

// blameLeft counts it as a failure that ranks have exited with 0 without closing their world, where calls of others
// have failed because of that and all have exited with 0.
func (s *supervisor) blameLeft() {
	if s.cause.kind != none || !slices.ContainsFunc(s.ranks, func(m *rankState) bool { return m.harmed }) {
		return
	}
	for _, m := range s.ranks {
		if m.Left = m.Joined && !m.Closed; m.Left {
			s.cause.kind = byFailure
		}
	}
}

// ends returns how the ranks have ended, in the order of their numbers.
func (s *supervisor) ends() []End {
	var ends []End
	for _, m := range s.ranks {
		if m.ended {
			ends = append(ends, m.End)
		}
	}
	return ends
}

// allWell reports whether all ranks have ended with 0.
func (s *supervisor) allWell() bool {
	return !slices.ContainsFunc(s.ranks, func(m *rankState) bool { return !m.ended || m.failed() })
}

// failure is the content of the root cause block.
type failure struct {
	first  End
	early  []End    // ranks that had left before
	ends   []End    // of all ranks
	stderr []string // last lines of the rank
	woken  bool     // this process had been stopped shortly before
}

// String returns the root cause block, without "treerun: " at its beginning and a newline at its end.
func (f failure) String() string {
	var b strings.Builder
	if f.first.Lost {
		f.describeLoss(&b)
		return b.String()
	}
	fmt.Fprintf(&b, "rank %d failed first: it %s %s after the start", f.first.Rank, f.first.how(),
		seconds(f.first.After))
	fmt.Fprintf(&b, "\n    host    %s", f.first.Host)
	fmt.Fprintf(&b, "\n    pid     %d", f.first.PID)
	hint := f.first.Hint
	if f.first.Signal == syscall.SIGKILL {
		hint = cmp.Or(hint, "treerun did not send it; out of memory? (dmesg tells)")
	}
	if hint != "" {
		b.WriteString("\n    hint    " + hint)
	}
	if f.first.onlyReported() { // else its stderr has it
		fmt.Fprintf(&b, "\n    error   %s\n    hint    check the error that Close returns", oneLine(f.first.Failure))
	}
	if e, ok := f.reportedBefore(); ok {
		fmt.Fprintf(&b, "\n    before  rank %d had failed in Close: %s", e.Rank, oneLine(e.Failure))
	}
	for _, e := range f.ends {
		if e.Stopped && e.Hint != "" {
			fmt.Fprintf(&b, "\n    before  rank %d %s", e.Rank, e.Hint)
		}
	}
	for _, e := range f.early[:min(len(f.early), maxRanks)] {
		when := "before it joined the job"
		if e.Joined {
			when = "without closing its world"
		}
		fmt.Fprintf(&b, "\n    before  rank %d had exited with code 0 %s", e.Rank, when)
	}
	if others := f.others(); others != "" {
		fmt.Fprintf(&b, "\n    after   %s", others)
	}
	if len(f.stderr) == 0 {
		b.WriteString("\n    stderr  is empty")
		return b.String()
	}
	b.WriteString("\n    stderr  ended with:")
	for _, line := range f.stderr {
		b.WriteString("\n      | " + line)
	}
	return b.String()
}

// oneLine returns text without line breaks.
func oneLine(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ") }

// reportedBefore returns the rank that was the first to report a failure, before the end of one that has reported none.
func (f failure) reportedBefore() (End, bool) {
	before := slices.DeleteFunc(slices.Clone(f.ends), func(e End) bool {
		return e.Failure == "" || e.Rank == f.first.Rank || e.Reported >= f.first.Order
	})
	if len(before) == 0 || f.first.Failure != "" {
		return End{}, false
	}
	return slices.MinFunc(before, func(a, b End) int { return cmp.Compare(a.Reported, b.Reported) }), true
}

// describeLoss writes the block for a host that was lost.
func (f failure) describeLoss(b *strings.Builder) {
	var ranks []int
	for _, e := range f.ends {
		if e.Lost && e.Host == f.first.Host {
			ranks = append(ranks, e.Rank)
		}
	}
	fmt.Fprintf(b, "host %s was lost %s after the start: %s", f.first.Host, seconds(f.first.After), f.first.Why)
	if len(ranks) > 0 {
		fmt.Fprintf(b, "\n    ranks   %s on it (%s)", numbers.Count(len(ranks), "rank"), topo.RankList(ranks))
	}
	if f.woken {
		b.WriteString("\n    hint    this treerun had itself been stopped, and hosts give up what is silent " +
			"for --peer-timeout")
	}
	if others := f.others(); others != "" {
		fmt.Fprintf(b, "\n    after   %s", others)
	}
}

// others describes in one line the ends of the other ranks.
func (f failure) others() string {
	var failed, stopped []int
	for _, e := range f.ends {
		switch {
		case e.Rank == f.first.Rank, e.Lost && f.first.Lost && e.Host == f.first.Host:
		case e.Stopped:
			stopped = append(stopped, e.Rank)
		case e.failed():
			failed = append(failed, e.Rank)
		}
	}
	var parts []string
	if len(failed) > 0 {
		parts = append(parts, fmt.Sprintf("%s failed after it (%s)", numbers.Count(len(failed), "other rank"),
			topo.RankList(failed)))
	}
	if len(stopped) > 0 {
		parts = append(parts, fmt.Sprintf("%s stopped by treerun (%s)", numbers.Count(len(stopped), "rank"),
			topo.RankList(stopped)))
	}
	return strings.Join(parts, ", ")
}

// stragglers describes the ranks that run now.
func (s *supervisor) stragglers() []string {
	var list []string
	for _, m := range s.ranks {
		if !m.ended && m.running {
			list = append(list, fmt.Sprintf("rank %d (pid %d) %s", m.Rank, m.PID, m.lastOutput(time.Now())))
		}
	}
	return list
}

// lastOutput describes the last output of the rank.
func (m *rankState) lastOutput(now time.Time) string {
	tail, name := &m.streams[wire.Stdout].Tail, "stdout"
	at, written := tail.Last()
	if errAt, ok := m.streams[wire.Stderr].Tail.Last(); ok && errAt.After(at) {
		tail, name, at, written = &m.streams[wire.Stderr].Tail, "stderr", errAt, true
	}
	if !written {
		return "had printed nothing"
	}
	line := strings.Join(tail.Lines(1), "")
	return fmt.Sprintf("had last printed %s before, on %s: %s", seconds(now.Sub(at)), name, line)
}

// timeoutText returns the block for a job that ran out of time. early means that this happened while its ranks were
// being started.
func timeoutText(limit time.Duration, size int, list []string, early bool) string {
	var b strings.Builder
	if len(list) == 0 && !early {
		return fmt.Sprintf("the time limit of %s is over: all ranks had ended, and nobody read what they had "+
			"printed", limit)
	}
	fmt.Fprintf(&b, "the time limit of %s is over: %d of %s still ran", limit, len(list),
		numbers.Count(size, "rank"))
	for _, r := range list[:min(len(list), maxRanks)] {
		b.WriteString("\n    " + r)
	}
	if more := len(list) - maxRanks; more > 0 {
		fmt.Fprintf(&b, "\n    and %d more", more)
	}
	return b.String()
}

// seconds rounds a duration for readers.
func seconds(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}

// End describes the end of one rank.
type End struct {
	wire.End
	Order  int           // ranks whose ends were seen at the same moment share it
	After  time.Duration // since the start of the job
	Joined bool          // its world was complete
	Closed bool          // it had closed its world
	Left   bool          // it had not, exited with 0, and calls of others failed by that
	Host   string        // it was on this one
	Lost   bool          // its host was lost; Code is treerun's
	Why    string        // Lost

	Failure  string // of a communicator, that no call but Close has returned; "": none
	Reported int    // how many moments at which ends were seen came before Failure
}

func (e End) failed() bool { return e.Code != 0 || e.Signal != 0 || e.Left || e.Failure != "" }

// crashed reports whether the rank was lost or was ended by a signal that is not a consequence of another rank's end.
func (e End) crashed() bool { return e.Lost || e.Signal != 0 && e.Signal != syscall.SIGPIPE }

// how describes in words how the rank ended.
func (e End) how() string {
	if e.Lost {
		return "was lost with host " + e.Host
	}
	if e.Signal != 0 {
		return "was killed by " + job.SignalName(e.Signal)
	}
	how := fmt.Sprintf("exited with code %d", e.Code)
	switch {
	case e.Left:
		how += " without closing its world,"
	case e.onlyReported():
		how = "failed in Close and " + how
	}
	return how
}

// onlyReported reports whether the rank has failed, and exited with 0.
func (e End) onlyReported() bool { return e.Failure != "" && e.Code == 0 && e.Signal == 0 }

// exitCode returns the code that stands for the rank's end.
func (e End) exitCode() int {
	if e.Signal != 0 {
		return cmdline.SignalCode(e.Signal)
	}
	if e.Left || e.onlyReported() {
		return 1
	}
	return e.Code
}

// oneMoment is the time between the reports of two ends on different hosts within which they count as of the same
// moment: their order is not known.
const oneMoment = 50 * time.Millisecond

// firstFailure returns the end that caused the failure of the job: the first in time of those that treerun did not
// bring about. Of several at the same moment a crash comes before an exit code, because a rank that notices a crash
// exits; then the lowest rank. Failures that ranks have only reported count where all others ended well.
func firstFailure(ends []End) (first End, ok bool) {
	failed := slices.DeleteFunc(slices.Clone(ends), func(e End) bool { return !e.failed() || e.Stopped })
	if ended := slices.DeleteFunc(slices.Clone(failed), End.onlyReported); len(ended) > 0 {
		failed = ended
	}
	if len(failed) == 0 {
		return End{}, false
	}
	first = slices.MinFunc(failed, compare)
	near := slices.DeleteFunc(failed, func(e End) bool {
		return !e.crashed() || e.Host == first.Host || e.After-first.After > oneMoment
	})
	if first.crashed() || len(near) == 0 {
		return first, true
	}
	return slices.MinFunc(near, compare), true
}

// compare orders ends by how likely they are the cause of a failure, the likeliest first.
func compare(a, b End) int {
	if a.Order == b.Order && a.crashed() != b.crashed() {
		if a.crashed() {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Rank, b.Rank))
}

// earlyLeavers returns the ranks that exited with 0 before the failure without
// having closed their world, by rank: those that wait for them fail later.
func earlyLeavers(ends []End, failure End) []End {
	var early []End
	for _, e := range ends {
		if !e.failed() && !e.Closed && !e.Stopped && e.Order <= failure.Order {
			early = append(early, e)
		}
	}
	slices.SortFunc(early, func(a, b End) int { return cmp.Compare(a.Rank, b.Rank) })
	return early
}
