package setup

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/mem"
)

// InProcess returns the Worlds of n ranks that are goroutines of this process,
// by rank. Every rank calls New with its own, in a goroutine of its own, and makes
// its calls there. Nothing of them needs to be closed, and none of them ever
// fails. Device calls, such as AllReduceDevice, are an ErrDevice: they need a process
// per rank, as treerun starts them.
func InProcess(n int) []World {
	p := &process{size: n, jobs: waits.Local(n), endpoints: make(map[string][]transport.Endpoint),
		failed: make(chan struct{})}
	all := make([]World, n)
	for r := range all {
		all[r] = &thread{process: p, rank: r, joined: make(map[string]int)}
	}
	return all
}

// process is what the ranks of one process share.
type process struct {
	size   int
	jobs   []*waits.Job  // by rank
	failed chan struct{} // never closed: the ranks end together

	mu        sync.Mutex
	gathers   []*gather                       // that somebody has begun, in order
	endpoints map[string][]transport.Endpoint // by what they are for
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
	rank   int
	begun  int            // AllGathers
	joined map[string]int // how often, by what endpoints are for
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

// threadOf returns the rank's World in its process, nil for ranks that are
// processes. A group's is that of the communicator which it is a part of.
func threadOf(w World) *thread {
	for {
		part, is := w.(interface{ Above() World })
		if !is {
			break
		}
		w = part.Above()
	}
	t, _ := w.(*thread)
	return t
}

// connectThreads is a connector for the ranks of one process.
func connectThreads(_ context.Context, w World, _ allGather, purpose string, layout transport.Layout,
) (transport.Endpoint, error) {
	t := threadOf(w)
	if t == nil {
		return nil, errors.New("collective: a rank of one process that is not in it")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	name := w.JobID() + " " + purpose
	key := fmt.Sprint(name, " ", t.joined[name])
	t.joined[name]++
	if t.endpoints[key] == nil {
		all, err := mem.New(layout)
		if err != nil {
			return nil, err
		}
		t.endpoints[key] = all
	}
	all := t.endpoints[key]
	ep := all[w.Rank()]
	all[w.Rank()] = nil
	for _, e := range all {
		if e != nil {
			return ep, nil
		}
	}
	delete(t.endpoints, key)
	return ep, nil
}

// InOneProcess reports whether the ranks of w are goroutines of one process.
func InOneProcess(w World) bool { return threadOf(w) != nil }
