package probe

import "github.com/treerun/treerun/topo/network"

// judgment is what a host has seen of its own flows. Whatever else the hosts, or
// the network, have to do for a moment slows a flow down: the host says which
// turns had better be taken again.
type judgment struct {
	alone  map[[2]int]float64 // by source and destination, GB/s
	centre map[int]float64    // by planned turn: what all flows of this host brought
}

// note keeps the best rates of a planned turn's flows that are this host's; those
// of others are 0.
func (j *judgment) note(t network.Turn, place, host int, rates []float64) {
	if j.alone == nil {
		j.alone, j.centre = make(map[[2]int]float64), make(map[int]float64)
	}
	mine, alone := t.Of(host)
	switch {
	case alone:
		f := t.Flows[mine[0]]
		j.alone[f] = max(j.alone[f], rates[mine[0]])
	case len(mine) > 1:
		sum := 0.0
		for _, i := range mine {
			sum += rates[i]
		}
		j.centre[place] = max(j.centre[place], sum)
	}
}

// Two rates that differ by more do not fit.
const (
	doubtful = 1.08
	absurd   = 1.5
	sharing  = 1.1
)

// doubts returns the turns to be taken again, a bit each, and those of them that
// are far off: the slower direction of a pair, and flows of a star that shared
// something, brought less than one of them had brought alone, or less than they
// did the other way.
func (j *judgment) doubts(host int, turns []network.Turn) (all, far uint64) {
	best := 0.0 // of this host's stars
	for _, v := range j.centre {
		best = max(best, v)
	}
	judge := func(i int, got, want float64) {
		if got*doubtful < want {
			all |= 1 << i
		}
		if got*absurd < want {
			far |= 1 << i
		}
	}
	for i, t := range turns[:min(len(turns), 64)] {
		mine, alone := t.Of(host)
		switch {
		case t.Trips || len(mine) == 0:
		case alone:
			f := t.Flows[mine[0]]
			judge(i, j.alone[f], j.alone[[2]int{f[1], f[0]}])
		case len(mine) > 1:
			most, sum := 0.0, 0.0
			for _, k := range mine {
				v := j.alone[t.Flows[k]]
				most, sum = max(most, v), sum+v
			}
			if v := j.centre[i]; v*sharing < sum {
				judge(i, v, max(most, min(best, sum)))
			}
		}
	}
	return all, far
}
