package device

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/kernels"
)

// Group is one rank's end of the links between devices, with the streams that serve them. Its methods may be called
// concurrently unless documented otherwise.
type Group struct {
	cfg    Config
	layout *Layout
	rank   int

	mu      sync.Mutex // one Enqueue at a time
	streams []*lineup
	fork    *cuda.Event                            // of the latest call: its stream has come to it
	tail    *cuda.Event                            // its stream is through
	links   []state                                // of the links of the layout
	memOps  func(*cuda.Stream, []cuda.MemOp) error // Stream.MemOps, but in tests
	scratch scratch
	pinned  *cuda.Pinned[uint8] // slots of relayed links; nil: there is none
	events  []*cuda.Event       // that free closes
	Alone   error               // why calls stay on their own streams, where the queues of the device are to blame
	caller  lineup              // the stream of the latest call, nil before there is one

	relay *relay // nil where no link is relayed

	failure   atomic.Pointer[error] // the first reason why it has failed
	abort     *atomic.Uint32        // the word that all ranks of the segment look at
	wake      chan struct{}         // wakes the watcher when something is under way
	enqueuing atomic.Bool           // a call is being enqueued, which may wait for others
	done      chan struct{}         // closed by Close
	workers   sync.WaitGroup
	ending    sync.Mutex // guards that a failure starts a worker against Close
	closing   sync.Once

	// State of the call at work, guarded by mu.
	spans   []plan.Span // of its lanes
	now     []*todo
	signals []cuda.MemOp
	addrs   []cuda.Addr
	parts   []kernels.Part
}

// reset lets all links begin.
func (g *Group) reset() {
	for i := range g.links {
		k, first := &g.links[i], g.cfg.First
		switch p, r := g.layout.links[i].giver(g.rank); {
		case p != InDevice:
			k.where = kernels.Host
		case !g.cfg.Near(r):
			k.where = kernels.Peer
		}
		k.count, k.slots, k.waited = first, first, first
		k.highest[0].Store(first)
		k.highest[1].Store(first)
		k.at = g.cfg.Slots[i]
		if g.layout.links[i].Src == g.rank {
			k.filled = make([][]reading, g.layout.Slots)
		}
	}
}

// flag returns a counter of link i: where this process sees it, and where its
// device does.
func (g *Group) flag(i int, isReleased bool) (*atomic.Uint32, cuda.Addr) {
	at := published(i)
	if isReleased {
		at = released(i)
	}
	if k := &g.layout.links[i]; k.place == Relayed && k.Dst == g.rank {
		at += 2 * flagLine
	}
	return word(g.cfg.Flags, at), g.cfg.FlagsAddr + cuda.Addr(at)
}

// state is the state, on a rank, of a link that it serves, or whose slots it reads.
type state struct {
	count   uint32           // payloads of the calls before the one at work
	slots   uint32           // slots filled by those
	each    linkUses         // per chunk of that one
	waited  uint32           // the value of released that a stream has waited for
	where   kernels.Where    // its slots lie
	filled  [][]reading      // sender: by slot, its readers
	highest [2]atomic.Uint32 // the values of published and released that streams may wait for at most

	at     cuda.Addr // where the device sees its slots, as far as it does
	pinned []byte    // relayed: they are memory of this process
}

// reading is a payload that must be released before its slot is filled again.
type reading struct {
	link  int
	value uint32
}

// lineup is a stream, with the events that mark its progress.
type lineup struct {
	*cuda.Stream
	joined *cuda.Event            // recorded when a call is through with the stream
	ticks  [paceTicks]*cuda.Event // recorded every paceSteps steps, in turn; nil in tests
	steps  int
}

// New makes a Group: streams, events and scratch memory. It allocates device
// memory, which Close frees.
func New(cfg Config) (*Group, error) {
	l := cfg.Layout
	g := &Group{
		cfg: cfg, layout: l, rank: l.rank,
		links:  make([]state, len(l.links)),
		memOps: (*cuda.Stream).MemOps,
		abort:  word(cfg.Flags, 0),
		wake:   make(chan struct{}, 1),
		done:   make(chan struct{}),
	}
	g.reset()
	if err := g.open(); err != nil {
		g.free()
		return nil, fmt.Errorf("device: rank %d: %w", g.rank, err)
	}
	g.workers.Go(g.watch)
	if g.relay != nil {
		g.relay.start()
	}
	return g, nil
}
