package device

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/treerun/treerun/cuda"
)

// small is the number of batches up to which a call stays on the caller's stream, if every lane has one chunk at most:
// going to another stream and back takes as long as a few of them.
const small = 12

// Enqueue puts call c of plan i of the Shape behind the work of stream s, which must be of the Group's device. It
// returns when all is enqueued; s continues when this rank's part of the call is done, also where the Group fails
// meanwhile. Where the driver's queues are full, Enqueue waits for room in them, so every rank needs a goroutine of its
// own.
//
// A stream of another device is an error (cuda.ErrWrongDevice) before anything is done. Any other error is that of the
// Group, which is unusable from then on.
func (g *Group) Enqueue(i int, s *cuda.Stream, c *Call) error {
	return g.run(&g.layout.plans[i], s, c)
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
	select {
	case g.wake <- struct{}{}:
	default:
	}
	g.begin(p, c)
	err := g.enqueue(p, s, c)
	if err != nil {
		err = g.Abort(fmt.Errorf("device: rank %d: %w", g.rank, err))
	}
	g.advance(p)
	return err
}

// begin counts the chunks of call c, and announces to the relay those that it will move.
func (g *Group) begin(p *schedule, c *Call) {
	g.spans = g.spans[:0]
	chunks := c.Chunks
	chunks.Min = cmp.Or(chunks.Min, minChunk)
	for i := range p.lanes {
		ln, h, slot := &p.lanes[i], &c.Header, g.layout.slotOf(p.slots)
		if ln.message != nil {
			h, slot = &ln.message.Header, g.layout.bytesOf(&g.layout.links[ln.uses[0].link])
		}
		s := ln.Span(int64(h.Count), c.DType.Size(), chunks, slot)
		n := uint32(s.Chunks)
		g.spans = append(g.spans, s)
		for _, u := range ln.uses {
			k := &g.links[u.link]
			k.each = u
			k.highest[0].Store(k.slots + n*u.slots)
			k.highest[1].Store(k.count + n*u.n)
			if g.relay != nil && n > 0 && u.n > 0 {
				g.relay.expect(u.link, job{header: *h, span: s, each: u.n, first: k.count})
			}
		}
	}
}

// advance moves the counters behind the call.
func (g *Group) advance(p *schedule) {
	for i := range p.lanes {
		for _, u := range p.lanes[i].uses {
			k := &g.links[u.link]
			k.count += uint32(g.spans[i].Chunks) * u.n
			k.slots += uint32(g.spans[i].Chunks) * u.slots
		}
	}
}

// enqueue forks, takes all steps in the order of batches, and joins.
func (g *Group) enqueue(p *schedule, s *cuda.Stream, c *Call) (err error) {
	if latest := g.caller.Stream; latest != nil && latest != s {
		if err := s.Wait(g.tail); err != nil {
			return err
		}
	}
	g.caller.Stream = s
	chunks, apart := 0, len(p.batches) > small
	for _, s := range g.spans {
		chunks = max(chunks, s.Chunks)
	}
	streams := g.streams[:min(len(g.streams), p.streams)]
	if apart = (apart || chunks > 1) && len(streams) > 1; !apart {
		streams = nil
	}
	if apart {
		err = g.spread(s, streams)
	}
	if err == nil {
		err = g.take(p, c, chunks, streams)
	}
	// Enqueued work is joined also after an error: the caller's stream must not continue before it is done.
	for _, ln := range streams {
		err = errors.Join(err, ln.Record(ln.joined), s.Wait(ln.joined))
	}
	if err == nil && c.Divide > 1 && c.Out != 0 && c.Header.Count > 0 {
		err = g.cfg.Kernels.Divide(s, c.DType, c.Out, c.Out, int64(c.Header.Count), int64(c.Divide))
	}
	return errors.Join(err, s.Record(g.tail))
}

// spread makes streams wait for the work of s.
func (g *Group) spread(s *cuda.Stream, streams []*lineup) error {
	if err := s.Record(g.fork); err != nil {
		return err
	}
	for _, ln := range streams {
		if err := ln.Wait(g.fork); err != nil {
			return err
		}
	}
	return nil
}

// take enqueues the steps of all chunks.
func (g *Group) take(p *schedule, c *Call, chunks int, streams []*lineup) error {
	for j := range uint32(chunks) {
		for i := range p.batches {
			if err := g.cause(); err != nil {
				return err
			}
			b, s := &p.batches[i], &g.caller
			if len(streams) > 0 {
				s = streams[b.stream%len(streams)]
			}
			if err := g.step(s, c, b.steps, j); err != nil {
				return fmt.Errorf("chunk %d, %w", j, err)
			}
		}
	}
	return nil
}
