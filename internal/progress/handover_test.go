package progress

import (
	"fmt"
	"slices"
	"testing"
)

// Actions of a goroutine of the test when its steps have come to an end.
const (
	entering = iota // it begins to wait
	leaving         // its Task is over
	resting         // it is about to sleep
	waking          // its sleep is over
	claiming        // it has become the poller after it had pushed its seat
	yielding        // its seat was taken before that: it blocks, and leaves its seats to other goroutines
)

// More states of a goroutine.
const (
	asleep = left + 1 + iota
	ended
)

// goroutine is a goroutine that waits several times.
type goroutine struct {
	at    step
	why   int
	waits int   // still to come
	group []int // goroutines on whose bells it sleeps, itself last
	token int   // sent to it: 1 the poller's job, 2 that its Task is over
}

// scene is a state of all goroutines of a rank.
type scene struct {
	held         bool
	came, others []int
	all          []goroutine
}

func (s scene) clone() scene {
	s.came, s.others, s.all = slices.Clone(s.came), slices.Clone(s.others), slices.Clone(s.all)
	return s
}

// with calls f with a handover in this state, and takes over the result.
func (s *scene) with(f func(h *handover, seats []Seat)) {
	h, seats := new(handover), make([]Seat, len(s.all))
	h.held.Store(s.held)
	for _, i := range slices.Backward(s.came) {
		seats[i].next = h.arrived.Load()
		h.arrived.Store(&seats[i])
	}
	for _, g := range s.all { // the chain of a group: its owner first
		if g.at == push && g.why == waking {
			for i, k := range g.group[:len(g.group)-1] {
				seats[g.group[i+1]].next = &seats[k]
			}
		}
	}
	f(h, seats)
	s.held, s.came = h.held.Load(), nil
	for p := h.arrived.Load(); p != nil; p = p.next {
		s.came = append(s.came, indexOf(seats, p))
	}
}

func indexOf(seats []Seat, p *Seat) int {
	for i := range seats {
		if &seats[i] == p {
			return i
		}
	}
	return -1
}

// take is handover.take.
func (s *scene) take() {
	s.with(func(h *handover, seats []Seat) {
		for _, p := range h.collect(nil) {
			s.others = append(s.others, indexOf(seats, p))
		}
	})
}

// over ends a wait.
func (s *scene) over(i int) {
	g := &s.all[i]
	g.group, g.token, g.why, g.at = nil, 0, entering, hold
	if g.waits--; g.waits == 0 {
		g.at = ended
	}
}

// leave is Rank.leave of a poller, why being leaving or yielding.
func (s *scene) leave(i, why int) {
	s.take()
	s.all[i].why = why
	n := len(s.others) - 1
	if n < 0 {
		s.all[i].at = release
		return
	}
	s.all[s.others[n]].token = 1
	s.others = s.others[:n]
	s.left(i)
}

// left sets the state of a goroutine that is the poller no more.
func (s *scene) left(i int) {
	if g := &s.all[i]; g.why == yielding {
		g.at, g.why, g.group = blocks, entering, nil
		return
	}
	s.over(i)
}

// after returns all states that goroutine i can change s to.
func (s scene) after(i int) (next []scene) {
	try := func(f func(s *scene, g *goroutine)) {
		c := s.clone()
		f(&c, &c.all[i])
		next = append(next, c)
	}
	switch g := s.all[i]; g.at {
	case ended:
	case asleep:
		try(func(s *scene, g *goroutine) { g.at, g.why = hold, waking })
	case blocks:
		switch g.token {
		case 1:
			try(func(s *scene, g *goroutine) { g.at, g.token, g.group = polls, 0, nil })
		case 2:
			try(func(s *scene, _ *goroutine) { s.over(i) })
		}
	case polls:
		if g.why == leaving || g.why == yielding {
			try(func(s *scene, _ *goroutine) { s.leave(i, g.why) })
			break
		}
		if g.why == claiming {
			try(func(s *scene, g *goroutine) {
				s.take()
				k := slices.Index(s.others, i)
				if k < 0 {
					s.leave(i, yielding)
					return
				}
				s.others, g.why = slices.Delete(s.others, k, k+1), entering
			})
			break
		}
		if len(s.came) > 0 {
			try(func(s *scene, _ *goroutine) { s.take() })
		}
		for k := range s.others {
			try(func(s *scene, _ *goroutine) {
				s.all[s.others[k]].token = 2
				s.others = slices.Delete(s.others, k, k+1)
			})
		}
		try(func(s *scene, _ *goroutine) { s.leave(i, leaving) })
		try(func(s *scene, g *goroutine) {
			g.group, s.others = append(slices.Clone(s.others), i), nil
			g.at, g.why = release, resting
		})
	default:
		try(func(s *scene, g *goroutine) { s.step(i, g) })
	}
	return next
}

// step takes one step of a handover.
func (s *scene) step(i int, g *goroutine) {
	first, last := i, i
	if g.why == waking {
		last = g.group[0]
	}
	before := g.at
	s.with(func(h *handover, seats []Seat) { g.at = h.next(before, &seats[first], &seats[last]) })
	switch {
	case g.at == polls && (g.why == resting || before == hold && g.why == waking):
		s.others, g.group, g.why = append(s.others, g.group[:len(g.group)-1]...), nil, entering
	case g.at == polls && before == again:
		g.group, g.why = nil, claiming
	case g.at == polls && before == hold, g.at == blocks:
		g.group, g.why = nil, entering
	case g.at == left && g.why != resting:
		s.left(i)
	case g.at == left:
		g.at = asleep
	}
}

// check returns the violated property of a state, "" for none.
func (s scene) check() string {
	pollers, quiet, covered := 0, true, map[int]bool{}
	for _, g := range s.all {
		if g.at == polls || g.at == release || g.token == 1 {
			pollers++
		}
		quiet = quiet && (g.at == ended || g.at == asleep || g.at == blocks && g.token == 0)
		if g.at == asleep {
			for _, k := range g.group {
				covered[k] = true
			}
		}
	}
	switch {
	case pollers > 1:
		return "two pollers"
	case pollers == 1 && !s.held, pollers == 0 && s.held:
		return "a poller that does not hold, or none that does"
	case !quiet:
		return ""
	case len(s.came) > 0 || len(s.others) > 0:
		return "seats without a poller"
	}
	for i, g := range s.all {
		if g.at == blocks && !covered[i] {
			return fmt.Sprintf("goroutine %d blocks, and no poller polls or sleeps for it", i)
		}
	}
	return ""
}

// TestEveryInterleaving takes the steps of goroutines that begin to wait, poll, sleep, wake up and leave in every
// order: there is one poller at most, no goroutine waits without one, and from every state all waits can end.
func TestEveryInterleaving(t *testing.T) {
	for _, waits := range [][]int{{3, 3}, {2, 1, 1}} {
		first := scene{}
		for _, n := range waits {
			first.all = append(first.all, goroutine{at: hold, waits: n})
		}
		number := map[string]int{} // of states
		var before [][]int         // of each state: those it can be made of
		var todo []scene
		reach := func(s scene, from int) {
			slices.Sort(s.others)
			k := fmt.Sprint(s)
			n, known := number[k]
			if !known {
				n = len(before)
				number[k], before, todo = n, append(before, nil), append(todo, s)
			}
			before[n] = append(before[n], from)
		}
		reach(first, 0)
		var ends []int
		for at := 0; at < len(todo); at++ {
			s := todo[at]
			if wrong := s.check(); wrong != "" || at > 1_000_000 {
				for k := at; k > 0; k = before[k][0] {
					t.Logf("before: %+v", todo[before[k][0]])
				}
				t.Fatalf("%s: %+v", wrong, s)
			}
			moves := 0
			for i := range s.all {
				for _, next := range s.after(i) {
					moves++
					reach(next, at)
				}
			}
			if moves == 0 {
				ends = append(ends, at)
				if slices.ContainsFunc(s.all, func(g goroutine) bool { return g.at != ended }) || s.held {
					t.Fatalf("no goroutine makes progress: %+v", s)
				}
			}
		}
		can := map[int]bool{}
		for len(ends) > 0 {
			k := ends[len(ends)-1]
			if ends = ends[:len(ends)-1]; !can[k] {
				can[k] = true
				ends = append(ends, before[k]...)
			}
		}
		if len(can) != len(todo) {
			t.Errorf("of %d states %d lead to no end", len(todo), len(todo)-len(can))
		}
		t.Logf("waits %v: %d states", waits, len(todo))
	}
}
