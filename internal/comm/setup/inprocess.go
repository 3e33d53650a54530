package setup

import (
	"context"
	"fmt"
	"sync"

	"github.com/treerun/treerun/internal/waits"
)

// InProcess returns the Worlds of n ranks that are goroutines of this process,
// by rank. Every rank calls New with its own, in a goroutine of its own, and makes
// its calls there. Nothing of them needs to be closed, and none of them ever
// fails. Device calls, such as AllReduceDevice, are an ErrDevice: they need a process
// per rank, as treerun starts them.
func InProcess(n int) []World {
	p := &process{size: n, jobs: waits.Local(n), failed: make(chan struct{})}
	all := make([]World, n)
	for r := range all {
		all[r] = &thread{process: p, rank: r}
	}
	return all
}

// process is what the ranks of one process share.
type process struct {
	size   int
	jobs   []*waits.Job  // by rank
	failed chan struct{} // never closed: the ranks end together

	mu      sync.Mutex
	gathers []*gather // that somebody has begun, in order
}

// gather is one AllGather.
type gather struct {
	blobs [][]byte
	here  int
	full  chan struct{}
}

// thread is the World of one rank.
type thread struct {
	*process
	rank  int
	begun int // AllGathers
}

func (t *thread) Rank() int               { return t.rank }
func (t *thread) Waits() *waits.Job       { return t.jobs[t.rank] }
func (t *thread) Size() int               { return t.size }
func (t *thread) HostOf(int) int          { return 0 }
func (t *thread) Failed() <-chan struct{} { return t.failed }
func (t *thread) Failure() (int, error)   { return -1, nil }
func (t *thread) DeriveKey(string) []byte { return make([]byte, 32) } // nothing leaves the process
func (t *thread) JobID() string           { return "in one process" }
func (t *thread) Setting(string) string   { return "" }

// AllGather gives every rank the blobs of all ranks. Each has a copy of its own.
func (t *thread) AllGather(ctx context.Context, blob []byte) ([][]byte, error) {
	t.mu.Lock()
	if t.begun == len(t.gathers) {
		t.gathers = append(t.gathers, &gather{blobs: make([][]byte, t.size), full: make(chan struct{})})
	}
	g := t.gathers[t.begun]
	t.begun++
	g.blobs[t.rank] = append([]byte{}, blob...)
	if g.here++; g.here == t.size {
		close(g.full)
	}
	t.mu.Unlock()
	select {
	case <-g.full:
	case <-ctx.Done():
		return nil, fmt.Errorf("collective: rank %d: AllGather within the process: %w", t.rank, ctx.Err())
	}
	all := make([][]byte, t.size)
	for r, b := range g.blobs {
		all[r] = append([]byte{}, b...)
	}
	return all, nil
}

// InOneProcess reports whether the ranks of w are goroutines of one process. A group's are those of the
// communicator which it is a part of.
func InOneProcess(w World) bool {
	for {
		part, is := w.(interface{ Above() World })
		if !is {
			break
		}
		w = part.Above()
	}
	_, is := w.(*thread)
	return is
}
