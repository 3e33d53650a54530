package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/treerun/treerun/cmd/treerun/internal/recording"
	"github.com/treerun/treerun/internal/chart"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/record"
	"github.com/treerun/treerun/internal/status"
	"github.com/treerun/treerun/topo"
)

// cell is a sort of calls with like lengths.
type cell struct{ row, size int }

// sum is the total of a cell over all ranks.
type sum struct {
	record.Total
	boundOf, busOf int64 // of the ranks that know the bound: the time in these calls, and their Bus
}

// sums adds up the totals of all processes.
func sums(j *recording.Job) map[cell]*sum {
	all := make(map[cell]*sum)
	for i := range j.Processes {
		for _, t := range j.Processes[i].Totals {
			if t.Calls == 0 || t.Row == status.RowLook {
				continue
			}
			s := all[cell{t.Row, t.Size}]
			if s == nil {
				s = &sum{Total: record.Total{Row: t.Row, Size: t.Size}}
				all[cell{t.Row, t.Size}] = s
			}
			s.Calls += t.Calls
			s.Bytes += t.Bytes
			s.Bus += t.Bus
			s.Busy += t.Busy
			s.Predicted += t.Predicted
			s.Waited += t.Waited
			if t.Least > 0 && (s.Least == 0 || t.Least < s.Least) {
				s.Least = t.Least
			}
			if t.Bound > 0 {
				s.Bound += t.Bound
				s.boundOf += t.Busy
				s.busOf += t.Bus
			}
		}
	}
	return all
}

// calls returns the table of calls, by sort and length, and charts of their rates.
func calls(j *recording.Job) (list []callRow, charts []picture) {
	all := sums(j)
	var keys []cell
	for k := range all {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b cell) int {
		return cmp.Or(cmp.Compare(status.RowNames[a.row], status.RowNames[b.row]), a.size-b.size)
	})
	for _, k := range keys {
		s := all[k]
		n := float64(s.Calls)
		c := callRow{Call: s.Sort(), Calls: s.Calls, Bytes: s.Bytes, Mean: seconds(s.Busy) / n, Best: seconds(s.Least),
			Predicted: seconds(s.Predicted) / n, Waited: seconds(s.Waited), Sampled: s.From() < sampled}
		if s.Bytes > 0 {
			c.From, c.To = s.From(), 2*s.From()
		}
		if s.Busy > 0 {
			c.Bus = float64(s.Bus) / float64(s.Busy)
		}
		if s.boundOf > 0 {
			c.Bound = float64(s.Bound) / float64(s.boundOf)
		}
		list = append(list, c)
	}
	for row := range status.RowNames {
		if p, ok := rates(all, row); ok {
			charts = append(charts, p)
		}
	}
	return list, charts
}

// rates draws the rates of a sort of calls over their lengths, if there are several.
func rates(all map[cell]*sum, row int) (picture, bool) {
	curves := []chart.Curve{{Name: "mean"}, {Name: "best"}, {Name: "predicted"}, {Name: "bound", Limit: true}}
	for size := range 64 {
		s := all[cell{row, size}]
		if s == nil || s.Bus == 0 || s.Busy == 0 {
			continue
		}
		x, each := float64(s.Bytes)/float64(s.Calls), float64(s.Bus)/float64(s.Calls)
		for i, v := range []float64{float64(s.Bus) / float64(s.Busy), each / float64(s.Least),
			float64(s.Bus) / float64(s.Predicted), float64(s.busOf) / float64(s.Bound)} {
			if v > 0 && v < 1e6 { // else it is not known
				curves[i].Points = append(curves[i].Points, chart.At(x, v))
			}
		}
	}
	if len(curves[0].Points) < 2 {
		return picture{}, false
	}
	name := status.RowNames[row]
	svg, err := chart.SVG("", 520, 300,
		[]chart.Panel{{Title: name, X: "bytes", Y: "busbw, GB/s", Sizes: true, Curves: curves}})
	return picture{Title: name + ": rates over the length of a call, as nccl-tests counts them", SVG: string(svg),
		About: "the achieved, best and predicted rates of " + name + "; the table below has the figures"}, err == nil
}

// maxSlow is the number of calls among the slowest.
const maxSlow = 25

// place is the place of an event of a job.
type place struct{ process, index int }

func (p place) event(j *recording.Job) *record.Event { return &j.Processes[p.process].Events[p.index] }

// slowest returns the calls that took longest, of each the slowest rank. Of small calls that were only counted it has
// the waits.
func slowest(j *recording.Job) []slow {
	type call struct {
		comm, sort string
		attempt    int // of the processes
		number     uint64
		place      // of messages, which have no number
	}
	worst := make(map[call]place)
	for i := range j.Processes {
		p := &j.Processes[i]
		for k := range p.Events {
			e := &p.Events[k]
			if e.Kind != record.Call || e.Flags&record.Begun != 0 || int(e.Row) == status.RowLook {
				continue
			}
			c := call{comm: p.Name(e.Comm), sort: e.Sort(), attempt: p.Attempt, number: e.Number}
			if e.Number == 0 {
				c.place = place{i, k}
			}
			if at, known := worst[c]; !known || e.Took > at.event(j).Took {
				worst[c] = place{i, k}
			}
		}
	}
	all := waitsOfCounted(j)
	for _, at := range worst {
		all = append(all, at)
	}
	slices.SortFunc(all, func(a, b place) int {
		return cmp.Or(cmp.Compare(b.event(j).Took, a.event(j).Took), a.process-b.process, a.index-b.index)
	})
	list := unreturned(j)
	for _, at := range all[:min(len(all), maxSlow)] {
		p := &j.Processes[at.process]
		e := at.event(j)
		s := slow{Rank: p.Rank, Call: e.Sort(), Comm: p.Name(e.Comm), Algorithm: p.Name(e.Label),
			Number: e.Number, Bytes: e.Bytes, At: seconds(j.Time(p, e.Start)), Took: e.Took.Seconds(),
			Waited: e.Waited.Seconds(), Predicted: e.Predicted.Seconds(), For: waitedFor(p, e),
			Failed: e.Flags&record.Failed != 0}
		if e.Kind == record.Wait {
			s.Call, s.Algorithm, s.Waited = p.Name(e.Label), "", s.Took
		}
		list = append(list, s)
	}
	slices.SortStableFunc(list, func(a, b slow) int { return cmp.Compare(b.Took, a.Took) })
	return list[:min(len(list), maxSlow)]
}

// unreturned returns the calls in which processes have ended, of each the rank that has waited longest.
func unreturned(j *recording.Job) (list []slow) {
	for i := range j.Processes {
		p := &j.Processes[i]
		for _, w := range waitsOf(j, p) {
			if !w.open {
				continue
			}
			s := slow{Rank: p.Rank, Call: w.label + " (not returned)", Comm: w.comm, At: w.from, Took: w.to - w.from,
				Waited: w.to - w.from, For: topo.RankList(slices.Sorted(slices.Values(w.peers)))}
			k := slices.IndexFunc(list, func(o slow) bool {
				return o.Call == s.Call && o.Comm == s.Comm && s.At < o.At+o.Took && o.At < s.At+s.Took
			})
			switch {
			case k < 0:
				list = append(list, s)
			case s.Took > list[k].Took:
				list[k] = s
			}
		}
	}
	return list
}

// waitsOfCounted returns the waits in calls that were only counted. Of those that overlap, of a sort on a communicator,
// it has the longest one: they are of the same call.
func waitsOfCounted(j *recording.Job) (list []place) {
	var all []place
	for i := range j.Processes {
		p := &j.Processes[i]
		for k := range p.Events {
			e := &p.Events[k]
			if e.Kind == record.Wait && e.Peer >= 0 && e.Flags&record.Open == 0 &&
				slices.Contains(status.RowNames[:], p.Name(e.Label)) && !recorded(p, k) {
				all = append(all, place{i, k})
			}
		}
	}
	of := func(at place) *recording.Process { return &j.Processes[at.process] }
	start := func(at place) int64 { return j.Time(of(at), at.event(j).Start) }
	slices.SortStableFunc(all, func(a, b place) int { return cmp.Compare(start(a), start(b)) })
	type sort struct{ comm, label string }
	last, end := make(map[sort]int), make(map[sort]int64) // of a sort: the latest one in list, and its end
	for _, at := range all {
		e := at.event(j)
		k := sort{of(at).Name(e.Comm), of(at).Name(e.Label)}
		i, known := last[k]
		switch to := start(at) + int64(e.Took); {
		case !known || start(at) > end[k]:
			last[k], end[k] = len(list), to
			list = append(list, at)
		default:
			end[k] = max(end[k], to)
			if e.Took > list[i].event(j).Took {
				list[i] = at
			}
		}
	}
	return list
}

// recorded reports whether the call that a wait is a part of was recorded: calls on a communicator follow each other,
// and the event of a call comes at its end.
func recorded(p *recording.Process, wait int) bool {
	w := &p.Events[wait]
	for i := wait + 1; i < len(p.Events); i++ {
		if e := &p.Events[i]; e.Kind == record.Call && e.Comm == w.Comm {
			return e.Start <= w.Start
		}
	}
	return false
}

// waitedFor lists the ranks that a process has waited for during a call.
func waitedFor(p *recording.Process, call *record.Event) string {
	var ranks []int
	for i := range p.Events {
		e := &p.Events[i]
		if e.Kind == record.Wait && e.Comm == call.Comm && e.Peer >= 0 && e.Start >= call.Start &&
			e.Start <= call.Start+int64(call.Took) && !slices.Contains(ranks, e.Peer) {
			ranks = append(ranks, e.Peer)
		}
	}
	slices.Sort(ranks)
	return topo.RankList(ranks)
}

// about describes a length.
func about(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return " of " + numbers.Bytes(bytes)
}

// planOf describes a plan of a call.
func planOf(call string, bytes int64, algorithm string) string {
	return fmt.Sprintf("%s%s: %s", call, about(bytes), algorithm)
}
