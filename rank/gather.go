package rank

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/treerun/treerun/internal/waits"
)

// AllGather gives every rank the blobs of all ranks: result[i] is rank i's. All
// ranks call it, equally often and in the same order. A blob has at most
// MaxBlob bytes; blob is not kept, and the result is the caller's.
//
// It takes ceil(log2 n) steps, in which each rank sends what it has to one
// other (Bruck et al., "Efficient algorithms for all-to-all communications in
// multiport message-passing systems", 1997).
//
// A blob that is too large is an error before anything is sent. After any other
// error, a *Error, the call fails on all ranks that do not have all blobs yet, and
// every later one fails on all.
// One that ends with ctx is such an error, and so is one that reaches the stall
// timeout, an ErrStalled: both name the rank that all wait for in the end. Calls
// of one World run one after the other.
func (w *World) AllGather(ctx context.Context, blob []byte) ([][]byte, error) {
	if len(blob) > MaxBlob {
		return nil, &Error{Self: w.cfg.Rank, Rank: w.cfg.Rank, Op: "AllGather",
			Err: fmt.Errorf("gave a blob of %d bytes, at most %d are possible", len(blob), MaxBlob)}
	}
	return w.gather(ctx, "AllGather", blob)
}

// gather is AllGather, for the operation op.
func (w *World) gather(ctx context.Context, op string, blob []byte) ([][]byte, error) {
	w.gatherMu.Lock()
	defer w.gatherMu.Unlock()
	number := w.gathered.Load()

	wait := waits.Within(ctx)
	if wait == nil {
		var free func()
		wait = w.wait
		ctx, free = wait.Bound(ctx)
		defer free()
	}
	run, cancel := context.WithCancelCause(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { w.watchJobState(run, cancel, op, number) })
	result, err := w.bruck(run, wait, op, number, blob)
	if err == nil {
		w.gathered.Add(1)
	}
	cancel(nil)
	watcher.Wait()
	if err == nil {
		return result, nil
	}
	if ctx.Err() != nil && w.jobState.first() == nil { // a failure is the better reason, and often why ctx ended
		err = w.gaveUp(op, number, err)
	}
	return nil, err
}

// newsOf waits a little for another rank to say why AllGather number cannot complete: ranks
// that give up at the same time are not to take each other's end for the reason.
func (w *World) newsOf(op string, number uint64) error {
	grace := time.After(w.cfg.lossGrace())
	for {
		changed, err := w.jobState.news(op, number)
		if err != nil {
			return err
		}
		select {
		case <-changed:
		case <-grace:
			return nil
		}
	}
}

// gaveUp tells all ranks that this one has given up AllGather number because of err, and
// returns its error.
func (w *World) gaveUp(op string, number uint64, err error) error {
	if news := w.newsOf(op, number); news != nil {
		return news
	}
	culprit, late := -1, interface {
		error
		AtFault() int // -1 when it is not one rank's
	}(nil)
	if errors.As(err, &late) {
		culprit = late.AtFault()
	}
	by, why := w.cfg.Rank, fmt.Errorf("gave up %s: %w", op, err)
	if culprit >= 0 {
		by, why = culprit, fmt.Errorf("is waited for: rank %d gave up %s: %w", w.cfg.Rank, op, err)
		err = fmt.Errorf("is waited for: %w", err)
	}
	if w.mesh != nil {
		w.mesh.spread(brokenNotice(by, number, why))
	}
	return &Error{Self: w.cfg.Rank, Rank: culprit, Op: op, Err: err}
}

// watchJobState cancels run when AllGather number cannot complete any more.
func (w *World) watchJobState(run context.Context, cancel context.CancelCauseFunc, op string, number uint64) {
	for {
		changed, err := w.jobState.news(op, number)
		if err != nil {
			cancel(err)
			return
		}
		select {
		case <-changed:
		case <-run.Done():
			return
		}
	}
}

// bruck runs the steps. run is done when they cannot complete; its cause is the
// error then.
func (w *World) bruck(run context.Context, wait *waits.Wait, op string, number uint64, blob []byte) ([][]byte, error) {
	self, n := w.cfg.Rank, w.cfg.Size
	if _, err := w.jobState.news(op, number); err != nil {
		return nil, err
	}
	have := make([][]byte, 1, n) // of ranks self, self+1, ...
	have[0] = blob
	for step := range stepsOf(n) {
		count := blobsIn(step, n)
		f := &frame{kind: blobsFrame, step: step, rank: self, number: number, blobs: have[:count]}
		to := w.mesh.outlet(-1 << step)
		done := w.publish(wait, op, step, number, to.peer, "to take blobs")
		if err := to.send(run, f); err != nil {
			return nil, w.sendFailed(run, wait, op, to.peer, err)
		}
		done()
		got, err := w.receive(run, wait, op, w.mesh.peer(1<<step), step, number)
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

// sendFailed waits for the explanation of a connection that broke, as
// mesh.lost does.
func (w *World) sendFailed(run context.Context, wait *waits.Wait, op string, to int, err error) error {
	if run.Err() == nil {
		w.mesh.lost(to, err)
	}
	if run.Err() != nil {
		return whyEnded(run, wait, to)
	}
	wait.Clear()
	_, news := w.jobState.news(op, w.gathered.Load())
	if news != nil {
		return news
	}
	return &Error{Self: w.cfg.Rank, Rank: to, Op: op, Err: fmt.Errorf("took no data: %w", err)}
}

// publish makes known that a step of an AllGather waits for a peer.
func (w *World) publish(wait *waits.Wait, op string, step int, number uint64, peer int, what string) (done func()) {
	in := fmt.Sprintf("World.%s #%d, step %d of %d", op, number, step+1, stepsOf(w.cfg.Size))
	if outer := wait.Doing(); outer != "" {
		in = outer + ": " + in
	}
	return wait.Enter(in, waits.Lack{Rank: peer, What: what})
}

// receive takes the blobs that from sends in a step.
func (w *World) receive(run context.Context, wait *waits.Wait, op string, from, step int, number uint64) ([][]byte,
	error) {
	done := w.publish(wait, op, step, number, from, "to send blobs")
	select {
	case f := <-w.mesh.inbox[from]:
		done()
		if f.step == step && f.number == number {
			return f.blobs, nil
		}
		err := &Error{Self: w.cfg.Rank, Rank: from, Op: op,
			Err: fmt.Errorf("is at step %d of AllGather %d, this rank at step %d of %d", f.step, f.number, step, number)}
		w.mesh.spread(brokenNotice(from, number, err.Err))
		return nil, err
	case <-run.Done():
		return nil, whyEnded(run, wait, from)
	}
}
