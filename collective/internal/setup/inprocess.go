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
		all[r] = &thread{job: job, failed: failed, rank: r}
	}
	return all
}

// thread is the World of one rank.
type thread struct {
	job    *waits.Local
	failed chan struct{}
	rank   int
	begun  int // AllGathers
}

func (t *thread) Rank() int               { return t.rank }
func (t *thread) Waits() *waits.Job       { return t.job.Jobs[t.rank] }
func (t *thread) Size() int               { return len(t.job.Jobs) }
func (t *thread) HostOf(int) int          { return 0 }
func (t *thread) Failed() <-chan struct{} { return t.failed }
func (t *thread) Failure() (int, error)   { return -1, nil }
func (t *thread) DeriveKey(string) []byte { return make([]byte, 32) } // nothing leaves the process
func (t *thread) JobID() string           { return "in one process" }
func (t *thread) Setting(string) string   { return "" }

// AllGather gives every rank the blobs of all ranks.
func (t *thread) AllGather(ctx context.Context, blob []byte) ([][]byte, error) {
	t.begun++
	all, err := t.job.AllGather(ctx, t.rank, t.begun-1, blob)
	if err != nil {
		return nil, fmt.Errorf("collective: rank %d: AllGather within the process: %w", t.rank, err)
	}
	return all, nil
}

// InOneProcess reports whether the ranks of w are goroutines of one process. A group's are those of the
// communicator which it is a part of.
func InOneProcess(w World) bool {
	top, _ := InJob(w)
	_, is := top.(*thread)
	return is
}
