package waits

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/treerun/treerun/internal/strict"
)

// Status describes the waits of a rank.
type Status struct {
	Waits []Waiting
	Busy  []string // scopes with a call in progress that is not waiting
	State string   // state of the process that the query is about, "" if not known
}

// Waiting is one wait of a rank, in the job's numbers.
type Waiting struct {
	Scope  string // "" for the World
	In     string
	For    []int  // empty if the rank does not know
	Any    bool   // one of them is enough, as for a message from any rank
	Number uint64 // different for every wait
	GaveUp int64  // nanoseconds ago, 0 if the rank still waits
	Since  int64  // Unix time in nanoseconds, by the clock of the rank's host
	Usual  int64  // predicted nanoseconds of the call, 0 if they are not known
}

// Bounds of a Status.
const (
	maxWaits = 64
	maxText  = 256 // bytes
)

// Check reports an error if s, which came from another rank, cannot be used in a job of the given size.
func (s *Status) Check(size int) error {
	if len(s.Waits) > maxWaits || len(s.Busy) > maxWaits {
		return fmt.Errorf("status with %d waits and %d calls, want at most %d", len(s.Waits), len(s.Busy), maxWaits)
	}
	texts := append([]string{s.State}, s.Busy...)
	for _, w := range s.Waits {
		texts = append(texts, w.Scope, w.In)
		if w.GaveUp < 0 || w.Usual < 0 {
			return fmt.Errorf("status with a wait that was given up %d ns ago, in a call of %d ns", w.GaveUp, w.Usual)
		}
		if len(w.For) > size || slices.ContainsFunc(w.For, func(r int) bool { return r < 0 || r >= size }) {
			return fmt.Errorf("status with a wait for ranks %.40v of %d", w.For, size)
		}
	}
	for _, t := range texts {
		if t != cut(t) {
			return fmt.Errorf("status with text that cannot be shown, or of more than %d bytes: %.40q", maxText, t)
		}
	}
	return nil
}

// settleFor is the time that a rank in a call has to publish its wait: a wait is published once it has become long.
const (
	settleFor   = 100 * time.Millisecond
	settleEvery = 5 * time.Millisecond
)

// Status returns the waits of this rank, and the state of the process of rank about.
func (j *Job) Status(ctx context.Context, about int) Status {
	var s Status
	for begin := time.Now(); ; {
		s = j.status()
		if slices.ContainsFunc(s.Waits, func(w Waiting) bool { return w.GaveUp == 0 }) || len(s.Busy) == 0 ||
			time.Since(begin) > settleFor || ctx.Err() != nil {
			break
		}
		time.Sleep(settleEvery)
	}
	if j.State != nil && about != j.Rank {
		if _, state := j.State(about); state.Known() {
			s.State = state.String()
		}
	}
	return s
}

func (j *Job) status() Status {
	j.mu.Lock()
	all := slices.Clone(j.waits)
	j.mu.Unlock()
	var s Status
	for _, w := range all {
		if len(s.Waits) == maxWaits || len(s.Busy) == maxWaits {
			break
		}
		if published, is := w.waiting(); is {
			s.Waits = append(s.Waits, published)
		} else if busy := w.busy.Load(); busy != nil && (*busy)() {
			s.Busy = append(s.Busy, cut(w.Scope.Name))
		}
	}
	return s
}

// show shows the waits to the process that has started this one, those for few ranks where there is no room for all.
func (j *Job) show() {
	if j.Page == nil {
		return
	}
	j.showing.Lock()
	defer j.showing.Unlock()
	s := j.status()
	for most := j.Size; !j.Page.SetWaits(strict.Marshal(&s)); most /= 2 {
		for i := range s.Waits {
			w := &s.Waits[i]
			w.For = w.For[:min(len(w.For), most)]
		}
	}
}

// waiting returns the published wait, and whether there is one.
func (w *Wait) waiting() (Waiting, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now.in == "" {
		return Waiting{}, false
	}
	out := Waiting{Scope: cut(w.Scope.Name), In: cut(w.now.in), Number: w.number, Since: w.now.since.UnixNano(),
		Usual: int64(w.now.usual)}
	if !w.gaveUp.IsZero() {
		ago := time.Since(w.gaveUp)
		if ago > giveUpShown {
			return Waiting{}, false
		}
		out.GaveUp = max(int64(ago), 1)
	}
	for _, l := range w.now.blockers {
		if r := w.Scope.inJob(l.Rank); r >= 0 && r < w.job.Size && len(out.For) < w.job.Size {
			out.For, out.Any = append(out.For, r), l.Any
		}
	}
	return out, true
}

// cut converts s into a text that passes Check: names of scopes come from the user.
func cut(s string) string {
	s = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return '?'
		}
		return c
	}, s)
	if len(s) <= maxText {
		return s
	}
	for i := range s {
		if i > maxText-8 {
			return s[:i] + "..."
		}
	}
	return s
}
