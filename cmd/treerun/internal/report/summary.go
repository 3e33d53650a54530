package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/recording"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/record"
	"github.com/treerun/treerun/topo"
)

// sampled is the length from which on all calls are recorded.
const sampled = 32 << 10

// newPage returns the facts about a job that a treerun of this version has run.
func newPage(j *recording.Job, version string) *page {
	p := &page{
		Program: j.Program, Command: strings.Join(j.Args, " "), Job: j.ID,
		Version: version, Began: j.Start.Format("2006-01-02 15:04:05 MST"), Took: j.Took.Seconds(), Code: j.Code,
		Failed: j.Code != 0, Cause: j.Cause,
	}
	life := 0.0 // of all processes together
	for i := range j.Processes {
		r := rankOf(j, &j.Processes[i])
		p.Ranks = append(p.Ranks, r)
		p.Totals.Calls += r.Calls
		p.Totals.Bytes += r.Bytes
		p.Totals.InCalls += r.Moving + r.Wait
		p.Totals.Waited += r.Wait
		life += r.To - r.From
	}
	if life > 0 {
		p.Totals.InCalls /= life
		p.Totals.Waited /= life
	}
	p.Hosts = hosts(j)
	p.Faults = faults(j)
	p.Outcome = outcome(p)
	p.Calls, p.Charts = calls(j)
	p.Matrix, p.Late = waits(j)
	p.Slow = slowest(j)
	p.Phases = phases(j)
	p.Pictures, p.Graph = pictures(j, p.Calls)
	p.Notes = notes(j)
	return p
}

// seconds returns nanoseconds as seconds.
func seconds[T ~int64](ns T) float64 { return time.Duration(ns).Seconds() }

// rankOf returns the line of a process.
func rankOf(j *recording.Job, p *recording.Process) rank {
	r := rank{Rank: p.Rank, Attempt: p.Attempt, PID: p.PID, Host: j.Hosts[p.Host].Name, Outcome: p.Outcome,
		Failed: p.Failed, To: p.Ended.Seconds()}
	if len(p.Names) == 0 { // no head was read
		r.Why = p.Why
	}
	for i := range p.Events {
		e := &p.Events[i]
		switch e.Kind {
		case record.Join, record.Make, record.Renew:
			r.Setup += e.Took.Seconds()
		}
		if p.Attempt > 0 && (r.From == 0 || seconds(j.Time(p, e.Start)) < r.From) {
			r.From = seconds(j.Time(p, e.Start))
		}
	}
	for _, w := range waitsOf(j, p) {
		if w.open { // no total has it
			r.Wait += w.to - w.from
		}
	}
	for _, t := range p.Totals {
		r.Calls += t.Calls
		r.Bytes += t.Bytes
		r.Wait += seconds(t.Waited)
		r.Moving += seconds(max(0, t.Busy-t.Waited))
	}
	if all, life := r.Setup+r.Moving+r.Wait, r.To-r.From; all > life && all > 0 { // several goroutines make calls
		r.Setup, r.Moving, r.Wait = r.Setup*life/all, r.Moving*life/all, r.Wait*life/all
	}
	return r
}

// hosts returns the hosts with their ranks.
func hosts(j *recording.Job) (list []host) {
	for i := range j.Hosts {
		h := &j.Hosts[i]
		var ranks []int
		for k := range j.Processes {
			if p := &j.Processes[k]; p.Host == i && !slices.Contains(ranks, p.Rank) {
				ranks = append(ranks, p.Rank)
			}
		}
		clock := "the clock of the launcher"
		if len(h.Clocks) > 0 {
			clock = fmt.Sprintf("its clock is known within %v", h.Error().Round(time.Microsecond))
		}
		list = append(list, host{Name: h.Name, Ranks: topo.RankList(ranks), Clock: clock})
	}
	return list
}

// outcome describes the end of the job.
func outcome(p *page) string {
	switch lost := len(p.Faults); {
	case p.Code == 0 && lost == 0:
		return "ended well"
	case p.Code == 0 && lost == 1:
		return "ended well, after the loss of a process"
	case p.Code == 0:
		return fmt.Sprintf("ended well, after the loss of %d processes", lost)
	case lost > 0:
		ended := func(f fault) bool { return strings.HasPrefix(f.Became, jobEnded) }
		last := max(0, slices.IndexFunc(p.Faults, ended))
		return fmt.Sprintf("rank %d %s; exit code %d", p.Faults[last].Rank, p.Faults[last].What, p.Code)
	}
	if first, _, _ := strings.Cut(p.Cause, "\n"); first != "" {
		return fmt.Sprintf("%s; exit code %d", strings.TrimSuffix(first, ":"), p.Code)
	}
	return fmt.Sprintf("exit code %d", p.Code)
}

// faults returns the processes that have failed, and what became of the job.
func faults(j *recording.Job) (list []fault) {
	for i := range j.Processes {
		p := &j.Processes[i]
		if !p.Failed {
			continue
		}
		list = append(list, fault{At: p.Ended.Seconds(), Rank: p.Rank, Host: j.Hosts[p.Host].Name,
			What: p.Outcome, Became: became(j, p)})
	}
	slices.SortStableFunc(list, func(a, b fault) int { return cmp.Compare(a.At, b.At) })
	return list
}

// jobEnded begins the words about a failure after which there was no other process.
const jobEnded = "The job ended"

// became describes what the job did after the failure of a process.
func became(j *recording.Job, p *recording.Process) string {
	next := slices.IndexFunc(j.Processes, func(o recording.Process) bool {
		return o.Rank == p.Rank && o.Attempt > p.Attempt
	})
	if next >= 0 {
		o := &j.Processes[next]
		text := fmt.Sprintf("Its process %d took its place on %s", o.Attempt+1, j.Hosts[o.Host].Name)
		if everyRank(j, o.Attempt) {
			text = fmt.Sprintf("All ranks started again; its process %d, on %s", o.Attempt+1, j.Hosts[o.Host].Name)
		}
		if len(o.Events) > 0 {
			if after := j.Time(o, o.Events[0].Start) - int64(p.Ended); after > 0 {
				text += fmt.Sprintf(", called rank.Init %v later", time.Duration(after).Round(time.Millisecond))
			}
		}
		return text + "."
	}
	var renewed []int
	for i := range j.Processes {
		o := &j.Processes[i]
		again := func(e record.Event) bool {
			return e.Kind == record.Renew && j.Time(o, e.Start)+int64(e.Took) > int64(p.Ended)
		}
		if o != p && slices.ContainsFunc(o.Events, again) && !slices.Contains(renewed, o.Rank) {
			renewed = append(renewed, o.Rank)
		}
	}
	if len(renewed) > 0 {
		return fmt.Sprintf("%s went on without it (%s).", numbers.Count(len(renewed), "rank"), topo.RankList(renewed))
	}
	return fmt.Sprintf(jobEnded+" %v later, with exit code %d.", (j.Took - p.Ended).Round(time.Millisecond), j.Code)
}

// everyRank reports whether there are several ranks, and all have had a process of this number.
func everyRank(j *recording.Job, attempt int) bool {
	ranks, again := make(map[int]bool), 0
	for i := range j.Processes {
		ranks[j.Processes[i].Rank] = true
		if j.Processes[i].Attempt == attempt {
			again++
		}
	}
	return len(ranks) > 1 && again == len(ranks)
}

// phases returns the phases of the program, and treerun's own, by their total time.
func phases(j *recording.Job) []phase {
	type sort struct {
		own  bool
		name string
	}
	type sum struct {
		phase
		total float64
		ranks map[int]bool
	}
	all := make(map[sort]*sum)
	for i := range j.Processes {
		p := &j.Processes[i]
		for k := range p.Events {
			e := &p.Events[k]
			key := sort{e.Kind == record.Span, e.Kind.String()}
			switch e.Kind {
			case record.Call, record.Wait:
				continue
			case record.Span:
				key.name = p.Name(e.Label)
			}
			s := all[key]
			if s == nil {
				s = &sum{phase: phase{Name: key.name, Own: key.own}, ranks: make(map[int]bool)}
				all[key] = s
			}
			s.Count++
			s.ranks[p.Rank] = true
			s.total += e.Took.Seconds()
			if e.Took.Seconds() > s.Most {
				s.Most, s.MostRank = e.Took.Seconds(), p.Rank
			}
		}
	}
	var list []*sum
	for _, s := range all {
		s.Mean, s.Ranks = s.total/float64(s.Count), len(s.ranks)
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *sum) int {
		return cmp.Or(cmp.Compare(b.total, a.total), cmp.Compare(a.Name, b.Name))
	})
	var shown []phase
	for _, s := range list[:min(len(list), maxPhases)] {
		shown = append(shown, s.phase)
	}
	return shown
}

const maxPhases = 40

// notes describes the missing parts of the page, and its accuracy.
func notes(j *recording.Job) []string {
	list := []string{"Times of calls below 32 KiB are those of samples, multiplied (~). Numbers of calls and bytes are " +
		"exact, but the latest small calls of a rank that was killed are missing.",
		"A wait is followed to the ranks that did not wait themselves meanwhile. Where there are several, it counts for " +
			"each in equal parts."}
	lost, why := uint64(0), make(map[string][]int)
	for i := range j.Processes {
		p := &j.Processes[i]
		lost += p.Lost()
		if p.Why != "" {
			why[p.Why] = append(why[p.Why], p.Rank)
		}
	}
	if lost > 0 {
		list = append(list, fmt.Sprintf("%s had no place in the recording: slowest calls, waits and phases are those of "+
			"the latest events. The table of calls has all.", numbers.Count(int(min(lost, 1<<40)), "early event")))
	}
	var reasons []string
	for text, ranks := range why {
		reasons = append(reasons, fmt.Sprintf("Of %s %s the recording is missing or has only a part: %s.",
			numbers.Plural(len(ranks), "rank"), topo.RankList(ranks), text))
	}
	slices.Sort(reasons)
	list = append(list, reasons...)
	for i := range j.Hosts {
		if h := &j.Hosts[i]; len(h.Clocks) > 0 {
			list = append(list, fmt.Sprintf("Times of host %s are exact to %v.", h.Name,
				h.Error().Round(time.Microsecond)))
		}
	}
	return list
}
