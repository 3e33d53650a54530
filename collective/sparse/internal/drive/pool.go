package drive

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/sparse/internal/pool"
	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/transport"
)

// Pool runs the sparse AllReduce of ranks that read each other's memory, which is that
// of their links' Endpoint. It is used again for one tensor after the other: Room, Begin,
// and then it is an Exchange. Where a rank has no Room it calls BeginWithout, and the
// Exchange ends on all ranks with Lacks, before anything is written.
//
// Between calls a rank keeps up to Keep bytes of its memory for its part, and as many for its
// result. A call that took some rank more ends with all ranks giving that back, when all are
// done, but while one such call follows the other the memory stays: from the second on until
// a smaller call has ended, or Rest.
type Pool struct {
	Traffic

	// Keep is the same on all ranks, and does not change during a call. NewPool sets it.
	Keep int

	links *Links
	peers []peer // the other ranks
	sum   pool.Sum
	head  transport.Header

	part, result []byte // memory of the Endpoint

	sent    window // what is being handed to the peers
	dealt   bool   // parts have been added up
	parts   int    // that have come
	results int    // of those that will come, not yet here
	lacks   int    // the first rank without a part, -1: none

	large, wasLarge bool // this call, and the one before, took some rank more than Keep
	leaving, left   bool // this rank is done, and gives memory back when all are
	waiting         int  // for how many ranks that are not yet
}

// peer is another rank: the links with it, and what there is of it.
type peer struct {
	child
	has    bool // part is there, or word that there is none
	placed bool // so is its result, or there is none
	done   bool // and it needs nothing more
}

// window is memory that all peers are to read.
type window struct {
	memory []byte
	step   int32
	to     int // peers who have been told of it
	on     bool
}

// What a message is, in the Root of its header. The last three have nothing in them.
const (
	stepPart = -1 - iota
	stepResult
	stepNoPart   // the rank has no memory for its part
	stepNoResult // nor for its result: everybody adds that up
	stepDone
)

// NewPool makes the exchanges of a rank. stars are trees of its Links, one with every
// rank as its root, by rank; the Endpoint's Layout has memory for Alloc.
func NewPool(k *Links, stars []int) *Pool {
	p := &Pool{links: k, peers: make([]peer, k.size), Keep: keepBytes}
	for _, c := range k.trees[stars[k.rank]].children {
		p.peers[c.rank].to = c.to
	}
	for q := range p.peers {
		p.peers[q].rank = q
		p.peers[q].of = k.trees[stars[q]].ofParent
	}
	return p
}

// Begin starts the next tensor. This rank's part is the first n bytes of Room.
func (p *Pool) Begin(head transport.Header, job pool.Job, n int) error {
	if err := p.begin(head, job); err != nil {
		return err
	}
	if err := p.sum.Take(job.Rank, p.part[:n]); err != nil {
		return err
	}
	p.publish(p.part[:n], stepPart)
	p.large = n > p.Keep
	p.SentBlocks = int64(p.sum.Blocks(job.Rank))
	return nil
}

// BeginWithout starts the next tensor on a rank that has no Room for its part.
func (p *Pool) BeginWithout(head transport.Header, job pool.Job) error {
	if err := p.begin(head, job); err != nil {
		return err
	}
	p.lacks = job.Rank
	p.publish(nil, stepNoPart)
	return nil
}

func (p *Pool) begin(head transport.Header, job pool.Job) error {
	p.Traffic, p.head = Traffic{}, head
	if err := p.sum.Begin(job); err != nil {
		return err
	}
	for q := range p.peers {
		own := q == job.Rank
		p.peers[q].has, p.peers[q].placed, p.peers[q].done = own, own, own
	}
	p.parts, p.dealt, p.results, p.lacks = 1, false, 0, -1
	p.wasLarge, p.large = p.large, false
	p.leaving, p.left, p.waiting = false, false, len(p.peers)-1
	return nil
}

// publish has all peers told of memory.
func (p *Pool) publish(memory []byte, step int32) {
	p.sent = window{memory: memory, step: step, on: true}
	p.SentBytes += int64(len(memory))
}

// Done reports whether the result is there, and all peers have been told what is theirs.
func (p *Pool) Done() bool {
	return p.dealt && p.results == 0 && !p.sent.on && (p.left || !p.leaves())
}

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
	if err != nil || p.results > 0 || p.sent.on || !p.leaves() || p.left {
		return moved || took, err
	}
	left, err := p.leave()
	return moved || took || left, err
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
		to := p.peers[(p.links.rank+w.to)%len(p.peers)].to
		if to == nil {
			continue // this rank
		}
		if _, ok, err := to.TryReserve(0); err != nil || !ok {
			p.wake(first)
			return w.to > first, failed("sending to", (p.links.rank+w.to)%len(p.peers), err)
		}
		to.Lend(&head, w.memory)
		p.SentMessages++
	}
	p.wake(first)
	w.on, w.to = false, 0
	return true, nil
}

// wake wakes the peers that have been told, from the first-th on.
func (p *Pool) wake(first int) {
	p.links.ep.Fence()
	for i := first; i < p.sent.to; i++ {
		if to := p.peers[(p.links.rank+i)%len(p.peers)].to; to != nil {
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
		memory, step, err := p.peek(c, stepPart, stepNoPart)
		if err == nil && step == stepPart {
			err = p.sum.Take(q, memory)
		}
		if err != nil {
			return moved, failed("blocks from", q, err)
		}
		switch step {
		case noStep:
			continue
		case stepNoPart:
			if p.lacks < 0 || q < p.lacks {
				p.lacks = q
			}
		default:
			p.large = p.large || len(memory) > p.Keep
			p.ReceivedBlocks += int64(p.sum.Blocks(q))
		}
		c.has, moved = true, true
		p.parts++
	}
	return moved, nil
}

// noStep is where there is no message.
const noStep = 0

// peek returns what a peer has published, and which of some steps that is.
func (p *Pool) peek(c *peer, steps ...int32) (memory []byte, step int32, err error) {
	var h transport.Header
	memory, ok, err := c.of.TryPeek(&h)
	if err != nil || !ok {
		return nil, noStep, err
	}
	want := p.head
	want.Root = h.Root
	if h != want || !slices.Contains(steps, h.Root) {
		return nil, noStep, fmt.Errorf("%w: it is of another call (number %d, %d elements, step %d)", pool.ErrPart, h.Seq,
			h.Count, -h.Root)
	}
	p.received(len(memory))
	return memory, h.Root, nil
}

// add adds up what this rank has to, when all parts are there.
func (p *Pool) add() error {
	p.dealt = true
	if p.lacks >= 0 {
		for _, c := range p.peers {
			if c.of != nil {
				c.of.Release()
			}
		}
		p.large = p.wasLarge
		return nil
	}
	p.sum.Deal()
	own, n := p.sum.Share(p.links.rank)
	var result []byte
	if own > 0 {
		var err error
		if result, err = p.room(&p.result, n); err != nil {
			p.publish(nil, stepNoResult)
		} else {
			p.sum.Reduce(result[:n])
			p.publish(result[:n], stepResult)
			p.SentBlocks += int64(own)
		}
		if _, err := p.tell(); err != nil {
			return err
		}
	}
	p.sum.Fold()
	for q := range p.peers {
		c := &p.peers[q]
		blocks, bytes := p.sum.Share(q)
		p.large = p.large || bytes > p.Keep
		if c.of == nil {
			continue // this rank
		}
		c.of.Release()
		if blocks > 0 {
			p.results++
		} else {
			c.placed = true
		}
	}
	switch {
	case own == 0:
		return nil
	case result == nil:
		p.sum.Redo(p.links.rank)
		return nil
	}
	return p.sum.Place(p.links.rank, result[:n])
}

// takeResults copies the results that have come.
func (p *Pool) takeResults() (moved bool, err error) {
	for i := range p.peers {
		q := (p.links.rank + i) % len(p.peers)
		c := &p.peers[q]
		if c.placed {
			continue
		}
		memory, step, err := p.peek(c, stepResult, stepNoResult)
		switch {
		case err != nil || step == noStep:
		case step == stepNoResult:
			p.sum.Redo(q)
		default:
			err = p.sum.Place(q, memory)
		}
		if err != nil {
			return moved, failed("results from", q, err)
		}
		if step != noStep {
			c.of.Release()
			c.placed, moved = true, true
			blocks, _ := p.sum.Share(q)
			p.ReceivedBlocks += int64(blocks)
			p.results--
		}
	}
	return moved, nil
}

// Union returns how many blocks any rank had.
func (p *Pool) Union() int { return p.sum.Union() }

// WaitsFor says what is missing.
func (p *Pool) WaitsFor() []waits.Lack {
	var list []waits.Lack
	for q, c := range p.peers {
		what, missing := "to send blocks", !c.has
		switch {
		case p.leaving:
			what, missing = "to come to the end", !c.done
		case p.dealt:
			what, missing = "to send results", !c.placed
		}
		if missing && q != p.links.rank {
			list = append(list, waits.Lack{Rank: q, What: what})
		}
	}
	if len(list) == 0 {
		return []waits.Lack{{Rank: -1, What: "other ranks to take blocks"}}
	}
	return list
}
