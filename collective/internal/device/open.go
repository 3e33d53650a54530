package device

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
)

// scratch is device memory of this rank alone: up to two chunks per track.
// Calls follow each other, so all programs share it.
type scratch struct {
	memory cuda.Slice[uint8]
	base   cuda.Addr // of memory
	chunk  int64
	places [][scratches]int // by track: which chunk, -1 for none
}

// The uses of a track's scratch memory.
const (
	scratchTmp = iota // plan.Tmp
	scratchSum        // the sum of some operands, where there are too many for a launch
	scratches
)

// at returns the memory of a track for something.
func (s *scratch) at(track, what int) cuda.Addr {
	return s.base + cuda.Addr(int64(s.places[track][what])*s.chunk)
}

// plan determines the memory that the tracks of all programs need, and returns its size in bytes.
func (s *scratch) plan(l *Layout) int64 {
	s.chunk = int64(l.SlotBytes)
	chunks := 0
	need := func(track, what int) {
		for len(s.places) <= track {
			s.places = append(s.places, [scratches]int{-1, -1})
		}
		if s.places[track][what] < 0 {
			s.places[track][what] = chunks
			chunks++
		}
	}
	for i := range l.plans {
		for j := range l.plans[i].batches {
			for k := range l.plans[i].batches[j].steps {
				do := &l.plans[i].batches[j].steps[k]
				if do.Names(plan.Tmp) {
					need(do.track, scratchTmp)
				}
				if len(do.Args) > most {
					need(do.track, scratchSum)
				}
			}
		}
	}
	return int64(chunks) * s.chunk
}

// pin allocates pinned host memory for the slots of the rank's relayed links, where device and
// relay meet, and lets their counters begin.
func (g *Group) pin() (err error) {
	l := g.layout
	n := int(l.Given[Relayed][g.rank])
	if n == 0 {
		return nil
	}
	if g.pinned, err = cuda.AllocPinned[uint8](g.cfg.Device, n); err != nil {
		return fmt.Errorf("relayed links of %d slots of %d bytes: %w; smaller or fewer slots need less", l.Slots, l.SlotBytes,
			err)
	}
	for i := range l.links {
		k := &l.links[i]
		if k.place != Relayed || !k.seen[g.rank] {
			continue
		}
		g.links[i].pinned, g.links[i].at = g.pinned.Host()[k.at:][:l.Slots*l.bytesOf(k)], g.pinned.Addr()+cuda.Addr(k.at)
		for _, isReleased := range []bool{false, true} {
			host, _ := g.flag(i, isReleased)
			host.Store(g.cfg.First)
		}
	}
	return nil
}

// open makes the resources of the group. free releases them, also after an error.
func (g *Group) open() error {
	if n := g.scratch.plan(g.layout); n > 0 {
		var err error
		if g.scratch.memory, err = cuda.Alloc[uint8](g.cfg.Device, int(n)); err != nil {
			return fmt.Errorf("scratch memory: %w; smaller slots need less", err)
		}
		g.scratch.base = g.scratch.memory.Addr()
	}
	if err := g.pin(); err != nil {
		return err
	}
	var err error
	if g.relay, err = newRelay(g); err != nil {
		return err
	}
	events, streams := []**cuda.Event{&g.fork, &g.tail}, 0
	for i := range g.layout.plans {
		streams = max(streams, g.layout.plans[i].streams)
	}
	waiting, err := g.cfg.Device.NewWaitingStreams(min(cmp.Or(g.cfg.Streams, defaultStreams), streams))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		g.Alone, err = err, nil
	case len(waiting) == 1: // calls go apart on two or more, and another Group has use for the queue
		err, waiting = waiting[0].Close(), nil
	}
	if err != nil {
		return err
	}
	for _, w := range waiting {
		s := &lineup{Stream: w}
		g.streams = append(g.streams, s)
		events = append(events, &s.joined)
	}
	for _, s := range append(slices.Clone(g.streams), &g.caller) {
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
	for _, s := range g.streams {
		all = append(all, s.Close())
	}
	for _, e := range g.events {
		all = append(all, e.Close())
	}
	all = append(all, g.scratch.memory.Free())
	if g.pinned != nil {
		all = append(all, g.pinned.Free())
	}
	return errors.Join(all...)
}
