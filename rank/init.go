package rank

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/rank/internal/environ"
)

// initialised is set by the first Init of this process.
var initialised atomic.Bool

// Init makes this process a rank of the job that it was started in, and returns
// when all ranks have joined and can reach each other. Without a launcher, it
// returns a world of one. The package comment says what it reads.
//
// It can be called once in a process. When it fails, or ctx ends, or the start
// timeout passes, everything is given back and the error, a *Error, names the
// ranks that are missing or the rank that failed.
func Init(ctx context.Context, opts ...Option) (*World, error) {
	if !initialised.CompareAndSwap(false, true) {
		return nil, &Error{Self: -1, Rank: -1, Op: "Init", Err: ErrInit}
	}
	o := defaultOptions()
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	j, err := environ.Find(os.Getenv)
	if err != nil {
		return nil, &Error{Self: -1, Rank: -1, Op: "Init", Err: err}
	}
	return start(ctx, &config{Job: j, options: o})
}

// start makes the World that cfg describes. It takes over cfg.Control.
func start(ctx context.Context, cfg *config) (*World, error) {
	w := &World{cfg: cfg, jobState: newJobState(cfg.Rank)}
	w.stop, w.cancel = context.WithCancel(context.Background())
	err := cfg.Parse(&cfg.parsed)
	if cfg.Size > 1 {
		g := newAuthenticator(cfg.Key("connections"), cfg.Rank, cfg.Size)
		w.mesh = newMesh(w.stop, &w.wg, g, w.jobState, cfg.lossGrace(), w.on)
		w.members = newMembers(cfg, w.memberLost)
	}
	w.newWaits()
	if cfg.Control != nil {
		w.launcher = newLauncher(w, cfg.Control)
	}
	if err == nil {
		err = w.assemble(ctx)
	}
	if err != nil {
		if _, typed := err.(*Error); !typed {
			err = &Error{Self: cfg.Rank, Rank: -1, Op: "Init", Err: err}
		}
		w.jobState.close()
		w.shut(false)
		return nil, err
	}
	return w, nil
}

// assemble brings the ranks together.
func (w *World) assemble(ctx context.Context) error {
	if w.cfg.Size > 1 {
		begin := time.Now()
		joining, cancel := context.WithTimeoutCause(ctx, w.cfg.parsed.StartTimeout, timeUp(w.cfg.parsed.StartTimeout))
		defer cancel()
		if err := w.join(joining); err != nil {
			return err
		}
		w.countHosts()
		if w.members.severalHosts() {
			w.wg.Go(func() { w.mesh.heartbeat(w.cfg.parsed.PeerTimeout, w.members.elsewhere) })
		}
		err := w.connect(ctx)
		if err == nil {
			// When this is through, every rank has found all others.
			all := w.cfg.parsed.StartTimeout + reportWait
			ctx, cancel := context.WithTimeoutCause(ctx, all, timeUp(all))
			defer cancel()
			_, err = w.gather(ctx, "Init", nil)
		}
		if err != nil {
			err = w.whyNot(w.collect(err))
			w.awaitReport()
			return err
		}
		w.sayJoined(time.Since(begin))
	} else if w.cfg.Hosts == nil {
		w.cfg.Hosts, w.cfg.LocalRank, w.cfg.LocalSize = []int{0}, 0, 1
	}
	if w.launcher != nil {
		return w.launcher.send(job.Joined, "")
	}
	return nil
}

// untilFailure returns ctx, ended by the first failure, too, when a rank gives
// Init up, and when this rank learns that it cannot join.
func (w *World) untilFailure(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	w.wg.Go(func() { w.watchJobState(ctx, cancel, "Init", 0) })
	w.wg.Go(func() {
		select {
		case <-w.members.hopeless:
			cancel(w.members.whyHopeless())
		case <-w.stop.Done():
			cancel(ErrClosed)
		case <-ctx.Done():
			cancel(context.Cause(ctx))
		}
	})
	return ctx
}

// lossGrace is how long the end of a connection waits for its explanation: the
// launcher's word on how the process ended, or a notice on another connection.
func (c *config) lossGrace() time.Duration {
	if c.Control != nil {
		return 250 * time.Millisecond
	}
	return 20 * time.Millisecond
}
