package engine

import (
	"context"
	"errors"
	"time"

	"github.com/treerun/treerun/collective/internal/p2p"
	"github.com/treerun/treerun/transport"
)

// Quick sends or receives p if that can be done at once: see p2p.Queue. It polls only once where anything is under way.
func (e *Engine) Quick(p *p2p.Message, send bool, polls int) (done bool, err error) {
	if e.first != nil || e.Messages.Active() {
		polls = 1
	}
	if done = e.Messages.Quick(p, send, polls); done && e.first != nil {
		err = e.Poll() // other ranks may wait for the rest
	}
	return done, err
}

// StartMessage begins to send message p, or to receive it, and moves the calls under way. Other messages, and what
// others lend, are for the Poll of a wait: of two ranks that send to each other, neither reads before it lends. An
// error is for transport.CallFault.
func (e *Engine) StartMessage(p *p2p.Message, send bool) error {
	if err := e.Messages.Start(p, send); err != nil || e.first == nil {
		return err
	}
	return e.Poll()
}

// WaitMessage returns when p is done, or with the fault of the Endpoint when it cannot be, or when there is one by
// then.
func (e *Engine) WaitMessage(ctx context.Context, p *p2p.Message, w *Waiter) (transport.Fault, bool) {
	e.Messages.KeepBehind(p)
	if !p.Done() {
		if err := e.waitFor(ctx, p, w); err != nil {
			return e.failWait(err, e.Messages.Describe(p), w)
		}
		e.Messages.Waited = nil
	}
	return e.ep.Aborted()
}

// waitFor waits for p. The rank's wait is recorded as one for p, also when it gives up.
func (e *Engine) waitFor(ctx context.Context, p *p2p.Message, w *Waiter) error {
	e.Messages.Waited = p
	return w.wait(ctx, e, p.DoneFlag(), w.Spins)
}

// Look makes p a Probe, and reports whether it has found a message at once: see p2p.Queue.
func (e *Engine) Look(p *p2p.Message) (bool, error) {
	if err := e.Messages.Open(p); err != nil {
		return false, err
	}
	if err := e.Poll(); err != nil {
		return false, err
	}
	return e.Messages.Look(p)
}

// Forever is the timeout of a Probe that only a message ends.
const Forever = time.Duration(-1)

// WaitProbe is WaitMessage of a Probe that has found nothing yet, for no longer than limit: a wait that ends by itself
// is none to report.
func (e *Engine) WaitProbe(ctx context.Context, p *p2p.Message, w *Waiter,
	limit time.Duration) (transport.Fault, bool) {
	e.Messages.Probe = p
	if limit == Forever {
		return e.WaitMessage(ctx, p, w)
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	quiet := *w
	quiet.Watch = nil
	err := e.waitFor(within, p, &quiet)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		e.Messages.Probe = nil
	case err != nil:
		return e.failWait(err, p.String(), w)
	}
	e.Messages.Waited = nil
	return e.ep.Aborted()
}

// WaitBackground returns when the goroutine of b has ended it, or with the fault of the Endpoint.
func (e *Engine) WaitBackground(ctx context.Context, b *p2p.Background, w *Waiter) (transport.Fault, bool) {
	if !b.Ended() {
		e.Messages.WaitedBackground, e.Messages.Waited = b, nil
		err := w.wait(ctx, e, b.DoneFlag(), w.Spins)
		if e.Messages.WaitedBackground = nil; err != nil {
			return e.failWait(err, b.Name, w)
		}
		e.Messages.Waited = nil
	}
	return e.ep.Aborted()
}

// Flush waits until all kept messages have been sent. It is for a rank that closes: of messages that come meanwhile
// only the IDs are kept.
func (e *Engine) Flush(ctx context.Context, w *Waiter) (transport.Fault, bool) {
	e.Messages.Closing = true
	for {
		fault, failed := e.ep.Aborted()
		p := e.Messages.FirstKept()
		if failed || p == nil {
			return fault, failed
		}
		if err := e.waitFor(ctx, p, w); err != nil {
			return e.failWait(err, e.Messages.Describe(p), w)
		}
	}
}
