package drive

import (
	"errors"
	"fmt"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/collective/sparse/internal/pool"
	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/transport"
)

// Pool runs the sparse AllReduce of ranks that read each other's memory, which is that
// of their links' Endpoint. It is used again for one tensor after the other: Room, Begin,
// and then it is an Exchange.
//
// A rank keeps its memory for its part and for its result from call to call. What is beyond
// Keep bytes of either it gives back before a call that needs less, and by Trim.
type Pool struct {
	block.Counts

	Keep int // NewPool sets it

	place
	peers []peer // the other ranks
	sum   pool.Sum
	head  transport.Header

	part, result []byte // memory of the Endpoint

	sent    window // what is being handed to the peers
	dealt   bool   // parts have been added up
	parts   int    // that have come
	results int    // of those that will come, not yet here
}

// peer is another rank: the links with it, and what there is of it.
type peer struct {
	child
	has    bool // its part is there
	placed bool // so is its result, or there is none
}

// window is memory that all peers are to read.
type window struct {
	memory []byte
	step   int32
	to     int // peers who have been told of it
	on     bool
}

// What a message is, in the Root of its header.
const (
	stepPart = -1 - iota
	stepResult
)

// PoolLayout returns the links of a Pool: one from every rank to every other.
func PoolLayout(size int) transport.Layout {
	layout := transport.Layout{Size: size, Slots: 2, SlotBytes: 64}
	for src := range size {
		for dst := range size {
			if src != dst {
				layout.Links = append(layout.Links, transport.Link{Src: src, Dst: dst})
			}
		}
	}
	return layout
}

// NewPool makes the exchanges of a rank over links of a PoolLayout that has memory for Alloc.
func NewPool(ep transport.Endpoint, rank, size int) (*Pool, error) {
	p := &Pool{place: place{ep, rank}, peers: make([]peer, size), Keep: keepBytes}
	for q := range p.peers {
		c := &p.peers[q].child
		if c.rank = q; q == rank {
			continue
		}
		var first, second error
		c.to, first = ep.Sender(0, q)
		c.of, second = ep.Receiver(0, q)
		if err := errors.Join(first, second); err != nil {
			return nil, failed("links with", q, err)
		}
	}
	return p, nil
}

// Begin starts the next tensor. This rank's part is the first n bytes of Room.
func (p *Pool) Begin(head transport.Header, job pool.Job, n int) error {
	p.Counts, p.head = block.Counts{}, head
	if err := p.sum.Begin(job); err != nil {
		return err
	}
	for q := range p.peers {
		own := q == job.Rank
		p.peers[q].has, p.peers[q].placed = own, own
	}
	p.parts, p.dealt, p.results = 1, false, 0
	if err := p.sum.Take(job.Rank, p.part[:n]); err != nil {
		return err
	}
	p.publish(p.part[:n], stepPart)
	p.SentBlocks = p.sum.Blocks(job.Rank)
	return nil
}

// publish has all peers told of memory.
func (p *Pool) publish(memory []byte, step int32) {
	p.sent = window{memory: memory, step: step, on: true}
	p.SentBytes += len(memory)
}

// Done reports whether the result is there, and all peers have been told what is theirs.
func (p *Pool) Done() bool { return p.dealt && p.results == 0 && !p.sent.on }

// Poll does what can be done now.
func (p *Pool) Poll() (moved bool, err error) {
	if moved, err = p.tell(); err != nil {
		return moved, err
	}
	if !p.dealt {
		took, err := p.takeParts()
		if err != nil || p.parts < len(p.peers) || p.sent.on {
			return moved || took, err
		}
		return true, p.add()
	}
	took, err := p.takeResults()
	return moved || took, err
}

// tell tells the peers of what is published, as far as there is room.
func (p *Pool) tell() (moved bool, err error) {
	w := &p.sent
	if !w.on {
		return false, nil
	}
	head := p.head
	head.Root = w.step
	first := w.to
	for ; w.to < len(p.peers); w.to++ {
		to := p.peers[(p.rank+w.to)%len(p.peers)].to
		if to == nil {
			continue // this rank
		}
		if _, ok, err := to.TryReserve(0); err != nil || !ok {
			p.wake(first)
			return w.to > first, failed("sending to", (p.rank+w.to)%len(p.peers), err)
		}
		to.Lend(&head, w.memory)
		p.SentChunks++
	}
	p.wake(first)
	w.on, w.to = false, 0
	return true, nil
}

// wake wakes the peers that have been told, from the first-th on.
func (p *Pool) wake(first int) {
	p.ep.Fence()
	for i := first; i < p.sent.to; i++ {
		if to := p.peers[(p.rank+i)%len(p.peers)].to; to != nil {
			to.Wake()
		}
	}
}

// takeParts takes in the parts that have come.
func (p *Pool) takeParts() (moved bool, err error) {
	for q := range p.peers {
		c := &p.peers[q]
		if c.has {
			continue
		}
		memory, ok, err := p.peek(c, stepPart)
		if err == nil && ok {
			err = p.sum.Take(q, memory)
		}
		if err != nil {
			return moved, failed("blocks from", q, err)
		}
		if ok {
			p.ReceivedBlocks += p.sum.Blocks(q)
			c.has, moved = true, true
			p.parts++
		}
	}
	return moved, nil
}

// peek returns what a peer has published in a step.
func (p *Pool) peek(c *peer, step int32) (memory []byte, ok bool, err error) {
	var h transport.Header
	memory, ok, err = c.of.TryPeek(&h)
	if err != nil || !ok {
		return nil, false, err
	}
	want := p.head
	want.Root = step
	if h != want {
		return nil, false, fmt.Errorf("%w: it is of another call (number %d, %d elements, step %d)", pool.ErrPart, h.Seq,
			h.Count, -h.Root)
	}
	p.ReceivedChunks++
	p.ReceivedBytes += len(memory)
	return memory, true, nil
}

// add adds up what this rank has to, when all parts are there.
func (p *Pool) add() error {
	p.dealt = true
	p.sum.Deal()
	p.Union = p.sum.Union()
	own, n := p.sum.Share(p.rank)
	var result []byte
	if own > 0 {
		var err error
		if result, err = p.room(&p.result, n); err != nil {
			return err
		}
		p.sum.Reduce(result[:n])
		p.publish(result[:n], stepResult)
		p.SentBlocks += own
		if _, err := p.tell(); err != nil {
			return err
		}
	}
	p.sum.Fold()
	for q := range p.peers {
		c := &p.peers[q]
		if c.of == nil {
			continue // this rank
		}
		c.of.Release()
		if blocks, _ := p.sum.Share(q); blocks > 0 {
			p.results++
		} else {
			c.placed = true
		}
	}
	if own == 0 {
		return nil
	}
	return p.sum.Place(p.rank, result[:n])
}

// takeResults copies the results that have come.
func (p *Pool) takeResults() (moved bool, err error) {
	for i := range p.peers {
		q := (p.rank + i) % len(p.peers)
		c := &p.peers[q]
		if c.placed {
			continue
		}
		memory, ok, err := p.peek(c, stepResult)
		if err == nil && ok {
			err = p.sum.Place(q, memory)
		}
		if err != nil {
			return moved, failed("results from", q, err)
		}
		if ok {
			c.of.Release()
			c.placed, moved = true, true
			blocks, _ := p.sum.Share(q)
			p.ReceivedBlocks += blocks
			p.results--
		}
	}
	return moved, nil
}

// Rests reports that a rank does all at once that it has to.
func (p *Pool) Rests() bool { return false }

// WaitsFor says what is missing.
func (p *Pool) WaitsFor() []waits.Lack {
	var list []waits.Lack
	for q, c := range p.peers {
		what, missing := "to send blocks", !c.has
		if p.dealt {
			what, missing = "to send results", !c.placed
		}
		if missing && q != p.rank {
			list = append(list, waits.Lack{Rank: q, What: what})
		}
	}
	if len(list) == 0 {
		return []waits.Lack{{Rank: -1, What: "other ranks to take blocks"}}
	}
	return list
}

// keepBytes is what a rank keeps between calls, unless told otherwise.
const keepBytes = 64 << 20

// Room returns memory for this rank's part, of n bytes or more. What a former call had there is
// lost. No call may be under way on any rank.
func (p *Pool) Room(n int) ([]byte, error) {
	if err := p.Trim(n); err != nil {
		return nil, err
	}
	return p.room(&p.part, n)
}

func (p *Pool) room(memory *[]byte, n int) ([]byte, error) {
	if len(*memory) >= n {
		return *memory, nil
	}
	if err := p.free(memory); err != nil {
		return nil, err
	}
	alloc := p.ep.Alloc
	if s, is := p.ep.(transport.SharedHeap); is {
		alloc = s.Scratch
	}
	more := n + n/4 // the next call may have a few blocks more
	if n <= p.Keep {
		more = min(more, p.Keep)
	}
	b, err := alloc(more)
	if err != nil {
		return nil, fmt.Errorf("shared memory for %d bytes of blocks: %w; use another form than shared", more, err)
	}
	*memory = b
	return b, nil
}

func (p *Pool) free(memory *[]byte) error {
	if len(*memory) == 0 {
		return nil
	}
	b := *memory
	*memory = nil
	return p.ep.Free(b)
}

// Trim gives back memory of more than Keep bytes, before a call that needs so much for its part.
// No call may be under way on any rank.
func (p *Pool) Trim(n int) error {
	if n > p.Keep {
		return nil
	}
	var errs []error
	for _, memory := range []*[]byte{&p.part, &p.result} {
		if len(*memory) > p.Keep {
			errs = append(errs, p.free(memory))
		}
	}
	return errors.Join(errs...)
}
