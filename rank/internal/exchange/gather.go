package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/treerun/treerun/internal/waits"
)

// AllGather gives every rank the blobs of all ranks, indexed by rank. It implements World.AllGather for the operation
// op, which waits in wait or in the wait of ctx. The error is a *Fault.
//
// It takes ceil(log2 n) steps. In each step every rank sends its blobs to one other rank (Bruck et al., "Efficient
// algorithms for all-to-all communications in multiport message-passing systems", 1997).
func (m *Mesh) AllGather(ctx context.Context, wait *waits.Wait, op string, blob []byte) ([][]byte, error) {
	m.gatherMu.Lock()
	defer m.gatherMu.Unlock()
	if outer := waits.Within(ctx); outer != nil {
		wait = outer
	} else {
		var free func()
		ctx, free = wait.Bound(ctx)
		defer free()
	}
	run, cancel := context.WithCancelCause(ctx)
	g := &gather{mesh: m, run: run, wait: wait, op: op, number: m.gathered.Load()}
	var watcher sync.WaitGroup
	watcher.Go(func() { m.Watch(run, cancel, g.number) })
	result, err := g.bruck(blob)
	cancel(nil)
	watcher.Wait()
	if err == nil {
		m.gathered.Add(1)
		return result, nil
	}
	if ctx.Err() != nil && m.Failure() == nil { // a failure is the better reason, and often why ctx ended
		err = g.giveUp(err)
	}
	if fault := new(Fault); !errors.As(err, &fault) {
		err = &Fault{-1, err}
	}
	return nil, err
}

// gather is one AllGather.
type gather struct {
	mesh   *Mesh
	run    context.Context // done when it cannot complete; its cause is the error then
	wait   *waits.Wait
	op     string
	number uint64
}

// bruck runs the steps.
func (g *gather) bruck(blob []byte) ([][]byte, error) {
	self, n := g.mesh.cfg.Rank, g.mesh.cfg.Size
	if _, why := g.mesh.gatherFault(g.number); why != nil {
		return nil, why
	}
	have := make([][]byte, 1, n) // of ranks self, self+1, ...
	have[0] = blob
	for step := range stepsOf(n) {
		f := &frame{kind: blobsFrame, step: step, rank: self, number: g.number, blobs: have[:blobsIn(step, n)]}
		to := g.mesh.outlet(-1 << step)
		done := g.publish(step, to.peer, "to take blobs")
		if err := to.send(g.run, f); err != nil {
			return nil, g.sendFailed(to.peer, err)
		}
		done()
		got, err := g.receive(g.mesh.peer(1<<step), step)
		if err != nil {
			return nil, err
		}
		have = append(have, got...)
	}
	result := make([][]byte, n)
	for i, b := range have {
		result[(self+i)%n] = b
	}
	result[self] = bytes.Clone(blob)
	return result, nil
}

// publish records that a step waits for a peer.
func (g *gather) publish(step, peer int, what string) (done func()) {
	in := fmt.Sprintf("World.%s #%d, step %d of %d", g.op, g.number, step+1, stepsOf(g.mesh.cfg.Size))
	if outer := g.wait.Doing(); outer != "" {
		in = outer + ": " + in
	}
	return g.wait.Enter(in, waits.Blocker{Rank: peer, What: what})
}

// receive returns the blobs that the peer from sends in a step.
func (g *gather) receive(from, step int) ([][]byte, error) {
	done := g.publish(step, from, "to send blobs")
	select {
	case f := <-g.mesh.inbox[from]:
		done()
		if f.step == step && f.number == g.number {
			return f.blobs, nil
		}
		why := fmt.Errorf("is at step %d of AllGather %d, this rank at step %d of %d", f.step, f.number, step, g.number)
		g.mesh.AbortGather(from, g.number, why)
		return nil, &Fault{from, why}
	case <-g.run.Done():
		return nil, g.endError(from)
	}
}

// awaitFault waits at most limit for a notice from another rank with the reason why the AllGather cannot complete.
func (g *gather) awaitFault(limit time.Duration) *Fault {
	late := time.After(limit)
	for {
		changed, why := g.mesh.gatherFault(g.number)
		if why != nil {
			return why
		}
		select {
		case <-changed:
		case <-late:
			return nil
		}
	}
}

// sendFailed waits for the explanation of a connection that broke, which the connection's reader looks for, too.
func (g *gather) sendFailed(to int, err error) error {
	why := g.awaitFault(2 * g.mesh.cfg.Grace)
	if g.run.Err() != nil {
		return g.endError(to)
	}
	g.wait.Clear()
	if why == nil {
		why = &Fault{to, fmt.Errorf("took no data: %w", err)}
	}
	return why
}

// endError returns why run has ended while this rank waited for a peer. After a timeout the wait stays published for a
// while.
func (g *gather) endError(peer int) error {
	err := context.Cause(g.run)
	switch {
	case errors.Is(err, ErrStalled):
		g.wait.GiveUp()
	case err == g.run.Err() && errors.Is(err, context.DeadlineExceeded):
		err = &late{g.wait.Why(context.Background()), err}
		g.wait.GiveUp()
	default:
		g.wait.Clear()
		if err == g.run.Err() {
			err = fmt.Errorf("still waiting for rank %d: %w", peer, err)
		}
	}
	return err
}

// late is the end of an AllGather that took too long.
type late struct {
	waits.Cause
	err error
}

func (l *late) Error() string { return fmt.Sprintf("%v; it waited: %s", l.err, l.Text) }
func (l *late) Unwrap() error { return l.err }

// AtFault returns the rank at the end of the chain of waits, -1 when it is not a single rank.
func (l *late) AtFault() int { return l.Rank }

// giveUp notifies all ranks that this one has given up because of err, and returns its error. Ranks that give up at the
// same time must not take each other's end for the cause.
func (g *gather) giveUp(err error) error {
	if news := g.awaitFault(g.mesh.cfg.Grace); news != nil {
		return news
	}
	culprit, late := -1, interface{ AtFault() int }(nil)
	if errors.As(err, &late) {
		culprit = late.AtFault()
	}
	by, why := g.mesh.cfg.Rank, fmt.Errorf("gave up %s: %w", g.op, err)
	if culprit >= 0 {
		by, why = culprit, fmt.Errorf("is waited for: rank %d gave up %s: %w", g.mesh.cfg.Rank, g.op, err)
		err = fmt.Errorf("is waited for: %w", err)
	}
	g.mesh.AbortGather(by, g.number, why)
	return &Fault{culprit, err}
}
