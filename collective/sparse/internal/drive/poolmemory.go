package drive

import (
	"errors"

	"github.com/treerun/treerun/transport"
)

// keepBytes is what a rank keeps between calls, unless told otherwise.
const keepBytes = 64 << 20

// Room returns memory for this rank's part, of n bytes or more, nil with n 0 where there
// is none yet. It is the same from call to call, as long as it is large enough and is kept;
// what is in it is lost when it is not. No call may be under way on any rank.
func (p *Pool) Room(n int) ([]byte, error) { return p.room(&p.part, n) }

func (p *Pool) room(memory *[]byte, n int) ([]byte, error) {
	if len(*memory) >= n {
		return *memory, nil
	}
	if err := p.free(memory); err != nil {
		return nil, err
	}
	alloc := p.links.ep.Alloc
	if s, is := p.links.ep.(transport.SharedHeap); is {
		alloc = s.Scratch
	}
	more := n + n/4 // the next call may have a few blocks more
	if n <= p.Keep {
		more = min(more, p.Keep)
	}
	b, err := alloc(more)
	if err != nil && more > n {
		b, err = alloc(n)
	}
	if err != nil {
		return nil, err
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
	return p.links.ep.Free(b)
}

// Rest gives back memory of more than Keep bytes: all ranks make a call of another form. No
// call may be under way on any rank.
func (p *Pool) Rest() error {
	p.large = false
	return p.trim()
}

// trim gives back memory of more than Keep bytes.
func (p *Pool) trim() error {
	var errs []error
	for _, memory := range []*[]byte{&p.part, &p.result} {
		if len(*memory) > p.Keep {
			errs = append(errs, p.free(memory))
		}
	}
	return errors.Join(errs...)
}

// Lacks returns the first rank that had no memory for its part, where any had none: then
// the call has done nothing. It is the same on all ranks.
func (p *Pool) Lacks() (rank int, lacks bool) { return p.lacks, p.lacks >= 0 }

// leaves reports whether this call ends with memory being given back, as it is the first
// large one, or the first that is not: the same on all ranks, when all parts are there.
func (p *Pool) leaves() bool { return p.large != p.wasLarge && p.lacks < 0 }

// leave tells the peers that this rank is done, and when all are gives memory back.
func (p *Pool) leave() (moved bool, err error) {
	if !p.leaving {
		p.leaving = true
		p.publish(nil, stepDone)
		return true, nil
	}
	for q := range p.peers {
		c := &p.peers[q]
		if c.done {
			continue
		}
		_, step, err := p.peek(c, stepDone)
		if err != nil {
			return moved, failed("the end of", q, err)
		}
		if step == stepDone {
			c.of.Release()
			c.done, moved = true, true
			p.waiting--
		}
	}
	if p.waiting > 0 {
		return moved, nil
	}
	p.left = true
	return true, p.trim()
}
