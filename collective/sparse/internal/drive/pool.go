package drive

import (
	"errors"
	"fmt"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/collective/sparse/internal/pool"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/transport"
)

// Pool runs the sparse AllReduce of ranks that read each other's memory, which is the memory of their links' Endpoint.
// It is reused for one tensor after the other: Room, Begin, and then it is an Exchange.
//
// A rank keeps its memory for its part and for its result from call to call. It frees the part of either beyond Keep
// bytes before a call that needs less, and in Trim.
type Pool struct {
	block.Counts

	Keep int // set by NewPool

	rankLinks
	peers []peer // by rank; this one has no links
	sum   pool.Sum
	head  call.Header

	part, result []byte // memory of the Endpoint

	step     int32  // the present step
	mine     []byte // memory of this rank that all peers read
	sent     int    // number of peers that this rank has sent its memory to, including itself
	received int    // number of peers whose memory this rank has received, including itself
	done     bool
}

// The steps in which ranks lend memory to each other; in the Root of a header.
const (
	stepPart = -1 - iota
	stepResult
)

// NewPool returns a Pool for a rank over links of small slots, in lane 0, with memory for Alloc.
func NewPool(ep transport.Endpoint, rank, size int) (*Pool, error) {
	p := &Pool{rankLinks: rankLinks{ep, rank}, peers: make([]peer, size), Keep: keepBytes}
	for q := range p.peers {
		var err error
		if q == rank {
			continue
		}
		if p.peers[q], err = openPeer(ep, q, 0, 0); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Begin starts the next tensor. This rank's part is the first n bytes of Room.
func (p *Pool) Begin(head call.Header, job pool.Job, n int) error {
	p.Counts, p.head, p.done = block.Counts{}, head, false
	if err := p.sum.Begin(job); err != nil {
		return err
	}
	p.publish(p.part[:n], stepPart)
	return p.take(job.Rank, p.part[:n])
}

// publish begins a step in which all peers read memory of this rank.
func (p *Pool) publish(memory []byte, step int32) {
	p.mine, p.step, p.sent, p.received = memory, step, 1, 1
	for q := range p.peers {
		p.peers[q].fed = q == p.rank
	}
	p.SentBytes += len(memory)
}

// take processes the memory of rank q in this step.
func (p *Pool) take(q int, memory []byte) (err error) {
	blocks := 0
	if p.step == stepPart {
		err = p.sum.Take(q, memory)
		blocks = p.sum.Blocks(q)
	} else {
		err = p.sum.Place(q, memory)
		blocks, _ = p.sum.Share(q)
	}
	if q == p.rank {
		p.SentBlocks += blocks
	} else {
		p.ReceivedBlocks += blocks
	}
	return err
}

// Done reports whether the result is complete, and all peers have been sent this rank's memory.
func (p *Pool) Done() bool { return p.done }

// Poll makes the progress that is possible now. Precondition: p is not done.
func (p *Pool) Poll() (moved bool, err error) {
	if moved, err = p.lend(); err != nil {
		return moved, err
	}
	received, err := p.receive()
	if err != nil || p.sent < len(p.peers) || p.received < len(p.peers) {
		return moved || received, err
	}
	if p.step == stepPart {
		return true, p.add()
	}
	p.release()
	p.done = true
	return true, nil
}

// release releases the memory that the peers have lent.
func (p *Pool) release() {
	for q := range p.peers {
		if of := p.peers[q].of; of != nil {
			of.Release()
		}
	}
}

// lend lends this rank's memory to the peers, as far as there is room on the links.
func (p *Pool) lend() (moved bool, err error) {
	head, first := p.head, p.sent
	head.SetRoot(p.step)
	for ; p.sent < len(p.peers) && err == nil; p.sent++ {
		q := (p.rank + p.sent) % len(p.peers)
		to := p.peers[q].to
		_, ok, reserving := to.TryReserve(0)
		if err = transport.OnLink(reserving, "sending to", q); err != nil || !ok {
			break
		}
		to.Lend(&head, p.mine, false)
		p.SentChunks++
	}
	if p.sent == first {
		return false, err
	}
	p.ep.Fence()
	for i := first; i < p.sent; i++ {
		p.peers[(p.rank+i)%len(p.peers)].to.Wake()
	}
	return true, err
}

// receive processes the messages that have arrived from the peers.
func (p *Pool) receive() (moved bool, err error) {
	want := p.head
	want.SetRoot(p.step)
	for i := 1; i < len(p.peers); i++ {
		q := (p.rank + i) % len(p.peers)
		c := &p.peers[q]
		if c.fed {
			continue
		}
		var h call.Header
		memory, ok, err := c.of.TryPeek(&h)
		if err == nil && ok && h != want {
			err = fmt.Errorf("%w: it is of another call (number %d, %d elements, step %d)", pool.ErrPart, h.Seq,
				h.Count, -h.Root())
		}
		if err == nil && ok {
			err = p.take(q, memory)
		}
		if err != nil {
			return moved, transport.OnLink(err, p.contents()+" of", q)
		}
		if ok {
			c.fed, moved = true, true
			p.received++
			p.ReceivedChunks++
			p.ReceivedBytes += len(memory)
		}
	}
	return moved, nil
}

// contents names the contents of the messages of this step.
func (p *Pool) contents() string {
	if p.step == stepPart {
		return "blocks"
	}
	return "results"
}

// add adds up this rank's share, when all parts have arrived.
func (p *Pool) add() error {
	p.sum.Deal()
	p.Union = p.sum.Union()
	if p.sum.Dealt() == 0 {
		p.sum.Fold()
		p.release()
		p.done = true
		return nil
	}
	_, n := p.sum.Share(p.rank)
	result, err := p.room(&p.result, n)
	if err != nil {
		return err
	}
	p.sum.Reduce(result[:n])
	p.publish(result[:n], stepResult)
	if _, err := p.lend(); err != nil {
		return err
	}
	p.sum.Fold()
	p.release()
	return p.take(p.rank, result[:n])
}

// shouldYield returns false: a rank does all its work at once.
func (p *Pool) shouldYield() bool { return false }

// WaitsFor returns the missing messages and their ranks.
func (p *Pool) WaitsFor() []waits.Blocker {
	var list []waits.Blocker
	for q := range p.peers {
		if !p.peers[q].fed {
			list = append(list, waits.Blocker{Rank: q, What: "to send " + p.contents()})
		}
	}
	if len(list) == 0 {
		return []waits.Blocker{{Rank: -1, What: "other ranks to take blocks"}}
	}
	return list
}

// keepBytes is the default of Keep.
const keepBytes = 64 << 20

// Room returns memory for this rank's part, of n bytes or more. Its previous contents are lost. No call may be in
// flight on any rank.
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
	more := n + n/4 // the next call may have a few blocks more
	if n <= p.Keep {
		more = min(more, p.Keep)
	}
	b, err := p.ep.Scratch(more)
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

// Trim frees memory of more than Keep bytes, before a call whose part needs n bytes, unless that is more than Keep. No
// call may be in flight on any rank.
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
