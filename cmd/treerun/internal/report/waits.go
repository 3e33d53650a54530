package report

import (
	"cmp"
	"slices"

	"github.com/treerun/treerun/cmd/treerun/internal/recording"
	"github.com/treerun/treerun/internal/record"
)

// maxMatrix is the number of rows, and of columns, of the matrix.
const maxMatrix = 40

// wait is a wait for other ranks, in seconds since the beginning of the job.
type wait struct {
	from, to    float64
	peers       []int
	comm, label string
	open        bool // the process has ended in it
}

// waits returns who has waited for whom, and the ranks that were waited for.
func waits(j *recording.Job) (*matrix, []late) {
	f := follower{of: make(map[int][]wait), budget: maxFollowed}
	of := f.of
	for i := range j.Processes {
		p := &j.Processes[i]
		of[p.Rank] = append(of[p.Rank], waitsOf(j, p)...)
	}
	for _, list := range of {
		slices.SortStableFunc(list, func(a, b wait) int { return cmp.Compare(a.from, b.from) })
	}
	cells := make(map[[2]int]float64) // by the rank that waits, and the other
	rows, columns, total := make(map[int]float64), make(map[int]float64), 0.0
	for r, list := range of {
		for _, w := range list {
			peers := f.culprits(r, w)
			for _, peer := range peers {
				part := (w.to - w.from) / float64(len(peers))
				cells[[2]int{r, peer}] += part
				rows[r] += part
				columns[peer] += part
				total += part
			}
		}
	}
	if total == 0 {
		return nil, nil
	}
	m := &matrix{Rows: longest(rows), Columns: longest(columns)}
	m.LeftOut = max(len(rows)-len(m.Rows), len(columns)-len(m.Columns))
	var list []late
	for _, c := range m.Columns {
		waiting := 0
		for r := range rows {
			if cells[[2]int{r, c}] > 0 {
				waiting++
			}
		}
		list = append(list, late{Rank: c, Host: hostOf(j, c), Waited: columns[c], Ranks: waiting,
			Share: columns[c] / total})
	}
	slices.SortStableFunc(list, func(a, b late) int { return cmp.Compare(b.Waited, a.Waited) })
	for _, r := range m.Rows {
		row := make([]float64, len(m.Columns))
		for i, c := range m.Columns {
			row[i] = cells[[2]int{r, c}]
		}
		m.Cells = append(m.Cells, row)
	}
	return m, list
}

// follower follows waits from rank to rank.
type follower struct {
	of     map[int][]wait // by rank, by from
	budget int            // waits that it may still look at
}

// maxFollowed bounds the work for a job of many ranks with many waits: those after it are not followed.
const maxFollowed = 1 << 21

// culprits follows a wait of a rank to the ranks that did not wait themselves meanwhile. Where all did, as in a circle,
// it returns the ranks that the wait is for.
func (f *follower) culprits(rank int, w wait) (found []int) {
	if f.budget < 0 {
		return w.peers
	}
	seen, next := map[int]bool{rank: true}, w.peers
	for len(next) > 0 && len(found) == 0 {
		var after []int
		for _, peer := range next {
			if seen[peer] {
				continue
			}
			seen[peer] = true
			if peers, waited := f.waitedThen(peer, w); waited {
				after = append(after, peers...)
			} else {
				found = append(found, peer)
			}
		}
		next = after
	}
	if len(found) == 0 {
		return w.peers
	}
	return found
}

// waitedThen reports whether a rank has waited for most of the time of w, and for whom.
func (f *follower) waitedThen(rank int, w wait) (peers []int, waited bool) {
	list := f.of[rank]
	// Waits of a rank hardly overlap: the one before the first that begins within w is the only earlier one that counts.
	i, _ := slices.BinarySearchFunc(list, w.from, func(x wait, at float64) int { return cmp.Compare(x.from, at) })
	both := 0.0
	f.budget--
	for i = max(i-1, 0); i < len(list) && list[i].from < w.to; i++ {
		f.budget--
		if common := min(list[i].to, w.to) - max(list[i].from, w.from); common > 0 {
			both += common
			peers = append(peers, list[i].peers...)
		}
	}
	return peers, both > (w.to-w.from)/2
}

// waitsOf returns the waits of a process for known ranks. Those for several ranks are an event for each.
func waitsOf(j *recording.Job, p *recording.Process) (list []wait) {
	type key struct {
		start int64
		comm  record.Name
	}
	index := make(map[key]int)
	for i := range p.Events {
		e := &p.Events[i]
		if e.Kind != record.Wait || e.Peer < 0 {
			continue
		}
		from := seconds(j.Time(p, e.Start))
		to, open := from+e.Took.Seconds(), false
		if e.Flags&record.Open != 0 {
			if !p.Open(i) {
				continue
			}
			to, open = max(from, p.Ended.Seconds()), true
		}
		k := key{e.Start, e.Comm}
		at, known := index[k]
		if !known {
			at = len(list)
			index[k], list = at, append(list,
				wait{from: from, to: to, comm: p.Name(e.Comm), label: p.Name(e.Label), open: open})
		}
		list[at].to = max(list[at].to, to)
		if !slices.Contains(list[at].peers, e.Peer) {
			list[at].peers = append(list[at].peers, e.Peer)
		}
	}
	return list
}

// longest returns the ranks with the longest waits, at most maxMatrix, in order.
func longest(sums map[int]float64) []int {
	var all []int
	for r := range sums {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b int) int { return cmp.Or(cmp.Compare(sums[b], sums[a]), a-b) })
	all = all[:min(len(all), maxMatrix)]
	slices.Sort(all)
	return all
}

// hostOf returns the host of the latest process of a rank.
func hostOf(j *recording.Job, rank int) (host string) {
	for i := range j.Processes {
		if p := &j.Processes[i]; p.Rank == rank {
			host = j.Hosts[p.Host].Name
		}
	}
	return host
}
