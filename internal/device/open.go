package device

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
)

// scratch is device memory of this rank alone: up to three chunks per track.
// Calls follow each other, so all programs share it.
type scratch struct {
	memory cuda.Slice[uint8]
	base   cuda.Addr // of memory
	chunk  int64
	places [][scratches]int // by track: which chunk, -1 for none
}

// What a track may need scratch memory for.
const (
	scratchTmp     = iota // plan.Tmp
	scratchSum            // the sum of some of more than three operands
	scratchProduct        // the input, multiplied
	scratches
)

// at returns the memory of a track for something.
func (s *scratch) at(track, what int) cuda.Addr {
	return s.base + cuda.Addr(int64(s.places[track][what])*s.chunk)
}

// plan finds out which memory the tracks of all programs need, and returns how
// many bytes that is.
func (s *scratch) plan(l *Layout) int64 {
	s.chunk = int64(l.slotBytes)
	chunks := 0
	need := func(track, what int) {
		for len(s.places) <= track {
			s.places = append(s.places, [scratches]int{-1, -1, -1})
		}
		if s.places[track][what] < 0 {
			s.places[track][what] = chunks
			chunks++
		}
	}
	for i := range l.plans {
		for j := range l.plans[i].lanes {
			for k := range l.plans[i].lanes[j].todo {
				do := &l.plans[i].lanes[j].todo[k]
				if do.Names(plan.Tmp) {
					need(do.track, scratchTmp)
				}
				if len(do.Args) > most {
					need(do.track, scratchSum)
				}
				for _, a := range do.Args {
					if len(do.Args) > 1 && !a.Received() && a.Buf == plan.In {
						need(do.track, scratchProduct)
					}
				}
			}
		}
	}
	return int64(chunks) * s.chunk
}

// pins is pinned host memory: the slots and the counters of relayed links, where
// device and relay meet.
type pins struct {
	memory *cuda.Pinned[uint8]
	host   []byte
	addr   cuda.Addr
	flags  []int // by link: where its counters lie, -1
}

func (p *pins) flag(i int, isReleased bool) (*atomic.Uint32, cuda.Addr) {
	at := p.flags[i]
	if isReleased {
		at += flagLine
	}
	return word(p.host, at), p.addr + cuda.Addr(at)
}

// open allocates pinned memory for the relayed links of the rank.
func (p *pins) open(g *Group) error {
	l := g.layout
	p.flags = make([]int, len(l.links))
	lines, slots := 0, 0
	for i, k := range l.links {
		p.flags[i] = -1
		if !k.direct && (k.Src == g.rank || k.Dst == g.rank) {
			p.flags[i] = 2 * flagLine * lines
			lines++
		}
	}
	if lines == 0 {
		return nil
	}
	head := (2*flagLine*lines + 4095) &^ 4095
	each := l.slots * l.slotBytes
	memory, err := cuda.AllocPinned[uint8](g.cfg.Device, head+lines*each)
	if err != nil {
		return fmt.Errorf("%d relayed links of %d slots of %d bytes: %w; smaller or fewer slots need less", lines, l.slots,
			l.slotBytes, err)
	}
	p.memory, p.host, p.addr = memory, memory.Host(), memory.Addr()
	for i := range l.links {
		if p.flags[i] < 0 {
			continue
		}
		at := head + slots*each
		slots++
		g.links[i].pinned, g.links[i].pinnedAddr = p.host[at:at+each], p.addr+cuda.Addr(at)
		word(p.host, p.flags[i]).Store(g.cfg.First)
		word(p.host, p.flags[i]+flagLine).Store(g.cfg.First)
	}
	return nil
}

// open makes what the group holds. free undoes it, also after an error.
func (g *Group) open() error {
	if n := g.scratch.plan(g.layout); n > 0 {
		var err error
		if g.scratch.memory, err = cuda.Alloc[uint8](g.cfg.Device, int(n)); err != nil {
			return fmt.Errorf("scratch memory: %w; smaller slots need less", err)
		}
		g.scratch.base = g.scratch.memory.Addr()
	}
	if err := g.pins.open(g); err != nil {
		return err
	}
	var err error
	if g.relay, err = newRelay(g); err != nil {
		return err
	}
	most := g.cfg.Streams
	if most == 0 {
		most = defaultStreams
	}
	tracks := 0
	for i := range g.layout.plans {
		tracks = max(tracks, g.layout.plans[i].tracks)
	}
	for range min(most, tracks) {
		s := &lineup{pace: new(pace)}
		g.streams = append(g.streams, s)
		if s.Stream, err = g.cfg.Device.NewUrgentStream(); err != nil {
			return err
		}
		if err := g.newEvents(&s.joined); err != nil {
			return err
		}
		if err := s.pace.open(g); err != nil {
			return err
		}
	}
	g.caller.pace = new(pace)
	if err := g.caller.pace.open(g); err != nil {
		return err
	}
	if err := g.newEvents(&g.fork, &g.tail); err != nil {
		return err
	}
	g.signals = &memoryOps{g: g}
	return nil
}

func (p *pace) open(g *Group) error {
	for i := range p.ticks {
		if err := g.newEvents(&p.ticks[i]); err != nil {
			return err
		}
	}
	return nil
}

// newEvents makes events that free closes.
func (g *Group) newEvents(to ...**cuda.Event) (err error) {
	for _, e := range to {
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
		if s.Stream != nil {
			all = append(all, s.Close())
		}
	}
	for _, e := range g.events {
		all = append(all, e.Close())
	}
	all = append(all, g.scratch.memory.Free())
	if g.pins.memory != nil {
		all = append(all, g.pins.memory.Free())
	}
	return errors.Join(all...)
}
