package device

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/treerun/treerun/cuda"
)

// Group is one rank's end of the links between devices, with the streams that serve them. Its methods may be called
// concurrently unless documented otherwise.
type Group struct {
	cfg       Config
	rank      int
	links     *links
	proxy     *proxy        // nil where there is no network link
	events    []*cuda.Event // the events that free closes
	NoStreams error         // why calls stay on their own streams, where the queues of the device are to blame

	mu       sync.Mutex // held by the call at work
	executor executor

	failure   atomic.Pointer[error] // the first reason why the Group has failed
	abort     *atomic.Uint32        // the word that all ranks of the segment look at
	wake      chan struct{}         // wakes the watcher when something is under way
	enqueuing atomic.Bool           // whether a call is being enqueued, which may wait for others
	done      chan struct{}         // closed by Close
	workers   sync.WaitGroup
	ending    sync.Mutex // guards that a failure starts a worker against Close
	closing   sync.Once
}

// New makes a Group: streams, events and scratch memory. It allocates device
// memory, which Close frees.
func New(cfg Config) (*Group, error) {
	g := &Group{
		cfg: cfg, rank: cfg.Layout.rank,
		links: newLinks(&cfg),
		abort: word(cfg.Flags, 0),
		wake:  make(chan struct{}, 1),
		done:  make(chan struct{}),
	}
	g.executor = executor{links: g.links, kernels: cfg.Kernels, err: g.Err, memOps: (*cuda.Stream).MemOps}
	if err := g.open(); err != nil {
		g.free()
		return nil, fmt.Errorf("device: rank %d: %w", g.rank, err)
	}
	g.workers.Go(g.watch)
	if g.proxy != nil {
		g.proxy.start()
	}
	return g, nil
}

// open makes the resources of the group. free releases them, also after an error.
func (g *Group) open() error {
	x, layout := &g.executor, g.cfg.Layout
	if n := x.scratch.plan(layout); n > 0 {
		var err error
		if x.scratch.memory, err = cuda.Alloc[uint8](g.cfg.Device, int(n)); err != nil {
			return fmt.Errorf("scratch memory: %w; smaller slots need less", err)
		}
		x.scratch.base = x.scratch.memory.Addr()
	}
	if err := g.links.pin(&g.cfg); err != nil {
		return err
	}
	var err error
	if g.proxy, err = newProxy(g); err != nil {
		return err
	}
	x.proxy = g.proxy
	events, streams := []**cuda.Event{&x.fork, &x.tail}, 0
	for i := range layout.plans {
		streams = max(streams, layout.plans[i].streams)
	}
	waiting, err := g.cfg.Device.NewWaitingStreams(min(cmp.Or(g.cfg.Streams, defaultStreams), streams))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		g.NoStreams, err = err, nil
	case len(waiting) == 1: // calls go apart on two or more, and another Group has use for the queue
		err, waiting = waiting[0].Close(), nil
	}
	if err != nil {
		return err
	}
	for _, w := range waiting {
		s := &stream{Stream: w}
		x.streams = append(x.streams, s)
		events = append(events, &s.joined)
	}
	for _, s := range append(slices.Clone(x.streams), &x.caller) {
		for i := range s.ticks {
			events = append(events, &s.ticks[i])
		}
	}
	for _, e := range events {
		if *e, err = g.cfg.Device.NewEvent(false); err != nil {
			return err
		}
		g.events = append(g.events, *e)
	}
	return nil
}

// free gives everything back.
func (g *Group) free() error {
	var all []error
	for _, s := range g.executor.streams {
		all = append(all, s.Close())
	}
	for _, e := range g.events {
		all = append(all, e.Close())
	}
	all = append(all, g.executor.scratch.memory.Free())
	if g.links.pinned != nil {
		all = append(all, g.links.pinned.Free())
	}
	return errors.Join(all...)
}

// Enqueue puts call c of plan i of the Shape behind the work of stream s, which must be of the Group's device. It
// returns when all is enqueued; s continues when this rank's part of the call is done, also where the Group fails
// meanwhile. Where the driver's queues are full, Enqueue waits for room in them, so every rank needs a goroutine of its
// own.
//
// A stream of another device is an error (cuda.ErrWrongDevice) before anything is done. Any other error is that of the
// Group, which is unusable from then on.
func (g *Group) Enqueue(i int, s *cuda.Stream, c *Call) error {
	return g.run(&g.cfg.Layout.plans[i], s, c)
}

// run is Enqueue of a schedule.
func (g *Group) run(p *schedule, s *cuda.Stream, c *Call) error {
	if d := s.Device(); d != g.cfg.Device {
		return fmt.Errorf("device: rank %d: a stream of %s for a group of %s: %w", g.rank, d, g.cfg.Device,
			cuda.ErrWrongDevice)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.Err(); err != nil {
		return err
	}
	g.enqueuing.Store(true)
	defer g.enqueuing.Store(false)
	wake(g.wake)
	g.executor.begin(p, c)
	err := g.executor.forkJoin(s)
	if err != nil {
		err = g.Abort(fmt.Errorf("device: rank %d: %w", g.rank, err))
	}
	g.executor.advance()
	return err
}
