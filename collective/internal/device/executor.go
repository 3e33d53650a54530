package device

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/backoff"
)

// executor enqueues the work of one call after the other on streams.
type executor struct {
	links   *links
	proxy   *proxy // nil where there is no network link
	kernels Kernels
	scratch scratch
	err     func() error // returns why the Group is unusable

	streams []*stream
	fork    *cuda.Event                            // recorded when the stream of the latest call has come to it
	tail    *cuda.Event                            // recorded when that stream is through
	caller  stream                                 // the stream of the latest call, nil before there is one
	memOps  func(*cuda.Stream, []cuda.MemOp) error // Stream.MemOps, but in tests

	// State of the call at work.
	schedule *schedule
	call     *Call
	spans    []plan.Span // the spans of its lanes
	chunks   int         // the largest number of chunks of a lane
	active   []*step
	signals  []cuda.MemOp // the operations that are not yet in a stream
	addrs    []cuda.Addr
	parts    []kernels.Part
}

// stream is a stream, with the events that mark its progress.
type stream struct {
	*cuda.Stream
	joined *cuda.Event            // recorded when a call is through with the stream
	ticks  [paceTicks]*cuda.Event // recorded every paceSteps steps, in turn; nil in tests
	steps  int
}

// begin counts the chunks of call c of p, and announces to the proxy those that it will move.
func (x *executor) begin(p *schedule, c *Call) {
	x.schedule, x.call, x.spans, x.chunks = p, c, x.spans[:0], 0
	chunks := c.Chunks
	chunks.Min = cmp.Or(chunks.Min, minChunk)
	for i := range p.lanes {
		ln, h, slot := &p.lanes[i], &c.Header, x.links.layout.slotOf(p.slots)
		if ln.message != nil {
			h, slot = &ln.message.Header, x.links.layout.bytesOf(&x.links.layout.links[ln.uses[0].link])
		}
		s := ln.Span(int64(h.Count), c.DType.Size(), chunks, slot)
		n := uint32(s.Chunks)
		x.spans, x.chunks = append(x.spans, s), max(x.chunks, s.Chunks)
		for _, u := range ln.uses {
			k := &x.links.states[u.link]
			k.each = u
			k.highest[published].Store(k.slots + n*u.slots)
			k.highest[released].Store(k.count + n*u.n)
			if x.proxy != nil && n > 0 && u.n > 0 {
				x.proxy.expect(u.link, proxyOp{header: *h, span: s, each: u.n, first: k.count})
			}
		}
	}
}

// advance moves the counters behind the call.
func (x *executor) advance() {
	for i := range x.schedule.lanes {
		for _, u := range x.schedule.lanes[i].uses {
			k := &x.links.states[u.link]
			k.count += uint32(x.spans[i].Chunks) * u.n
			k.slots += uint32(x.spans[i].Chunks) * u.slots
		}
	}
}

// forkJoin puts the call behind the work of s: it forks, enqueues all batches in their order, and joins. One of a
// single chunk does not fork: its batches follow each other by level on any number of streams.
func (x *executor) forkJoin(s *cuda.Stream) (err error) {
	if latest := x.caller.Stream; latest != nil && latest != s {
		if err := s.Wait(x.tail); err != nil {
			return err
		}
	}
	x.caller.Stream = s
	streams := x.streams[:min(len(x.streams), x.schedule.streams)]
	if len(streams) < 2 || x.chunks <= 1 {
		streams = nil
	}
	if len(streams) > 0 {
		err = s.Record(x.fork)
	}
	for _, ln := range streams {
		err = cmp.Or(err, ln.Wait(x.fork))
	}
	if err == nil {
		err = x.runBatches(streams)
	}
	// Enqueued work is joined also after an error: the caller's stream must not continue before it is done.
	for _, ln := range streams {
		err = errors.Join(err, ln.Record(ln.joined), s.Wait(ln.joined))
	}
	if c := x.call; err == nil && c.Divide > 1 && c.Out != 0 && c.Header.Count > 0 {
		err = x.kernels.Divide(s, c.DType, c.Out, c.Out, int64(c.Header.Count), int64(c.Divide))
	}
	return errors.Join(err, s.Record(x.tail))
}

// runBatches enqueues the batches of all chunks.
func (x *executor) runBatches(streams []*stream) error {
	for j := range uint32(x.chunks) {
		for i := range x.schedule.batches {
			if err := x.err(); err != nil {
				return err
			}
			b, s := &x.schedule.batches[i], &x.caller
			if len(streams) > 0 {
				s = streams[b.stream%len(streams)]
			}
			if err := x.runBatch(s, b.steps, j); err != nil {
				return fmt.Errorf("chunk %d, %w", j, err)
			}
		}
	}
	return nil
}

// idle reports whether no stream has work of a call. An error of the device ends its work.
func (x *executor) idle() bool {
	if x.caller.Stream == nil {
		return true
	}
	if done, err := x.tail.Query(); err == nil && !done {
		return false
	}
	return !slices.ContainsFunc(x.streams, func(s *stream) bool {
		done, err := s.Query()
		return err == nil && !done
	})
}

// The driver takes about 1024 operations per stream, and then lets the caller
// wait inside it, with locks that others need. A stream gets no more than
// paceTicks times paceSteps steps ahead of the device.
const (
	paceSteps = 32
	paceTicks = 4
)

// pollPause is the longest time between two looks at the progress of streams.
const pollPause = 200 * time.Microsecond

// pace counts one step of a stream, and waits where that is too far ahead.
func (x *executor) pace(s *stream) error {
	if s.steps++; s.steps%paceSteps != 0 || s.ticks[0] == nil {
		return nil
	}
	tick := s.ticks[s.steps/paceSteps%paceTicks]
	if err := backoff.Poll(pollPause, x.err, tick.Query); err != nil {
		return err
	}
	return s.Record(tick)
}
