package recording

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/record"
)

// CheckTimeline reports an error where no file of that name can be written.
func CheckTimeline(file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	return f.Close()
}

// StoreTimeline writes the timeline of a job to a file: as JSON if its name ends in .json, else as Perfetto's track
// events.
func StoreTimeline(file string, j *Job) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	if strings.EqualFold(filepath.Ext(file), ".json") {
		err = writeJSON(w, j)
	} else {
		err = writePerfetto(w, j)
	}
	return cmp.Or(err, w.Flush(), f.Close())
}

// writePerfetto writes the timeline of a job as track events of Perfetto.
func writePerfetto(w io.Writer, j *Job) error {
	out := &perfetto{w: w}
	write(out, j)
	return out.err
}

// writeJSON writes the timeline of a job in Chrome's format.
func writeJSON(w io.Writer, j *Job) error {
	out := &chrome{w: w}
	write(out, j)
	out.finish()
	return out.err
}

// arg is a named value of a slice. Its value is a string, an int64 or a float64.
type arg struct {
	name  string
	value any
}

// sink is a form of a timeline. Times are in nanoseconds. Groups and rows come before their events.
type sink interface {
	group(id int, name, label string)
	row(id, group int, name string, order int)
	begin(row int, at int64, name, category string, args []arg, arrows []uint64) // arrows end here
	end(row int, at int64)
	mark(row int, at int64, name string, args []arg, arrow uint64) // an arrow begins here; 0: none
}

// slice is something on a row that took time.
type slice struct {
	from, to int64
	name     string
	category string
	args     []arg
	peers    []int // the ranks that it waits for
	arrows   []uint64
}

// track is a process of a rank with its slices.
type track struct {
	*Process
	rows   int     // the number of its first row
	lanes  [][]int // by row: indices of slices that lie within each other or apart, in the order of their beginnings
	slices []slice
}

// jobGroup is the group of the job as a whole; those of hosts come after it.
const jobGroup = 1

// write writes a timeline.
func write(out sink, j *Job) {
	out.group(jobGroup, "treerun "+j.Program, j.ID)
	out.row(1, jobGroup, "job", 0)
	for i := range j.Hosts {
		h := &j.Hosts[i]
		label := "the launcher's clock"
		if len(h.Clocks) > 0 {
			label = fmt.Sprintf("clock within %v of the launcher's", h.Error())
		}
		out.group(jobGroup+1+i, "host "+h.Name, label)
	}
	all := make([]track, len(j.Processes))
	byRank, rows := make(map[int][]*track), 2
	for i := range all {
		p := &all[i]
		*p = track{Process: &j.Processes[i], rows: rows}
		p.fill(j)
		p.spread()
		byRank[p.Rank] = append(byRank[p.Rank], p)
		for lane := range p.lanes {
			out.row(rows, jobGroup+1+p.Host, p.name(lane), rows)
			rows++
		}
	}
	arrows(out, all, byRank)
	writeJob(out, j)
	for i := range all {
		all[i].write(out)
	}
}

// writeJob writes the row of the job, with facts about the timeline itself.
func writeJob(out sink, j *Job) {
	args := []arg{{"job", j.ID}, {"command", strings.Join(j.Args, " ")}, {"exit code", int64(j.Code)},
		{"began", j.Start.UTC().Format("2006-01-02T15:04:05.000000Z")}}
	for i := range j.Hosts {
		h := &j.Hosts[i]
		if n := len(h.Clocks); n > 0 {
			args = append(args, arg{"clock of " + h.Name, fmt.Sprintf("%v ahead of the launcher's, at most %v wrong, in %s",
				time.Duration(h.Clocks[n-1].Offset), h.Error(), numbers.Count(n, "comparison"))})
		}
	}
	for i := range j.Processes {
		p := &j.Processes[i]
		if p.Why != "" {
			args = append(args, arg{fmt.Sprintf("rank %d", p.Rank), "not recorded: " + p.Why})
		} else if n := p.Lost(); n > 0 {
			args = append(args, arg{fmt.Sprintf("rank %d", p.Rank), fmt.Sprintf("its first %d events are left out", n)})
		}
	}
	out.begin(1, 0, "job", "job", args, nil)
	for i := range j.Processes {
		if p := &j.Processes[i]; p.Failed {
			out.mark(1, int64(p.Ended), fmt.Sprintf("rank %d %s", p.Rank, p.Outcome), nil, 0)
		}
	}
	out.end(1, int64(j.Took))
}

// name returns the name of a row of p.
func (p *track) name(lane int) string {
	name := fmt.Sprintf("rank %d", p.Rank)
	if p.Attempt > 0 {
		name += fmt.Sprintf(", process %d", p.Attempt+1)
	}
	if lane > 0 {
		name += " (at the same time)"
	}
	return name
}

// fill makes the slices of p.
func (p *track) fill(j *Job) {
	last := -1 // the slice of the latest wait
	var lastOf record.Event
	for i := range p.Events {
		e := &p.Events[i]
		from := j.Time(p.Process, e.Start)
		s := slice{from: from, to: from + int64(e.Took), category: e.Kind.String()}
		switch e.Kind {
		case record.Call:
			p.call(&s, e)
		case record.Wait:
			if e.Flags&record.Open != 0 && !p.Open(i) {
				continue
			}
			if e.Flags&record.Open != 0 {
				s.to = int64(p.Ended)
			}
			if last >= 0 && lastOf.Start == e.Start && lastOf.Comm == e.Comm {
				p.slices[last].add(e.Peer)
				continue
			}
			last, lastOf = len(p.slices), *e
			p.wait(&s, e)
		case record.Span:
			s.name = p.Name(e.Label)
		default:
			s.name = e.Kind.String()
			for _, n := range []record.Name{e.Label, e.Comm} {
				if text := p.Name(n); text != "" {
					s.name += " " + text
				}
			}
		}
		s.to = max(s.to, s.from)
		p.slices = append(p.slices, s)
	}
}

// call completes the slice of a call.
func (p *track) call(s *slice, e *record.Event) {
	s.name = e.Sort()
	switch {
	case e.Flags&record.Begun != 0:
		s.name = "Start" + s.name
	case e.Flags&record.Resumed != 0:
		s.name = "Wait for " + s.name
	}
	if e.Bytes > 0 {
		s.name += " " + numbers.Bytes(e.Bytes)
	}
	s.args = []arg{{"communicator", p.Name(e.Comm)}, {"bytes", e.Bytes}}
	if e.Number > 0 {
		s.args = append(s.args, arg{"number", int64(e.Number)})
	}
	if text := p.Name(e.Label); text != "" {
		s.args = append(s.args, arg{"algorithm", text})
	}
	if e.Predicted > 0 {
		s.args = append(s.args, arg{"predicted us", float64(e.Predicted) / 1e3},
			arg{"times as long as predicted", float64(e.Took) / float64(e.Predicted)})
	}
	if e.Waited > 0 {
		s.args = append(s.args, arg{"waited us", float64(e.Waited) / 1e3})
	}
	if e.Flags&record.Sampled != 0 {
		s.args = append(s.args, arg{"sample", "further calls like this one were only counted"})
	}
	if e.Flags&record.Failed != 0 {
		s.args = append(s.args, arg{"failed", "yes"})
	}
}

// wait completes the slice of a wait.
func (p *track) wait(s *slice, e *record.Event) {
	s.name = "waits"
	s.args = []arg{{"in", p.Name(e.Label)}, {"communicator", p.Name(e.Comm)}}
	if e.Flags&record.Failed != 0 {
		s.args = append(s.args, arg{"failed", "yes"})
	}
	s.add(e.Peer)
}

// add adds a rank that a wait is for.
func (s *slice) add(peer int) {
	switch {
	case peer < 0 || slices.Contains(s.peers, peer):
		return
	case len(s.peers) == 0:
		s.name += " for rank"
	default:
		s.name += ","
	}
	s.peers = append(s.peers, peer)
	s.name += fmt.Sprintf(" %d", peer)
}

// spread spreads the slices over as few rows as it can, such that those of a row lie within each other or apart.
func (p *track) spread() {
	order := numbers.Below(len(p.slices))
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &p.slices[a], &p.slices[b]
		return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(y.to, x.to))
	})
	p.lanes = make([][]int, 1)
	open := make([][]int64, 1) // by row: the ends of the slices around the next one
	for _, i := range order {
		s := &p.slices[i]
		lane := 0
		for ; lane < len(p.lanes); lane++ {
			ends := open[lane]
			for len(ends) > 0 && ends[len(ends)-1] <= s.from {
				ends = ends[:len(ends)-1]
			}
			open[lane] = ends
			if len(ends) == 0 || s.to <= ends[len(ends)-1] {
				break
			}
		}
		if lane == len(p.lanes) {
			p.lanes, open = append(p.lanes, nil), append(open, nil)
		}
		p.lanes[lane], open[lane] = append(p.lanes[lane], i), append(open[lane], s.to)
	}
}

// arrows gives each wait an arrow from each of the ranks that it is for, and marks these.
func arrows(out sink, all []track, byRank map[int][]*track) {
	next := uint64(1)
	for i := range all {
		for k := range all[i].slices {
			s := &all[i].slices[k]
			for _, peer := range s.peers {
				of := byRank[peer]
				at := slices.IndexFunc(of, func(p *track) bool { return int64(p.Ended) >= s.from })
				if at < 0 {
					continue
				}
				out.mark(of[at].rows, s.from, fmt.Sprintf("rank %d waits for this rank", all[i].Rank), nil, next)
				s.arrows = append(s.arrows, next)
				next++
			}
		}
	}
}

// write writes the slices of p.
func (p *track) write(out sink) {
	for lane, list := range p.lanes {
		row := p.rows + lane
		var open []int64
		for _, i := range list {
			s := &p.slices[i]
			for len(open) > 0 && open[len(open)-1] <= s.from {
				out.end(row, open[len(open)-1])
				open = open[:len(open)-1]
			}
			out.begin(row, s.from, s.name, s.category, s.args, s.arrows)
			open = append(open, s.to)
		}
		for len(open) > 0 {
			out.end(row, open[len(open)-1])
			open = open[:len(open)-1]
		}
	}
	if p.Failed {
		out.mark(p.rows, int64(p.Ended), p.Outcome, nil, 0)
	}
}
