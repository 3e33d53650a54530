package waits

import (
	"maps"
	"slices"
)

// Seen is a rank as it is seen from outside: from what it has published, and from its process. It need not answer.
type Seen struct {
	Rank  int
	Waits []Waiting // that are not over
	Calls []string  // communicators with a call under way that does not wait, each with the name of the call
	Down  bool      // its process is stopped, or has ended
	Blind string    // why its waits are not known, "" if they are
	Is    string    // known facts about its process
}

// Verdict is the reason why the ranks of a job wait.
type Verdict struct {
	Waiting  int    // number of ranks that wait
	Call     string // in which most of them wait, with its scope
	Together []int  // those, in ascending order
	Since    int64  // Unix time in nanoseconds at which the first of all waits began

	// AtFault are the ranks that others wait for and that wait for none, in ascending order: if some are stopped or have
	// ended, these; else those that are in no call; else those in calls that make progress.
	AtFault []int
	Is      []string // known facts about each of them
	Circle  string   // ranks that wait for each other, in words; AtFault is empty then
}

// Judge returns why ranks wait, given all ranks of a job. Without a rank that waits it returns the zero Verdict.
func Judge(ranks []Seen) (v Verdict) {
	all := make(map[int]*node, len(ranks))
	for i := range ranks {
		all[ranks[i].Rank] = seenNode(&ranks[i])
	}
	needed := make(map[int]*node, len(all))
	calls := make(map[string][]int)
	for _, r := range slices.Sorted(maps.Keys(all)) {
		n := all[r]
		if n.class != waiting {
			continue
		}
		needed[r] = n
		v.Waiting++
		counted := make(map[string]bool)
		for i := range n.waits {
			w := &n.waits[i]
			if in := place(w.In, w.Scope); !counted[in] {
				counted[in] = true
				calls[in] = append(calls[in], r)
			}
			if v.Since == 0 || w.Since < v.Since {
				v.Since = w.Since
			}
			for _, to := range w.For {
				if all[to] != nil {
					needed[to] = all[to]
				}
			}
		}
	}
	if v.Waiting == 0 {
		return v
	}
	for in, together := range calls {
		if more := len(together) - len(v.Together); more > 0 || more == 0 && in < v.Call {
			v.Call, v.Together = in, together
		}
	}
	cause, ring := judge(needed)
	if ring != nil {
		v.Circle = cause.Text
		return v
	}
	worst := class(unknown)
	for _, n := range needed {
		worst = min(worst, n.class)
	}
	for _, r := range slices.Sorted(maps.Keys(needed)) {
		if n := needed[r]; n.class == worst {
			v.AtFault = append(v.AtFault, r)
			v.Is = append(v.Is, n.is)
		}
	}
	return v
}

// seenNode returns the node of a rank.
func seenNode(s *Seen) *node {
	n := &node{rank: s.Rank, is: s.Is}
	for _, w := range s.Waits {
		if w.GaveUp == 0 && len(w.For) > 0 {
			n.waits = append(n.waits, w)
		}
	}
	switch {
	case s.Down:
		n.class, n.waits = stopped, nil
	case s.Blind != "":
		n.class, n.is = absent, s.Blind+"; "+s.Is
	case len(n.waits) > 0:
		n.class = waiting
	case len(s.Waits) > 0:
		n.class, n.is = moving, "is in "+place(s.Waits[0].In, s.Waits[0].Scope)+"; "+s.Is
	case len(s.Calls) > 0:
		n.class, n.is = moving, "is in "+s.Calls[0]+", which makes progress; "+s.Is
	default:
		n.class, n.is = absent, "is in no call; "+s.Is
	}
	return n
}
