package waits

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Cause is the reason why a wait has not ended.
type Cause struct {
	Rank int    // rank at fault, in the job's numbers; -1: not a single rank, as in a circle, or not known
	Text string // the chain of waits up to the rank at fault
	Last int    // rank at the end of the chain of waits; -1: a circle, or not known
	Is   string // known facts about that rank or the circle
	busy bool   // the rank is in a call and has not published a wait
}

// class is the state of a rank, the worst first: of several ranks that others wait for, the worst is the one that they
// wait for in the end.
type class int

const (
	stopped class = iota // its process is stopped, or has ended
	mute                 // it does not answer
	circle               // it waits for a rank that waits for it
	absent               // it is in no call
	moving               // it is in a call that makes progress, or does not know which rank it waits for
	unknown              // it cannot be queried
	waiting              // it waits for others
)

// node is a rank that is waited for, at the end of a chain or within it.
type node struct {
	rank  int
	class class
	is    string // known facts about the rank: "is stopped by SIGSTOP (process 12)"
	waits []Waiting
	from  *node // rank that waits for it, nil for this rank
	by    hop   // the wait of from for this rank
	busy  bool
}

// Limits of a query of the other ranks.
const (
	queryTimeout = time.Second
	lookFor      = 3 * time.Second // for all ranks together
	askers       = 16              // concurrent queries
	maxListed    = 4               // ranks of a chain that are listed
	maxLooks     = 1024            // ranks
	busyTimeout  = time.Second     // for a rank that is in a call
)

// Why determines why the wait that w has published has not ended: it queries the ranks that are waited for about their
// own waits, and so on. It takes a second or more only if ranks do not answer or appear to make progress: a rank that
// entered the call late may itself wait soon, and must not be blamed for the rank that it will then wait for.
func (w *Wait) Why(ctx context.Context) Cause {
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	c, ring := w.look(ctx)
	for begin := time.Now(); c.busy && time.Since(begin) < busyTimeout; c, ring = w.look(ctx) {
		time.Sleep(settleEvery)
	}
	if ring != nil { // ranks were queried one after the other: do they still wait for each other?
		again, same := w.look(ctx)
		if same == nil || !slices.Equal(ring, same) {
			return again
		}
	}
	return c
}

// noRank returns a cause without a rank at fault.
func noRank(text string) Cause { return Cause{Rank: -1, Text: text, Last: -1, Is: text} }

// look queries the other ranks once.
func (w *Wait) look(ctx context.Context) (Cause, []hop) {
	j := w.job
	self := &node{rank: j.Rank, class: waiting}
	w.mu.Lock()
	blockers, age := slices.Clone(w.now.blockers), time.Since(w.now.since)
	w.mu.Unlock()
	own, is := w.waiting()
	if !is {
		return noRank("it has made progress meanwhile"), nil
	}
	if len(own.For) == 0 { // any of them may be the one
		for i := range max(len(w.Scope.ranks), j.Size) {
			if r := w.Scope.inJob(i); r != j.Rank && (w.Scope.ranks == nil || i < len(w.Scope.ranks)) {
				own.For = append(own.For, r)
			}
		}
	}
	self.waits = []Waiting{own}
	all := j.follow(ctx, self, age)
	c, ring := judge(all)
	for _, l := range blockers { // add this rank's own knowledge of the rank that it waits for
		if r := w.Scope.inJob(l.Rank); ring == nil && (r == c.Rank && r >= 0 || len(blockers) == 1) {
			c.Text = fmt.Sprintf("for %s; %s", Blocker{Rank: r, What: l.What}, c.Text)
			break
		}
	}
	return c, ring
}

// follow queries the ranks that self waits for, the ranks that these wait for, and so on, and returns all ranks that it
// has reached, including self. age is how long self has waited.
func (j *Job) follow(ctx context.Context, self *node, age time.Duration) map[int]*node {
	all := map[int]*node{self.rank: self}
	for level := []*node{self}; len(level) > 0; {
		var next []*node
		for _, n := range level {
			for _, wait := range n.waits {
				for _, r := range wait.For {
					if all[r] == nil && len(all) < maxLooks {
						all[r] = &node{rank: r, from: n, by: hopOf(n.rank, r, wait)}
						next = append(next, all[r])
					}
				}
			}
		}
		var asking sync.WaitGroup
		places := make(chan struct{}, askers)
		for _, n := range next {
			asking.Go(func() {
				places <- struct{}{}
				j.visit(ctx, n, age)
				<-places
			})
		}
		asking.Wait()
		level = next
	}
	return all
}

// visit determines the state of n. Waits that n gave up before the look's own wait began, age ago, do not count: a
// program that tries again is in other calls by then.
func (j *Job) visit(ctx context.Context, n *node, age time.Duration) {
	process := ""
	if j.State != nil {
		pid, s := j.State(n.rank)
		if s.Stopped() || s.Ended() {
			n.class, n.is = stopped, fmt.Sprintf("is %s (process %d)", s, pid)
			return
		}
		if s.Known() {
			process = fmt.Sprintf("; its process %d is %s", pid, s)
		}
	}
	if j.Query == nil {
		n.class, n.is = unknown, "is waited for"+process
		return
	}
	within, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	s, err := j.Query(within, n.rank, n.rank)
	s.Waits = slices.DeleteFunc(s.Waits, func(w Waiting) bool { return w.GaveUp > int64(age) })
	switch {
	case err != nil:
		n.class, n.is = mute, "gives no answer"+process
		if state := j.secondHand(ctx, n.rank); state != "" {
			n.is = state
			if strings.HasPrefix(state, "is stopped") {
				n.class = stopped
			}
		}
	case slices.ContainsFunc(s.Waits, func(w Waiting) bool { return len(w.For) > 0 }):
		n.class, n.waits = waiting, s.Waits
		same := func(w Waiting) bool { return w.Scope == n.by.scope && len(w.For) > 0 }
		if slices.ContainsFunc(s.Waits, same) {
			// its waits in other scopes do not matter
			n.waits = slices.DeleteFunc(n.waits, func(w Waiting) bool { return w.Scope != n.by.scope })
		}
	case len(s.Waits) > 0:
		n.class, n.is = moving, "is in "+place(s.Waits[0].In, s.Waits[0].Scope)+process
	case len(s.Busy) > 0:
		n.class, n.busy, n.is = moving, true, "is in a call on "+s.Busy[0]+" that makes progress"+process
	default:
		n.class, n.is = absent, "is in no call of treerun"+process
	}
}

// secondHand queries a rank on the host of r, which does not answer, for the state of r's process.
func (j *Job) secondHand(ctx context.Context, r int) string {
	if j.HostOf == nil || j.HostOf(r) == j.HostOf(j.Rank) {
		return ""
	}
	for q := range j.Size {
		if q == r || j.HostOf(q) != j.HostOf(r) {
			continue
		}
		within, cancel := context.WithTimeout(ctx, queryTimeout)
		s, err := j.Query(within, q, r)
		cancel()
		if err == nil && s.State != "" {
			return fmt.Sprintf("is %s, according to rank %d", s.State, q)
		}
		break
	}
	return ""
}

// judge returns the rank, or the circle, that the others wait for.
func judge(all map[int]*node) (Cause, []hop) {
	var worst *node
	for _, n := range all {
		if n.class == waiting {
			continue
		}
		if worst == nil || cmp.Or(cmp.Compare(n.class, worst.class), cmp.Compare(n.rank, worst.rank)) < 0 {
			worst = n
		}
	}
	ring := shortest(stuck(all), worst != nil)
	switch {
	case ring != nil && (worst == nil || worst.class > circle):
		return noRank(describeRing(ring)), ring
	case worst == nil:
		return noRank("it has made progress meanwhile"), nil
	}
	same, busy := 0, false
	for _, n := range all {
		if n.class == worst.class {
			same++
			busy = busy || n.busy
		}
	}
	is := worst.is
	switch others := same - 1; {
	case others == 1:
		is += " (and another rank likewise)"
	case others > 1:
		is += fmt.Sprintf(" (and %d other ranks likewise)", others)
	}
	c := Cause{Rank: worst.rank, Text: worst.describe(is), Last: worst.rank, Is: is, busy: busy}
	if worst.class > absent && same > 1 {
		c.Rank = -1 // any of them may be at fault, or none
	}
	return c, nil
}

// describe returns a description of the chain of waits up to n, and of n itself.
func (n *node) describe(is string) string {
	var hops []hop // from the rank that self waits for to n
	for m := n; m.from != nil && m.from.from != nil; m = m.from {
		hops = append(hops, m.by)
	}
	if len(hops) == 0 {
		return fmt.Sprintf("rank %d %s", n.rank, is)
	}
	slices.Reverse(hops)
	return fmt.Sprintf("%s, which %s", describeHops(hops), is)
}
