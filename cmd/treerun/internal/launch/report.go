//go:build linux

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
	"github.com/treerun/treerun/cmd/treerun/internal/inspect"
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
	s.printNotices(true)
	switch s.cause.kind {
	case noCause:
		s.reportUnclosed()
		s.reportUnused()
		s.reportLosses()
	case byFailure:
		if f, ok := s.failure(); ok {
			f.calls = s.lastCalls(f.String())
			s.job.Screen.Err.Errorf("%s", f)
		}
	case bySignal:
		s.job.Screen.Err.Errorf("%s", s.causeText())
	case byTimeout:
		text := s.causeText()
		s.job.Screen.Err.Errorf("%s%s", text, s.lastCalls(text))
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
	for _, r := range s.ranks {
		if r.Joined && !r.Closed && !r.past {
			open = append(open, r.Rank)
		}
	}
	if len(open) > 0 {
		s.job.Screen.Err.Errorf("%s ended without Close (%s): a failure that only Close finds is not reported (hint: end "+
			"with check(c.Close()) and w.Close())", numbers.Count(len(open), "rank"), topo.RankList(open))
	}
}

// sigtermNote names the rank because of which --sigterm-exit-code does not apply, and how it ended.
func (s *supervisor) sigtermNote() string {
	if s.cause.signal != syscall.SIGTERM || s.job.SigtermCode == cmdline.SignalCode(syscall.SIGTERM) {
		return ""
	}
	for _, e := range s.ends() {
		if e.failed() {
			return fmt.Sprintf("; rank %d %s: the exit code is not that of --sigterm-exit-code", e.Rank,
				e.outcome())
		}
	}
	return ""
}

// markExitedWithoutClose counts the exit of ranks that have not closed their world as a failure, where calls of other
// ranks have failed because of it and all ranks have exited with 0.
func (s *supervisor) markExitedWithoutClose() {
	failed := func(r *rankState) bool { return r.failedByPeer }
	if s.cause.kind != noCause || s.renews() || !slices.ContainsFunc(s.ranks, failed) {
		return
	}
	for _, r := range s.ranks {
		if r.ExitedUnclosed = r.Joined && !r.Closed; r.ExitedUnclosed {
			s.cause.kind = byFailure
		}
	}
}

// ends returns how the processes of the latest epoch have ended.
func (s *supervisor) ends() []End {
	var ends []End
	for _, r := range slices.Concat(s.before, s.ranks) {
		if r.ended && !r.past {
			ends = append(ends, r.End)
		}
	}
	return ends
}

// allSucceeded reports whether all ranks have ended with 0.
func (s *supervisor) allSucceeded() bool {
	return !slices.ContainsFunc(s.ranks, func(r *rankState) bool { return !r.ended || r.failed() })
}

// failure is the content of the root cause block.
type failure struct {
	first    End
	unclosed []End    // ranks that had exited before without closing their world
	ends     []End    // of all ranks
	stderr   []string // last lines of the rank
	merged   bool     // these are those of stdout
	resumed  bool     // this process had been stopped shortly before
	calls    string   // lines about the latest calls of all ranks
}

// String returns the root cause block, without "treerun: " at its beginning and a newline at its end.
func (f failure) String() string {
	var b strings.Builder
	if f.first.Lost {
		f.describeLoss(&b)
		b.WriteString(f.calls)
		return b.String()
	}
	fmt.Fprintf(&b, "rank %d failed first: it %s %s after the start", f.first.Rank, f.first.outcome(),
		inspect.Seconds(f.first.After))
	fmt.Fprintf(&b, "\n    host    %s", f.first.Host)
	fmt.Fprintf(&b, "\n    pid     %d", f.first.PID)
	hint := f.first.Hint
	if f.first.Signal == syscall.SIGKILL {
		hint = cmp.Or(hint, "treerun did not send it; out of memory? (see dmesg)")
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
	for _, e := range f.unclosed[:min(len(f.unclosed), maxRanks)] {
		when := "before it joined the job"
		if e.Joined {
			when = "without closing its world"
		}
		fmt.Fprintf(&b, "\n    before  rank %d had exited with code 0 %s", e.Rank, when)
	}
	if others := f.others(); others != "" {
		fmt.Fprintf(&b, "\n    after   %s", others)
	}
	b.WriteString(f.calls)
	name := "stderr"
	if f.merged {
		name = "stdout"
	}
	if len(f.stderr) == 0 {
		fmt.Fprintf(&b, "\n    %s  is empty", name)
		return b.String()
	}
	fmt.Fprintf(&b, "\n    %s  ended with:", name)
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
	fmt.Fprintf(b, "host %s was lost %s after the start: %s", f.first.Host, inspect.Seconds(f.first.After), f.first.Why)
	if len(ranks) > 0 {
		fmt.Fprintf(b, "\n    ranks   %s on it (%s)", numbers.Count(len(ranks), "rank"), topo.RankList(ranks))
	}
	if f.resumed {
		b.WriteString("\n    hint    this treerun had itself been stopped, and a host ends its ranks when it receives " +
			"nothing for --peer-timeout")
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
	for _, r := range s.ranks {
		if !r.ended && r.running {
			list = append(list, fmt.Sprintf("rank %d (pid %d) %s", r.Rank, r.PID, r.lastOutput(time.Now())))
		}
	}
	return list
}

// lastOutput describes the last output of the rank.
func (r *rankState) lastOutput(now time.Time) string {
	tail, name := &r.streams[wire.Stdout].Tail, "stdout"
	at, written := tail.Last()
	if errAt, ok := r.streams[wire.Stderr].Tail.Last(); ok && errAt.After(at) {
		tail, name, at, written = &r.streams[wire.Stderr].Tail, "stderr", errAt, true
	}
	if !written {
		return "had printed nothing"
	}
	line := strings.Join(tail.Lines(1), "")
	return fmt.Sprintf("had last printed %s before, on %s: %s", inspect.Seconds(now.Sub(at)), name, line)
}

// timeoutText returns the block for a job that ran out of time. early means that this happened while its ranks were
// being started.
func timeoutText(limit time.Duration, size int, list []string, starting bool) string {
	var b strings.Builder
	if len(list) == 0 && !starting {
		return fmt.Sprintf("the time limit of %s is over: all ranks had ended, and their output had not been read",
			limit)
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

// End describes the end of one rank.
type End struct {
	wire.End
	Order          int           // ranks whose ends were seen at the same moment share it
	After          time.Duration // since the start of the job
	Joined         bool          // its world was complete
	Closed         bool          // it had closed its world
	ExitedUnclosed bool          // it had not, exited with 0, and calls of others failed by that
	Host           string        // it was on this one
	Lost           bool          // its host was lost; Code is treerun's
	Why            string        // Lost
	Unstarted      string        // why its process could not be started; "": it could

	Failure  string // of a communicator, that no call but Close has returned; "": none
	Reported int    // how many moments at which ends were seen came before Failure
}

func (e End) failed() bool {
	return e.Code != 0 || e.Signal != 0 || e.ExitedUnclosed || e.Failure != ""
}

// crashed reports whether the rank was lost or was ended by a signal that is not a consequence of another rank's end.
func (e End) crashed() bool { return e.Lost || e.Signal != 0 && e.Signal != syscall.SIGPIPE }

// outcome describes in words how the rank ended.
func (e End) outcome() string {
	if e.Lost {
		return "was lost with host " + e.Host
	}
	if e.Unstarted != "" {
		return "could not be started"
	}
	if e.Signal != 0 {
		return "was killed by " + job.SignalName(e.Signal)
	}
	text := fmt.Sprintf("exited with code %d", e.Code)
	switch {
	case e.ExitedUnclosed:
		text += " without closing its world,"
	case e.onlyReported():
		text = "failed in Close and " + text
	}
	return text
}

// onlyReported reports whether the rank has failed, and exited with 0.
func (e End) onlyReported() bool { return e.Failure != "" && e.Code == 0 && e.Signal == 0 }

// exitCode returns the code that stands for the rank's end.
func (e End) exitCode() int {
	if e.Signal != 0 {
		return cmdline.SignalCode(e.Signal)
	}
	if e.ExitedUnclosed || e.onlyReported() {
		return 1
	}
	return e.Code
}

// sameMoment is the time between the reports of two ends on different hosts within which they count as of the same
// moment: their order is not known.
const sameMoment = 50 * time.Millisecond

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
		return !e.crashed() || e.Host == first.Host || e.After-first.After > sameMoment
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

// exitedUnclosed returns the ranks that exited with 0 before the failure without
// having closed their world, by rank: those that wait for them fail later.
func exitedUnclosed(ends []End, failure End) []End {
	list := slices.DeleteFunc(slices.Clone(ends), func(e End) bool {
		return e.failed() || e.Closed || e.Stopped || e.Order > failure.Order
	})
	slices.SortFunc(list, func(a, b End) int { return cmp.Compare(a.Rank, b.Rank) })
	return list
}
