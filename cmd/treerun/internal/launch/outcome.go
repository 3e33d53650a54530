package launch

import (
	"cmp"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

// End is how one rank ended.
type End struct {
	wire.End
	Order  int           // ranks whose ends were seen at the same moment share it
	After  time.Duration // since the start of the job
	Joined bool          // its world was complete
	Closed bool          // it had closed its world
	Host   string        // it was on this one
	Lost   bool          // its host was lost; Code is treerun's
	Why    string        // Lost
}

func (e End) failed() bool { return e.Code != 0 || e.Signal != 0 }

// crashed tells whether a signal ended the rank that another rank's end does
// not cause.
func (e End) crashed() bool { return e.Lost || e.Signal != 0 && e.Signal != syscall.SIGPIPE }

// how says in words how the rank ended.
func (e End) how() string {
	if e.Lost {
		return "was lost with host " + e.Host
	}
	if e.Signal != 0 {
		return "was killed by " + job.SignalName(e.Signal)
	}
	return fmt.Sprintf("exited with code %d", e.Code)
}

// exitCode returns the code that stands for the rank's end.
func (e End) exitCode() int {
	if e.Signal != 0 {
		return cmdline.SignalCode(e.Signal)
	}
	return e.Code
}

// oneMoment is how far apart the news of two ends on different hosts may be that
// count as of the same moment: which came first is not known.
const oneMoment = 50 * time.Millisecond

// firstFailure returns the end that the job failed by: the first in time of
// those that treerun did not bring about. Of several at the same moment a crash
// comes before an exit code, because a rank that notices a crash exits; then
// the lowest rank.
func firstFailure(ends []End) (first End, ok bool) {
	failed := slices.DeleteFunc(slices.Clone(ends), func(e End) bool { return !e.failed() || e.Stopped })
	if len(failed) == 0 {
		return End{}, false
	}
	first = slices.MinFunc(failed, compare)
	near := slices.DeleteFunc(failed, func(e End) bool {
		return !e.crashed() || e.Host == first.Host || e.After-first.After > oneMoment
	})
	if first.crashed() || len(near) == 0 {
		return first, true
	}
	return slices.MinFunc(near, compare), true
}

// compare puts what is rather the cause of a failure first.
func compare(a, b End) int {
	if a.Order == b.Order && a.crashed() != b.crashed() {
		if a.crashed() {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Rank, b.Rank))
}

// earlyLeavers returns the ranks that exited with 0 before the failure without
// having closed their world, by rank: those that wait for them fail later.
func earlyLeavers(ends []End, failure End) []End {
	var early []End
	for _, e := range ends {
		if !e.failed() && !e.Closed && !e.Stopped && e.Order <= failure.Order {
			early = append(early, e)
		}
	}
	slices.SortFunc(early, func(a, b End) int { return cmp.Compare(a.Rank, b.Rank) })
	return early
}
