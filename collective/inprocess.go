package collective

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/mem"
)

// InProcess returns the Worlds of n ranks that are goroutines of this process,
// by rank: for a program that drives several GPUs, or several streams of one, by
// itself. Every rank calls New with its own, in a goroutine of its own, and makes
// its calls there. Nothing of them needs to be closed, and none of them ever
// fails.
func InProcess(n int) []World {
	p := &process{size: n, endpoints: make(map[string][]transport.Endpoint), failed: make(chan struct{})}
	all := make([]World, n)
	for r := range all {
		all[r] = &thread{process: p, rank: r, joined: make(map[string]int)}
	}
	return all
}

// process is what the ranks of one process share.
type process struct {
	size   int
	failed chan struct{} // never closed: the ranks end together

	mu        sync.Mutex
	gathers   []*gather                       // that somebody has begun, in order
	endpoints map[string][]transport.Endpoint // by what they are for
	pinned    map[int]*pinnedBlock            // by number
	pins      int                             // so far
	events    map[int][]*cuda.Event           // by number
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
		part, is := w.(interface{ above() World })
		if !is {
			break
		}
		w = part.above()
	}
	t, _ := w.(*thread)
	return t
}

// connectThreads is a connector for the ranks of one process.
func connectThreads(_ context.Context, w World, purpose string, layout transport.Layout) (transport.Endpoint, error) {
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

// pinnedBlock is pinned memory that ranks of one process share. The last one to
// leave frees it.
type pinnedBlock struct {
	memory *cuda.Pinned[uint8]
	of     *process
	number int
	users  int // under of.mu
}

// pin lets the other ranks share memory that this one uses, too.
func (t *thread) pin(memory *cuda.Pinned[uint8]) *pinnedBlock {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pinned == nil {
		t.pinned = make(map[int]*pinnedBlock)
	}
	t.pins++
	b := &pinnedBlock{memory, t.process, t.pins, 1}
	t.pinned[t.pins] = b
	return b
}

// pinnedAt returns the memory with a number, for one more rank to use.
func (t *thread) pinnedAt(number int) (*pinnedBlock, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.pinned[number]
	if b == nil {
		return nil, fmt.Errorf("no pinned memory number %d in this process", number)
	}
	b.users++
	return b, nil
}

// leave says that one rank uses the memory no more.
func (b *pinnedBlock) leave() error {
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	if b.users--; b.users > 0 {
		return nil
	}
	delete(b.of.pinned, b.number)
	return b.memory.Free()
}

// keepEvents keeps events for another rank to take, and returns their number.
func (t *thread) keepEvents(events []*cuda.Event) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.events == nil {
		t.events = make(map[int][]*cuda.Event)
	}
	t.pins++
	t.events[t.pins] = events
	return t.pins
}

// keptEvents takes what another rank has kept.
func (t *thread) keptEvents(number int) []*cuda.Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	events := t.events[number]
	delete(t.events, number)
	return events
}
