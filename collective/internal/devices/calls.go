package devices

import (
	"errors"
	"sync"
	"time"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/call"
)

// MaxCalls is the largest number of device calls of a rank that may be under way, and the number of latest calls that
// can be compared.
const MaxCalls = call.Logged

// calls are the latest device calls of a rank, messages included. Any goroutine may use them.
type calls struct {
	device *cuda.Device

	mu      sync.Mutex        // guards the fields below
	ring    [MaxCalls]pending // by number, from 1 on
	latest  uint64
	retired uint64 // calls that are known to be done
}

// pending is one of the latest calls.
type pending struct {
	id       call.ID
	to       string // for a message: " to rank 1"
	lacks    string // for a message: the missing action of the peer
	sends    bool   // whether this rank sends the message, if it is one
	peer     int    // the peer of a message, else -1
	since    time.Time
	enqueued bool        // whether all of the call is in the stream, and done recorded
	done     *cuda.Event // the caller's stream is through with it; kept for the next call here
}

// String names the call, for users.
func (p *pending) String() string { return p.id.String() + p.to }

func (c *calls) at(number uint64) *pending { return &c.ring[number%MaxCalls] }

// begin adds p, before it is enqueued: that may take until other ranks come to it.
func (c *calls) begin(p pending) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.at(c.latest + 1)
	if p.done = next.done; p.done == nil {
		if p.done, err = c.device.NewEvent(false); err != nil {
			return err
		}
	}
	p.since = time.Now()
	*next = p
	c.latest++
	return nil
}

// recordEnd records in s the end of all calls that have begun.
func (c *calls) recordEnd(s *cuda.Stream) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := c.latest; n > c.retired && !c.at(n).enqueued; n-- {
		if err := s.Record(c.at(n).done); err != nil {
			return err
		}
		c.at(n).enqueued = true
	}
	return nil
}

// retire forgets the calls that are done, and reports how many are left.
func (c *calls) retire() (left int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for done := true; c.retired < c.latest; c.retired++ {
		p := c.at(c.retired + 1)
		if !p.enqueued {
			break
		}
		if done, err = p.done.Query(); err != nil || !done {
			break
		}
	}
	return int(c.latest - c.retired), err
}

// oldest returns the oldest call that is not known to be done.
func (c *calls) oldest() (p pending, busy bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retired == c.latest {
		return p, false
	}
	return *c.at(c.retired + 1), true
}

// close closes the events.
func (c *calls) close() (err error) {
	for i := range c.ring {
		if e := c.ring[i].done; e != nil {
			err = errors.Join(err, e.Close())
		}
	}
	return err
}
