package rank

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treerun/treerun/rank/job"
	"github.com/treerun/treerun/topo"
)

// meet returns when this rank knows where all others listen.
//
// Everybody exchanges lists with rank 0, once, as soon as it is there. Whoever
// finds his list complete hands it down a binary tree of the ranks, rank 0
// first, so that nobody has to ask again and again. Asking again, every 50 ms
// in the end, is there for the case that something got lost.
func (w *World) meet(ctx context.Context) error {
	if err := w.listen(ctx); err != nil {
		return err
	}
	if w.cfg.rank == 0 && w.launcher != nil {
		if err := w.launcher.send(job.Seed, w.members.address(0)); err != nil {
			return err
		}
	}
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	if w.cfg.rank != 0 {
		w.wg.Go(func() { w.ask(asking) })
	}
	if err := w.allJoined(ctx); err != nil {
		return err
	}
	w.wg.Go(w.handDown)
	return nil
}

// allJoined waits until all ranks have joined, and says now and then which have
// not: without a launcher of ours nobody else would.
func (w *World) allJoined(ctx context.Context) error {
	begin := time.Now()
	report := time.NewTicker(w.cfg.waitReport)
	defer report.Stop()
	for {
		select {
		case <-w.members.complete:
			return nil
		case <-w.members.hopeless:
			return w.whyNot(nil)
		case <-w.fate.failed:
			return w.whyNot(nil)
		case <-ctx.Done():
			return w.incomplete(context.Cause(ctx))
		case <-report.C:
			w.reportAbsent(time.Since(begin))
		}
	}
}

// reportAbsent logs in one line which ranks have not joined after so long. A
// rank that has reached rank 0 leaves it to that one.
func (w *World) reportAbsent(waited time.Duration) {
	absent := w.members.absent()
	if len(absent) == 0 || w.cfg.rank != 0 && absent[0] != 0 {
		return
	}
	attrs := []any{"rank", w.cfg.rank, "size", w.cfg.size, "missing", topo.RankList(absent), "waited", waited.Round(10 * time.Millisecond)}
	if w.cfg.seed != "" {
		attrs = append(attrs, "seed", w.cfg.seed)
	}
	w.cfg.log.Warn("treerun: waiting for ranks that have not joined", attrs...)
}

// listen opens this rank's port and starts memberlist on it.
func (w *World) listen(ctx context.Context) error {
	cfg := w.cfg
	at, err := findPlace(ctx, cfg)
	if err != nil {
		return err
	}
	ln, udp, err := listen(at.listen)
	if err != nil {
		e := &Error{Self: cfg.rank, Rank: -1, Op: "Init", Err: err}
		if at.listen.Port != 0 {
			e.Hint = "rank 0 listens at the seed address; choose a free port with TREERUN_SEED"
		}
		return e
	}
	w.door = openDoor(w.stop, ln, w.mesh.gate, cfg.log, w.mesh.attach)
	label := labelOf(deriveKey(cfg.secret, cfg.jobID, "memberlist label"))
	g := newGossip(w.door, udp, at.tell, label, w.members.refused)
	return w.members.open(g, deriveKey(cfg.secret, cfg.jobID, "memberlist key"), label, cfg.oneHost())
}

// ask exchanges lists with rank 0 until the list is complete.
func (w *World) ask(ctx context.Context) {
	seed, ok := w.seedAddress(ctx)
	if !ok {
		return
	}
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		if w.members.join(0, seed) {
			wait = max(wait, 16*time.Millisecond) // the list will be handed down
		}
		select {
		case <-w.members.complete:
			return
		case <-ctx.Done():
			return
		case <-w.stop.Done():
			return
		case <-time.After(wait):
		}
	}
}

// seedAddress returns where rank 0 listens, from the launcher if need be.
func (w *World) seedAddress(ctx context.Context) (string, bool) {
	if w.cfg.seed != "" {
		return w.cfg.seed, true
	}
	select {
	case seed := <-w.launcher.seed:
		return seed, true
	case <-ctx.Done():
	case <-w.stop.Done():
	}
	return "", false
}

// handDown exchanges lists with the ranks below this one in the tree.
func (w *World) handDown() {
	for child := 2*w.cfg.rank + 1; child <= 2*w.cfg.rank+2 && child < w.cfg.size; child++ {
		if w.stop.Err() == nil {
			w.members.join(child, w.members.address(child))
		}
	}
}

// whyNot returns the reason for err: that this rank cannot be one of the job,
// else that a rank has failed, else err.
func (w *World) whyNot(err error) error {
	if no := w.members.whyHopeless(); no != nil {
		return no
	}
	if f := w.fate.first(); f != nil {
		return &Error{Self: w.cfg.rank, Rank: f.Rank, Op: "Init", Err: f.Err}
	}
	return err
}

// incomplete says who is missing.
func (w *World) incomplete(cause error) error {
	absent := w.members.absent()
	e := &Error{Self: w.cfg.rank, Rank: -1, Op: "Init"}
	if len(absent) == 1 {
		e.Rank = absent[0]
		e.Err = fmt.Errorf("has not joined: %w", cause)
	} else {
		e.Err = fmt.Errorf("ranks %s of %d have not joined: %w", topo.RankList(absent), w.cfg.size, cause)
	}
	w.members.mu.Lock()
	defer w.members.mu.Unlock()
	if w.members.lastErr != nil {
		e.Err = fmt.Errorf("%w; the latest attempt: %w", e.Err, w.members.lastErr)
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		e.Hint = "do they run, with the same seed address, job id and key?"
	}
	return e
}

// memberLost is memberlist's opinion that a rank is dead. It counts where
// nobody can know better: for a rank on another host, and while the ranks still
// gather. A rank on this host that is stopped or starved is not dead.
func (w *World) memberLost(rank int) {
	if w.fate.hasLeft(rank) {
		return
	}
	elsewhere := w.members.host(rank) != w.members.self.Host
	if elsewhere || w.launcher == nil && len(w.members.absent()) > 0 {
		w.mesh.fail(rank, "does not answer any more: it, its host, or the network between is down")
	}
}
