package sim

import (
	"slices"

	"github.com/treerun/treerun/collective/plan"
)

// batch is the steps of a rank that begin together, as one launch on its device: those of one level, in all lanes, as
// package device makes them.
type batch []batched

// batched is a step of a track, with those that join it.
type batched struct{ track, step int32 }

// maxParts is the largest number of steps in one launch (kernels.MaxParts).
const maxParts = 16

// joined returns which of n steps of a track are not the first of a launch: those of a fused step, and the copy of a
// buffer after steps that only send it.
func joined(fused []plan.Fused, n int) map[int]bool {
	all := make(map[int]bool, n)
	for i := range n {
		all[i] = true
	}
	for i := range fused {
		f := &fused[i]
		if i > 0 && f.CopiesAfter(&fused[i-1]) {
			continue
		}
		first := f.Args[0].Step
		for _, a := range f.Args {
			first = min(first, a.Step)
		}
		for _, to := range f.To {
			first = min(first, to.Step)
		}
		delete(all, int(first))
	}
	return all
}

// enqueue puts the steps of a rank's tracks into batches, by level, and notes when its host has enqueued each for the
// first chunk: a call of the driver for the waits, one for the signals, and the launches in between.
func (pr *program) enqueue(tracks []int32, callUs float64) {
	var list batch
	level := func(b batched) int { return pr.tracks[b.track].steps[b.step].level }
	for _, t := range tracks {
		for k := range pr.tracks[t].steps {
			if !pr.tracks[t].steps[k].joins {
				list = append(list, batched{t, int32(k)})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b batched) int { return level(a) - level(b) })
	calls := 0
	for len(list) > 0 {
		n := 1
		for n < len(list) && level(list[n]) == level(list[0]) {
			n++
		}
		calls += 2 + (n+maxParts-1)/maxParts
		for _, b := range list[:n] {
			st := &pr.tracks[b.track].steps[b.step]
			st.batch, st.enqueued = int32(len(pr.batches)), float64(calls)*callUs
		}
		pr.batches = append(pr.batches, list[:n])
		list = list[n:]
	}
	for _, t := range tracks {
		pr.tracks[t].enqueueUs = float64(calls) * callUs
	}
}

// setLevels gives the steps of a lane, whose tracks begin with first, their levels: each waits for the one before it in
// its track, and for those that send what it receives.
func (pr *program) setLevels(first int32) {
	tracks := pr.tracks[first:]
	next := make([]int, len(tracks)) // steps
	last := make([]int, len(tracks)) // 1 + the latest of all
	sent := make(map[int32][]int)    // by FIFO: the senders of the chunks on it
	var all [][]step                 // each with those that join it
	var before [][]int
	for moved := true; moved; {
		moved = false
		for i := range tracks {
			for next[i] < len(tracks[i].steps) {
				steps, senders, ready := takeStep(tracks[i].steps[next[i]:], sent)
				if !ready {
					break
				}
				if last[i] > 0 {
					senders = append(senders, last[i]-1)
				}
				for k := range steps {
					if out := steps[k].out; out >= 0 {
						sent[out] = append(sent[out], len(all))
					}
				}
				all, before = append(all, steps), append(before, senders)
				next[i], last[i], moved = next[i]+len(steps), len(all), true
			}
		}
	}
	for i, level := range plan.Levels(before) {
		for k := range all[i] {
			all[i][k].level = level
		}
	}
}

// takeStep returns the first of some steps of a track with those that join it, and the senders of what they receive,
// unless a chunk was not sent yet.
func takeStep(steps []step, sent map[int32][]int) (taken []step, senders []int, ready bool) {
	received := make(map[int32]int) // by FIFO
	n := 0
	for ; n < len(steps) && (n == 0 || steps[n].joins); n++ {
		if in := steps[n].in; in >= 0 {
			if received[in] == len(sent[in]) {
				return nil, nil, false
			}
			senders = append(senders, sent[in][received[in]])
			received[in]++
		}
	}
	for in, k := range received {
		sent[in] = sent[in][k:]
	}
	return steps[:n], senders, true
}

// fills reports whether the step that track s of o can take is the last of its batch for the chunk, so that all begin.
func (r *runner) fills(o *operation, s *trackState, b int32) bool {
	if s.ready {
		return false
	}
	s.ready = true
	missing := int32(0)
	for _, x := range o.batches[b] {
		if o.program.tracks[x.track].chunks > s.chunk {
			missing++
		}
	}
	n := &r.waiting[o.batch+b]
	if *n++; *n < missing {
		return false
	}
	*n = 0
	return true
}
