package rank

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/record"
	"github.com/treerun/treerun/internal/status"
)

// Worlds makes this process a rank of the job, as Init does, and yields its World in each epoch of the job. An epoch is
// over when a rank is lost, or when a rank leaves it to take in others (Changed). In the next one the lost rank has a
// new process, or the ranks that are left are numbered anew: see treerun's flag --on-failure.
//
//	for w, err := range rank.Worlds(ctx) {
//		if err != nil {
//			return err
//		}
//		err = train(w.Context(), w, state)
//		if err == nil {
//			return w.Close()
//		}
//		if !rank.Again(err) {
//			return err
//		}
//	}
//
// The body makes its communicators of w, and keeps what must outlive an epoch outside. When it ends without Close, the
// rank renews: it closes the communicators that are still open, and waits until all others have renewed. The last turn
// has an error: too few ranks are left, no restarts are left, or ctx has ended. A job that ends with its first failure,
// or restarts as a whole, has one turn.
//
// Worlds may be called once in a process, and not in addition to Init.
func Worlds(ctx context.Context, opts ...Option) iter.Seq2[*World, error] {
	return func(yield func(*World, error) bool) {
		within := func(o *options) { o.within = ctx }
		w, err := Init(ctx, append(slices.Clone(opts), WithEpochs(), within)...)
		for err == nil && yield(w, nil) && !w.closed.Load() {
			w, err = w.Renew(ctx)
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// Renew leaves the epoch of w, and returns the World of the next one when all ranks that live have done the same. It is
// the low form of Worlds. Communicators of w that are still open are closed, and calls of other ranks in this epoch end
// with an error for which Again is true. No call of this rank may be under way.
//
// After an error w is closed, and this rank is in no epoch any more. Where the job does not continue after the loss of
// a rank, or this process was started without WithEpochs and Worlds, the error is an ErrRenew, and w stays as it is.
func (w *World) Renew(ctx context.Context) (*World, error) {
	if !w.Renews() {
		why := fmt.Errorf("%w: the job was started without treerun --on-failure respawn or shrink", ErrRenew)
		if w.cfg.File.Renews {
			why = fmt.Errorf("%w: this rank was started without rank.Worlds and rank.WithEpochs", ErrRenew)
		}
		return nil, w.fault("Renew", why)
	}
	next, err := (*World)(nil), ErrClosed
	w.closeOnce.Do(func() { next, err = w.launcher.renew(ctx, w) })
	return next, w.fault("Renew", err)
}

// renew brings this process from w, or nil for one that joins a job that runs, to the next epoch that all its ranks
// reach. After an error it has closed the connection.
func (l *launcher) renew(ctx context.Context, w *World) (*World, error) {
	cfg, epoch := l.cfg, -1
	defer cfg.Record.Phase(record.Renew, "", "")()
	if w != nil {
		cfg, epoch = w.cfg, w.cfg.Epoch
	}
	for {
		next, roster, err := l.cross(ctx, cfg, w, epoch)
		w = nil
		if err == nil {
			if w, err = build(ctx, next, l); err == nil {
				return w, nil
			}
			if again(err) { // a rank of the new epoch was lost
				cfg, epoch = next, roster.Epoch
				continue
			}
		}
		l.close()
		if cfg.profiler != nil {
			cfg.profiler.rotate(true)
		}
		return nil, err
	}
}

// cross announces this rank, which then leaves w, and waits for the roster of an epoch after the given one. It returns
// the rank's configuration there.
func (l *launcher) cross(ctx context.Context, cfg *config, w *World, epoch int) (*config, *job.Roster, error) {
	cfg.Page.SetPhase(status.Renewing)
	d, err := openDoor(ctx, cfg)
	if err == nil {
		var blob []byte
		if blob, err = d.introduce(cfg); err == nil {
			err = l.write(&job.Message{Kind: job.Renew, Epoch: max(epoch, 0), Blob: blob})
		}
	}
	if w != nil {
		leave(w)
	}
	var next *config
	var roster *job.Roster
	if err == nil {
		next, roster, err = l.await(ctx, cfg, d, epoch)
	}
	if err != nil && d != nil {
		d.ln.Close()
	}
	return next, roster, err
}

// await waits for the roster of an epoch after the given one that has this rank: one may begin without a rank that
// joins the job.
func (l *launcher) await(ctx context.Context, cfg *config, d *door, epoch int) (*config, *job.Roster, error) {
	for {
		roster, err := l.news.after(ctx, epoch)
		if err != nil {
			return nil, nil, err
		}
		origin := func(m job.Member) bool { return m.Origin == cfg.origin() }
		if slices.ContainsFunc(roster.Members, origin) {
			next, err := cfg.in(roster, d)
			return next, roster, err
		}
		epoch = roster.Epoch
	}
}

// leave ends the part of w in its epoch: its communicators fail, also on the other ranks, and are closed.
func leave(w *World) {
	w.closed.Store(true)
	w.renewed.Store(true)
	w.mesh.MarkFailed(w.cfg.Rank, fmt.Sprintf("has left epoch %d", w.cfg.Epoch))
	_ = w.queries.job.CloseAll() // their failures belong to an epoch that is over
	w.mesh.MarkClosing()
	w.launcher.news.attach(nil)
	w.release()
}
