//go:build linux

package rank

import (
	"math"
	"math/bits"
	"slices"
	"testing"
)

// A rank that is not rank 0 dials and is dialed O(log n) times until all have joined. The test checks most ranks only,
// in one of three jobs, as ranks that get no core for a long time repeat their request.
func TestStartTakesFewConnections(t *testing.T) {
	for _, n := range []int{16, 64} {
		// The mesh has one connection for each step and direction; a rank sends its request to rank 0, is
		// handed the list down, and hands it down to two.
		most := 2*int64(bits.Len(uint(n-1))) + 6
		least := int64(math.MaxInt64)
		for try := 0; try < 3 && least > most; try++ {
			j := newTestJob(t, n).start()
			var calls []int64
			for _, w := range j.worlds {
				calls = append(calls, w.members.dialed.Load()+w.meeting.port.accepted.Load())
			}
			first := calls[0]
			slices.Sort(calls)
			least = min(least, calls[n/2])
			t.Logf("%d ranks: %d connections on half of them, %d on rank 0, at most %d", n, calls[n/2], first, calls[n-1])
			j.close()
		}
		if least > most {
			t.Errorf("%d ranks: %d connections on half of them, want at most %d", n, least, most)
		}
	}
}
