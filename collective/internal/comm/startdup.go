package comm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/treerun/treerun/collective/internal/p2p"
	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/status"
	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/transport"
)

const startDup = "StartDup"

// StartedDup is a Dup under way. A goroutine of its own makes the communicator. Its messages move during the calls on
// the parent and, while there is none, whenever that goroutine looks.
type StartedDup struct {
	c      *Comm
	rounds *p2p.Background
	world  *setup.SubWorld
	made   chan struct{} // closed once sub and err are there

	mu   sync.Mutex // held during Wait
	over bool       // whether Wait has returned sub, or never will
	sub  *Comm
	err  error
}

// dupTag less the number of a StartDup is the tag of its messages, below those of the rounds of calls.
const dupTag = -1<<30 - 2

// StartDup begins a Dup of c.
func (c *Comm) StartDup(opts []setup.Option) (*StartedDup, error) {
	if err := c.Claim(startDup); err != nil {
		return nil, err
	}
	defer c.End()
	if c.Plans.Messages < 0 {
		return nil, c.ArgumentError(startDup, "it is for %s", c.Plans.NoMessages())
	}
	c.dups++
	c.Tally.count(status.RowSplit, 0)
	w := newSubWorld(c, startDup, fmt.Sprintf("dup#%d", c.dups), numbers.Below(c.Size))
	d := &StartedDup{c: c, world: w, made: make(chan struct{})}
	w.Gather = d.gather
	d.rounds = c.Engine.Messages.NewBackground(startDup, dupTag-int32(c.dups&(1<<29-1)))
	p := c.Setup.NewPart(nil, opts)
	c.watch.Go(func() {
		d.sub, d.err = newOf(c.ctx, c, w, p, nil, opts)
		close(d.made)
		d.rounds.End()
	})
	c.started = append(c.started, d)
	return d, nil
}

// gather is the Gather of the communicator's World, whose messages move during the calls of the parent. After an error
// it is not called again: New has failed.
func (d *StartedDup) gather(ctx context.Context, mine, all []byte) error {
	defer waits.Within(ctx).Pause()() // until Wait this rank waits for no other
	d.rounds.Request(passesAmong(d.world.Members, mine, all))
	for look := time.Millisecond; ; look = min(2*look, 10*time.Millisecond) {
		d.c.move(nil)
		select {
		case <-d.rounds.Moved:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(look): // a call on the parent may move them meanwhile
		}
	}
}

// Wait returns the communicator once it is made on this rank. A ctx that ends is a failure of the parent.
func (d *StartedDup) Wait(ctx context.Context) (*Comm, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.c
	if d.over {
		return d.sub, d.err
	}
	if err := c.Claim(startDup); errors.Is(err, setup.ErrBusy) {
		return nil, err
	} else if err != nil {
		d.drop(err)
		return nil, err
	}
	c.started = slices.DeleteFunc(c.started, func(s *StartedDup) bool { return s == d })
	c.Tally.enter(status.RowSplit, 0)
	if fault, failed := c.Engine.WaitBackground(ctx, d.rounds, &c.Waiter); failed {
		err := c.failure.during(fault, startDup, "")
		c.End()
		d.drop(err)
		return nil, err
	}
	c.End()
	d.over = true
	if d.err != nil {
		d.err = subCommError(ctx, c, d.world, d.err)
	}
	return d.sub, d.err
}

// drop closes the communicator, which no caller gets because of err, unless Wait has returned it. mu is held.
func (d *StartedDup) drop(err error) {
	<-d.made
	if d.over {
		return
	}
	if d.sub != nil {
		d.sub.Close()
	}
	d.over, d.sub, d.err = true, nil, err
}

// Test moves the calls and messages under way on the parent, and is Wait if the communicator is made, or never will be.
func (d *StartedDup) Test() (sub *Comm, done bool, err error) {
	c := d.c
	if err := c.Claim(startDup); errors.Is(err, setup.ErrBusy) {
		return nil, false, err
	} else if err == nil {
		if err := c.Engine.Poll(); err != nil {
			c.Links.Abort(transport.CallFault(err, c.Rank, startDup))
		}
		_, failed := c.Endpoint.Aborted()
		c.End()
		if !d.rounds.Ended() && !failed {
			return nil, false, nil
		}
	}
	sub, err = d.Wait(context.Background())
	return sub, !errors.Is(err, setup.ErrBusy), err
}
