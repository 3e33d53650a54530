package device

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
)

// scratch is device memory of this rank alone: up to two chunks per track.
// Calls follow each other, so all programs share it.
type scratch struct {
	memory  cuda.Slice[uint8]
	base    cuda.Addr // the address of memory
	chunk   int64
	chunkOf [][scratches]int // by track: which chunk, -1 for none
}

// The uses of a track's scratch memory.
const (
	scratchTmp = iota // plan.Tmp
	scratchSum        // the sum of some operands, where there are too many for a launch
	scratches
)

// at returns the memory of a track for something.
func (s *scratch) at(track, what int) cuda.Addr {
	return s.base + cuda.Addr(int64(s.chunkOf[track][what])*s.chunk)
}

// plan determines the memory that the tracks of all programs need, and returns its size in bytes.
func (s *scratch) plan(l *Layout) int64 {
	s.chunk = int64(l.SlotBytes)
	chunks := 0
	need := func(track, what int) {
		for len(s.chunkOf) <= track {
			s.chunkOf = append(s.chunkOf, [scratches]int{-1, -1})
		}
		if s.chunkOf[track][what] < 0 {
			s.chunkOf[track][what] = chunks
			chunks++
		}
	}
	for i := range l.plans {
		for j := range l.plans[i].batches {
			for k := range l.plans[i].batches[j].steps {
				st := &l.plans[i].batches[j].steps[k]
				if st.Names(plan.Tmp) {
					need(st.track, scratchTmp)
				}
				if len(st.Args) > maxArrays {
					need(st.track, scratchSum)
				}
			}
		}
	}
	return int64(chunks) * s.chunk
}
