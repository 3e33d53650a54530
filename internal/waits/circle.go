package waits

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/treerun/treerun/internal/call"
)

// hop is a wait of one rank for another.
type hop struct {
	from, on  int
	in, scope string
	number    uint64 // of the wait
}

func hopOf(from, on int, w Waiting) hop {
	return hop{from, on, place(w.In, w.Scope), w.Scope, w.Number}
}

func describeHops(hops []hop) string {
	var parts []string
	for i, h := range hops {
		if left := len(hops) - maxListed; left > 0 && i >= maxListed-1 && i < len(hops)-1 {
			if i == maxListed-1 {
				parts = append(parts, fmt.Sprintf("%d more in between", left))
			}
			continue
		}
		verb := ""
		if i == 0 {
			verb = "waits "
		}
		parts = append(parts, fmt.Sprintf("rank %d %sin %s for rank %d", h.from, verb, h.in, h.on))
	}
	return strings.Join(parts, ", ")
}

func describeRing(ring []hop) string {
	other := func(h hop) bool { return h.in != ring[0].in || !call.IsCollective(h.in) }
	if !slices.ContainsFunc(ring, other) { // no rank is missing
		return describeHops(ring) + ": a circle; all are in one call (hint: is the network between them cut?)"
	}
	text := describeHops(ring) + ": a circle"
	var calls, scopes []string
	for _, h := range ring {
		calls = append(calls, h.in)
		if scope := call.UsedBy(h.in, h.scope); scope != "" && !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	if hint := call.CircleHint(calls); hint != "" {
		text += " (hint: " + hint + ")"
	}
	if len(scopes) > 1 {
		text += "; ranks use " + strings.Join(scopes, " and ") + " in different order"
	}
	return text
}

// stuck returns the ranks that cannot make progress unless another of them does: those that wait for one of them or,
// where any one of several ranks is enough, only for ranks among them.
func stuck(all map[int]*node) map[int]*node {
	left := maps.Clone(all)
	maps.DeleteFunc(left, func(_ int, n *node) bool { return n.class != waiting })
	getsOn := func(_ int, n *node) bool {
		return !slices.ContainsFunc(n.waits, func(w Waiting) bool { return holds(left, w) })
	}
	for before := len(left) + 1; len(left) < before; {
		before = len(left)
		maps.DeleteFunc(left, getsOn)
	}
	return left
}

// holds reports whether a wait cannot end before one of the stuck ranks makes progress.
func holds(stuck map[int]*node, w Waiting) bool {
	getsOn := func(r int) bool { return stuck[r] == nil }
	if w.Any {
		return !slices.ContainsFunc(w.For, getsOn)
	}
	return slices.ContainsFunc(w.For, func(r int) bool { return !getsOn(r) })
}

// shortest returns the shortest circle of ranks that wait for each other, of several the one with the lowest ranks. It
// begins with its lowest rank. shortest returns nil if there is no circle.
//
// others reports whether a rank was reached that does not wait. Then ranks that wait for each other within one
// collective are not a circle: each of them waits for several ranks, and they make progress as soon as the missing rank
// enters the call.
func shortest(all map[int]*node, others bool) []hop {
	if !inOneCollective(all) { // ranks of one call may wait for each other only since another is in none of it
		if ring := shortestOf(all, true); ring != nil {
			return ring
		}
	}
	if others {
		return nil
	}
	return shortestOf(all, false)
}

// shortestOf is shortest, of the rings that several selects: see ringFrom.
func shortestOf(all map[int]*node, several bool) (best []hop) {
	for _, start := range slices.Sorted(maps.Keys(all)) {
		if ring := ringFrom(all, start, several); ring != nil && (best == nil || len(ring) < len(best)) {
			best = ring
		}
	}
	return best
}

// inOneCollective reports whether all waits are in one and the same collective. Hundreds of ranks that wait for each
// other in that would make a long search for nothing.
func inOneCollective(all map[int]*node) bool {
	var first *Waiting
	for _, n := range all {
		for i := range n.waits {
			w := &n.waits[i]
			if first == nil {
				first = w
			}
			if !call.IsCollective(w.In) || w.In != first.In || w.Scope != first.Scope {
				return false
			}
		}
	}
	return true
}

// spot is a rank on a path over ranks, with a flag that reports whether the path passed several calls.
type spot struct {
	rank    int
	several bool
}

// ringFrom returns the shortest path from start back to start over ranks that are not below it. With several, a path
// within a single collective does not count.
func ringFrom(all map[int]*node, start int, several bool) []hop {
	came := map[spot]hop{}
	before := map[spot]spot{}
	first := spot{rank: start}
	for queue := []spot{first}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for _, wait := range all[at.rank].waits {
			if !holds(all, wait) {
				continue
			}
			for _, to := range wait.For {
				h := hopOf(at.rank, to, wait)
				next := spot{to, at.several || at != first && came[at].in != h.in}
				if to == start && (!several || next.several || !call.IsCollective(wait.In)) {
					ring := []hop{h}
					for ; at != first; at = before[at] {
						ring = append(ring, came[at])
					}
					slices.Reverse(ring)
					return ring
				}
				if _, seen := came[next]; !seen && to > start && all[to] != nil {
					came[next], before[next] = h, at
					queue = append(queue, next)
				}
			}
		}
	}
	return nil
}
