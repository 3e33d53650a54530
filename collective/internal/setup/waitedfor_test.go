package setup

import (
	"errors"
	"fmt"
	"testing"

	"github.com/treerun/treerun/internal/waits"
)

// TestWaitedForInSubWorld: an error that names a rank of the job, in whichever step of New it came up,
// gives the number of that rank in the part of the job that New is for.
func TestWaitedForInSubWorld(t *testing.T) {
	for culprit, want := range map[int]int{7: 1, 6: 0, 2: -1} {
		wait := waits.NewLocal(8).Jobs[6].NewWait("part", []int{6, 7})
		s := &setup{world: InProcess(1)[0], wait: wait}
		stalled := &waits.Stalled{Cause: waits.Cause{Rank: culprit, Text: "is stopped"}}
		e := s.waitedFor(t.Context(), errors.Join(errors.New("not reached"), fmt.Errorf("dial: %w", stalled)))
		if e == nil || e.Rank != want || !errors.Is(e, ErrStalled) {
			t.Errorf("rank %d of the job: %v, want rank %d of the part", culprit, e, want)
		}
	}
}
