package rank

import (
	"bytes"
	"context"
	"fmt"
	"sync"
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
// error, a *Error, the call fails on all ranks, and so does every later one.
// One that ends with ctx is such an error. Calls of one World run one after the
// other.
func (w *World) AllGather(ctx context.Context, blob []byte) ([][]byte, error) {
	if len(blob) > MaxBlob {
		return nil, &Error{Self: w.cfg.rank, Rank: w.cfg.rank, Op: "AllGather",
			Err: fmt.Errorf("gave a blob of %d bytes, at most %d are possible", len(blob), MaxBlob)}
	}
	return w.gather(ctx, "AllGather", blob)
}

// gather is AllGather, for the operation op.
func (w *World) gather(ctx context.Context, op string, blob []byte) ([][]byte, error) {
	w.gatherMu.Lock()
	defer w.gatherMu.Unlock()
	number := w.gathered.Load()

	run, cancel := context.WithCancelCause(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { w.watchFate(run, cancel, op, number) })
	result, err := w.bruck(run, op, number, blob)
	if err == nil {
		w.gathered.Add(1)
	}
	cancel(nil)
	watcher.Wait()
	if err == nil {
		return result, nil
	}
	if ctx.Err() != nil && w.fate.first() == nil { // a failure is the better reason, and often why ctx ended
		late := context.Cause(ctx)
		if p := w.waiting.Load(); p > 0 {
			late = fmt.Errorf("still waiting for rank %d: %w", p-1, late)
		}
		err = &Error{Self: w.cfg.rank, Rank: -1, Op: op, Err: late}
		if w.mesh != nil {
			w.mesh.breakOff(w.cfg.rank, number, fmt.Errorf("gave up %s: %w", op, context.Cause(ctx)))
		}
	}
	return nil, err
}

// watchFate cancels run when AllGather number cannot complete any more.
func (w *World) watchFate(run context.Context, cancel context.CancelCauseFunc, op string, number uint64) {
	for {
		changed, err := w.fate.news(op, number)
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
func (w *World) bruck(run context.Context, op string, number uint64, blob []byte) ([][]byte, error) {
	self, n := w.cfg.rank, w.cfg.size
	if _, err := w.fate.news(op, number); err != nil {
		return nil, err
	}
	have := make([][]byte, 1, n) // of ranks self, self+1, ...
	have[0] = blob
	for step := range stepsOf(n) {
		count := blobsIn(step, n)
		f := &frame{kind: blobsFrame, step: step, rank: self, number: number, blobs: have[:count]}
		to := w.mesh.outlet(-1 << step)
		if err := to.send(run, f); err != nil {
			return nil, w.sendFailed(run, op, to.peer, err)
		}
		got, err := w.receive(run, op, w.mesh.peer(1<<step), step, number)
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
func (w *World) sendFailed(run context.Context, op string, to int, err error) error {
	if run.Err() == nil {
		w.mesh.lost(to, err)
	}
	if cause := context.Cause(run); cause != nil {
		return cause
	}
	_, news := w.fate.news(op, w.gathered.Load())
	if news != nil {
		return news
	}
	return &Error{Self: w.cfg.rank, Rank: to, Op: op, Err: fmt.Errorf("took no data: %w", err)}
}

// receive takes the blobs that from sends in a step.
func (w *World) receive(run context.Context, op string, from, step int, number uint64) ([][]byte, error) {
	w.waiting.Store(int64(from) + 1)
	select {
	case f := <-w.mesh.inbox[from]:
		w.waiting.Store(0)
		if f.step == step && f.number == number {
			return f.blobs, nil
		}
		err := &Error{Self: w.cfg.rank, Rank: from, Op: op,
			Err: fmt.Errorf("is at step %d of AllGather %d, this rank at step %d of %d", f.step, f.number, step, number)}
		w.mesh.breakOff(from, number, err.Err)
		return nil, err
	case <-run.Done():
		return nil, context.Cause(run)
	}
}
