//go:build linux

// Package inspect is the look into a job that runs: what the processes of ranks do, from their status pages and from
// /proc; the verdict, why ranks wait, which follows from that of all ranks; and both as text. The host of a rank looks,
// the launcher judges. Only packages below cmd/treerun import it.
package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/status"
	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/internal/waits"
)

// Rank is what a look has found out about one rank.
type Rank struct {
	Rank     int // the launcher's number
	Host     string
	PID      int
	Process  Process
	Page     *status.Rank // nil: Blind is the reason
	Blind    string
	Waits    []waits.Waiting // in the numbers of the epoch
	Line     string          // the line of the program that it is at, as in "main.load at data.go:81"; "": see NoLine
	NoLine   string          // why the line is not known, "" if none was read
	Thread   int             // the thread that the goroutine of Line is on, 0 for none
	Callers  []string        // of the function of Line, as it, the innermost first, at most maxCallers
	Stack    string          // of all its goroutines, where that was wanted
	Debugged bool            // its program runs under a debugger
	Gap      time.Duration   // the longest time between its calls, to about a second
}

// maxTexts bounds the texts of a rank from another host, in bytes.
const maxTexts = 1 << 20

// Check reports an error if r, which came from another host, cannot be used.
func (r *Rank) Check() error {
	s := waits.Status{Waits: r.Waits}
	texts := len(r.Host) + len(r.Blind) + len(r.Line) + len(r.NoLine) + len(r.Stack)
	for _, c := range r.Callers {
		texts += len(c)
	}
	err := errors.Join(job.Within("rank %d", r.Rank, 0, job.MaxRanks-1),
		job.Within("bytes of texts: %d", texts, 0, maxTexts), job.Within("gap of %d ns", int(r.Gap), 0, math.MaxInt),
		s.Check(job.MaxRanks))
	if r.Page != nil {
		err = errors.Join(err, job.Within("epoch %d", r.Page.Epoch, 0, job.MaxEpoch),
			job.Within("number in the epoch: %d", r.Page.Rank, 0, job.MaxRanks-1))
	}
	return err
}

// Job is a job as a look has found it.
type Job struct {
	ID      string
	Program string
	Ranks   []Rank
	Silent  []string      // hosts that have not answered
	Unread  string        // the output of treerun that its reader does not read, as "standard output", "": none
	Took    time.Duration // the longest time that a host has taken, without pauses
	Began   int64         // Unix time in nanoseconds
	Seen    int64         // that of the look
	Epoch   int           // the latest
	Roster  []int         // by rank of that epoch: the launcher's number; nil: the same

	origins map[place]int // of the ranks that were seen; nil before it is used
}

// Has reports whether all of these ranks were seen.
func (j *Job) Has(ranks []int) bool {
	return !slices.ContainsFunc(ranks, func(rank int) bool { return j.rank(rank) == nil })
}

// place is a rank's number in an epoch.
type place struct{ epoch, rank int }

// origin returns the launcher's number of a rank of an epoch, -1 if it is not known.
func (j *Job) origin(at place) int {
	if j.origins == nil {
		j.origins = make(map[place]int, len(j.Ranks))
		for i := range j.Ranks {
			if p := j.Ranks[i].Page; p != nil && p.Size > 0 {
				j.origins[place{p.Epoch, p.Rank}] = j.Ranks[i].Rank
			}
		}
	}
	if o, seen := j.origins[at]; seen {
		return o
	}
	switch {
	case at.epoch == j.Epoch && at.rank < len(j.Roster):
		return j.Roster[at.rank]
	case at.epoch == 0 && j.Epoch == 0:
		return at.rank
	}
	return -1
}

// waitsFor returns the ranks that a wait of a rank is for, in the launcher's numbers.
func (j *Job) waitsFor(r *Rank, w *waits.Waiting) (ranks []int) {
	if r.forms() {
		return j.late(r)
	}
	epoch := 0
	if r.Page != nil {
		epoch = r.Page.Epoch
	}
	for _, to := range w.For {
		if o := j.origin(place{epoch, to}); o >= 0 {
			ranks = append(ranks, o)
		}
	}
	slices.Sort(ranks)
	return ranks
}

// waitedFor returns the ranks that the first wait of a rank is for which knows them, in the launcher's numbers.
func (j *Job) waitedFor(r *Rank) []int {
	for i := range r.Waits {
		if w := &r.Waits[i]; w.GaveUp == 0 {
			if ranks := j.waitsFor(r, w); len(ranks) > 0 {
				return ranks
			}
		}
	}
	return nil
}

// readPage sets the parts of r that are in its status page.
func (r *Rank) readPage(page io.ReaderAt) {
	p, err := status.Read(page)
	if err != nil || p.Size == 0 {
		r.Blind = "has not called rank.Init yet, or does not use package rank"
		return
	}
	var s waits.Status
	if len(p.Waits) > 0 && strict.Unmarshal(p.Waits, &s) == nil && s.Check(max(p.Size, 1)) == nil {
		r.Waits = s.Waits
	}
	p.Waits = nil
	r.Page = p
	if len(r.Waits) == 0 && r.forms() {
		r.Waits = []waits.Waiting{{In: r.in(), Since: p.Since}} // for ranks that are not known
	}
}

// in describes the call of the rank, "" if it is in none.
func (r *Rank) in() string {
	if len(r.Waits) > 0 && r.Waits[0].GaveUp == 0 {
		return scoped(r.Waits[0].In, r.Waits[0].Scope)
	}
	if r.Page == nil {
		return ""
	}
	switch r.Page.Phase {
	case status.Starting:
		return "rank.Init"
	case status.Renewing:
		return "World.Renew"
	}
	for i := range r.Page.Comms {
		c := &r.Page.Comms[i]
		if c.In == "" {
			continue
		}
		if len(c.Latest) > 0 && c.Latest[0].Name() == c.In {
			return scoped(c.Latest[0].String(), c.Name)
		}
		return scoped(c.In, c.Name)
	}
	return ""
}

// last describes the latest collective of the rank, "" if there was none.
func (r *Rank) last() string {
	if r.Page == nil {
		return ""
	}
	for i := range r.Page.Comms {
		if c := &r.Page.Comms[i]; len(c.Latest) > 0 {
			return scoped(c.Latest[0].String(), c.Name)
		}
	}
	return ""
}

// since returns how long the rank has waited when it was seen, 0 if it does not wait.
func (r *Rank) since(seen int64) (longest time.Duration) {
	for _, w := range r.Waits {
		if w.GaveUp == 0 {
			longest = max(longest, time.Duration(seen-w.Since))
		}
	}
	return longest
}

func scoped(in, scope string) string {
	if scope == "" || scope == "world" {
		return in
	}
	return in + " on " + scope
}

// seen returns r for the verdict, with the launcher's numbers in place of those of its epoch.
func (j *Job) seen(r *Rank) waits.Seen {
	s := waits.Seen{Rank: r.Rank, Blind: r.Blind, Is: r.Process.Is(r.PID),
		Down: r.Process.State.Stopped() || r.Process.State.Ended()}
	at := ""
	if r.Debugged {
		at = "the debugger, in "
	}
	if s.Down || r.Debugged {
		s.Is = fmt.Sprintf("is in %s%s; %s", at, cmp.Or(r.in(), "no call"), s.Is)
	}
	for _, w := range r.Waits {
		w.For = j.waitsFor(r, &w)
		if w.Scope == "world" {
			w.Scope = ""
		}
		s.Waits = append(s.Waits, w)
	}
	if in := r.in(); in != "" && len(s.Waits) == 0 {
		s.Calls = []string{in}
	}
	return s
}

// forms reports whether the rank waits for its world.
func (r *Rank) forms() bool {
	return r.Page != nil && (r.Page.Phase == status.Starting || r.Page.Phase == status.Renewing)
}

// late returns the ranks that a rank which waits for its world waits for: those that do not.
func (j *Job) late(r *Rank) (ranks []int) {
	for i := range j.Ranks {
		o := &j.Ranks[i]
		if !o.forms() && (o.Page == nil || o.Page.Phase != status.Closed && o.Page.Epoch <= r.Page.Epoch) {
			ranks = append(ranks, o.Rank)
		}
	}
	return ranks
}

// Judge returns why the ranks of a job wait, in the launcher's numbers.
func Judge(j *Job) waits.Verdict {
	var all []waits.Seen
	for i := range j.Ranks {
		all = append(all, j.seen(&j.Ranks[i]))
	}
	return waits.Judge(all)
}

// Text returns the verdict in one sentence or two, for people.
func (j *Job) Text(v *waits.Verdict) string {
	writing := 0
	for i := range j.Ranks {
		if j.unread(&j.Ranks[i]) {
			writing++
		}
	}
	switch {
	case len(j.Ranks) == 0:
		return "no rank runs"
	case v.Waiting == 0 && writing > 0:
		return fmt.Sprintf("treerun's %s is not read: %s blocked in write", j.Unread, numbers.Count(writing, "rank"))
	case v.Waiting == 0:
		return "no rank waits for another"
	case v.Circle != "":
		return v.Circle
	}
	text := fmt.Sprintf("%s for %s; ", j.waiting(v), Seconds(time.Duration(j.Seen-v.Since)))
	if len(v.AtFault) == 0 {
		return text + "the cause is not known"
	}
	const most = 3
	unread := false
	for i, rank := range v.AtFault {
		if i == most {
			text += fmt.Sprintf("; and %s", numbers.Count(len(v.AtFault)-most, "further rank"))
			break
		}
		if i > 0 {
			text += "; "
		}
		text += fmt.Sprintf("rank %d %s", rank, v.Is[i])
		r := j.rank(rank)
		if r != nil && r.Line != "" {
			text += ", in " + r.Line
		}
		unread = unread || r != nil && j.unread(r)
	}
	if unread {
		text += ": treerun's " + j.Unread + " is not read"
	}
	return text
}

// CallersOf returns the functions that have called that of the line of a rank.
func (j *Job) CallersOf(rank int) []string {
	if r := j.rank(rank); r != nil {
		return r.Callers
	}
	return nil
}

// waiting is the beginning of a sentence about the ranks that wait.
func (j *Job) waiting(v *waits.Verdict) string {
	waits := "ranks wait"
	if v.Waiting == 1 {
		waits = "ranks waits"
	}
	text := fmt.Sprintf("%d of %d %s", v.Waiting, len(j.Ranks), waits)
	switch n := len(v.Together); {
	case n < v.Waiting:
		return fmt.Sprintf("%s, %d of them in %s,", text, n, v.Call)
	case n > 1 && call.IsCollective(v.Call):
		return fmt.Sprintf("%d of %d ranks wait together in %s", n, len(j.Ranks), v.Call)
	}
	return fmt.Sprintf("%s in %s", text, v.Call)
}

// Seconds rounds a duration for people.
func Seconds(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
