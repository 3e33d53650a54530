package setup

import (
	"context"
	"fmt"

	"github.com/treerun/treerun/internal/waits"
)

// InProcess returns the Worlds of n ranks that are goroutines of this process,
// by rank. Every rank calls New with its own, in a goroutine of its own, and makes
// its calls there. Nothing of them needs to be closed, and none of them ever
// fails. Device calls, such as AllReduceDevice, are an ErrDevice: they need a process
// per rank, as treerun starts them.
func InProcess(n int) []World {
	job, failed := waits.NewLocal(n), make(chan struct{}) // never closed: the ranks end together
	all := make([]World, n)
	for r := range all {
		all[r] = &localWorld{job: job, failed: failed, rank: r}
	}
	return all
}

// localWorld is the World of one rank.
type localWorld struct {
	job    *waits.Local
	failed chan struct{}
	rank   int
	begun  int // the number of AllGathers that have begun
}

func (w *localWorld) Rank() int               { return w.rank }
func (w *localWorld) Waits() *waits.Job       { return w.job.Jobs[w.rank] }
func (w *localWorld) Size() int               { return len(w.job.Jobs) }
func (w *localWorld) HostOf(int) int          { return 0 }
func (w *localWorld) Failed() <-chan struct{} { return w.failed }
func (w *localWorld) Failure() (int, error)   { return -1, nil }
func (w *localWorld) DeriveKey(string) []byte { return make([]byte, 32) } // nothing leaves the process
func (w *localWorld) JobID() string           { return "in one process" }
func (w *localWorld) Setting(string) string   { return "" }

// AllGather gives every rank the blobs of all ranks.
func (w *localWorld) AllGather(ctx context.Context, blob []byte) ([][]byte, error) {
	w.begun++
	all, err := w.job.AllGather(ctx, w.rank, w.begun-1, blob)
	if err != nil {
		return nil, fmt.Errorf("collective: rank %d: AllGather within the process: %w", w.rank, err)
	}
	return all, nil
}

// InOneProcess reports whether the ranks of w are goroutines of one process.
func InOneProcess(w World) bool {
	job, _ := inJob(w, 0)
	_, is := job.(*localWorld)
	return is
}
