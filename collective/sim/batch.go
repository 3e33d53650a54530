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

// A launch has at most so many parts, and arrays of all of them (kernels.MaxParts, MaxArrays).
const maxParts, maxArrays = 16, 40

// partsOf returns, for each of n steps of a track, whether it joins the one before it in a launch: those of a fused
// step do, and the copy of a buffer after steps that only send it. It also returns the number of arrays of the part of
// a launch that begins with the step, 0 for none. Several readers of a value share a slot.
func partsOf(fused []plan.Fused, n int) (joins []bool, arrays []int) {
	joins, arrays = slices.Repeat([]bool{true}, n), make([]int, n)
	for i := range fused {
		f := &fused[i]
		first := f.Args[0].Step
		for _, a := range f.Args {
			first = min(first, a.Step)
		}
		for _, to := range f.To {
			first = min(first, to.Step)
		}
		joins[first] = i > 0 && f.CopiesAfter(&fused[i-1])
		arrays[first] = len(f.Args) + min(len(f.To), 1)
		if f.Dst != plan.None {
			arrays[first]++
		}
	}
	return joins, arrays
}

// enqueue puts the steps of a rank's tracks into batches, by level, and notes when its host has enqueued each for the
// first chunk: a call of the driver for the waits if a step receives, the launches, and one for the signals. The waits
// for room are with the signals of an earlier batch.
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
		calls += pr.calls(list[:n])
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

// calls returns the number of calls of the driver for a batch.
func (pr *program) calls(all batch) int {
	launches, waits, parts, arrays := 1, 0, 0, 0
	for _, b := range all {
		for i, st := range pr.tracks[b.track].steps[b.step:] {
			if i > 0 && !st.joins {
				break
			}
			if st.in >= 0 {
				waits = 1
			}
			if st.arrays == 0 {
				continue
			}
			if parts++; parts > maxParts || arrays+st.arrays > maxArrays {
				launches, parts, arrays = launches+1, 1, 0
			}
			arrays += st.arrays
		}
	}
	return waits + launches + 1
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
