package comm

import (
	"context"
	"time"

	"github.com/treerun/treerun/collective/internal/engine"
	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/call"
)

// New makes a communicator of all ranks of w: see New of package collective.
func New(ctx context.Context, w setup.World, opts ...setup.Option) (*Comm, error) {
	s, err := setup.New(ctx, w, opts...)
	if err != nil {
		return nil, err
	}
	return newComm(s), nil
}

// newComm makes the communicator that s is for.
func newComm(s *setup.Setup) *Comm {
	c := &Comm{Rank: s.Rank, Size: s.Size, Name: s.Name, Plans: s.Plans, Endpoint: s.Endpoint, Engine: s.Engine,
		Waiter: s.Waiter, Setup: s, closed: make(chan struct{}), subs: map[string]int{},
		prepared: map[call.ID]int{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.Messages.c, c.Devices.c, c.Links.c, c.failure.c = c, c, c, c
	calls, hide := s.Waiter.Watch.Page().Open(s.Name, s.Size)
	c.Tally.calls.Store(calls)
	c.Engine.Calls.SetLog(&calls.Log)
	c.hide = hide
	c.Tally.rec = newRecorder(c)
	c.Looks.begin(c)
	s.Waiter.Watch.SetBusy(c.Claimed)
	s.Waiter.Watch.SetLeave(c.Close)
	s.Waiter.Watch.SetPredict(func() time.Duration { return predict(c) })
	c.watch.Go(c.Links.watchOver)
	return c
}

// predict returns the predicted time of the call of c that this rank waits for, 0 where there is none.
func predict(c *Comm) time.Duration {
	id, is := engine.Waited(c.Engine)
	if !is || id.Kind >= call.Exchange {
		return 0
	}
	bytes := int(id.Count) * id.DType.Size()
	if kind := plan.Kind(id.Kind); kind.HasParts() && !id.Varied {
		bytes *= c.Size
	}
	t, err := c.Setup.Predict(plan.Kind(id.Kind), int(id.Root), bytes)
	if err != nil {
		return 0 // the call may have a plan that the program has made
	}
	return max(0, t)
}

// None returns a communicator that stands for a nil one: a closed one of one rank, whose calls are an ErrArgument. Each
// caller gets its own.
func None() *Comm {
	c, err := New(context.Background(), setup.InProcess(1)[0])
	if err != nil {
		panic("collective: call on a nil Comm: " + err.Error())
	}
	c.Close()
	c.none, c.Name = true, ""
	return c
}
