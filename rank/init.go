package rank

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/rank/internal/environ"
	"github.com/treerun/treerun/rank/internal/exchange"
)

// The end of a connection waits for its explanation: from another rank, or from the launcher.
const (
	endGrace      = 20 * time.Millisecond
	launcherGrace = 250 * time.Millisecond
)

// initialised is set by the first Init of this process.
var initialised atomic.Bool

// Init makes this process a rank of the job that it was started in, and returns when all ranks have joined and can
// reach each other. Without a launcher, it returns a world of one. The package comment lists its sources.
//
// It can be called once in a process. When it fails, or ctx ends, or the start timeout passes, Init releases all
// resources and returns an error, a *Error, that names the ranks that are missing or the rank that failed.
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
	p, err := startProfiler(j.Settings[environ.SettingPprof], j.Rank)
	if err != nil {
		return nil, &Error{Self: j.Rank, Rank: -1, Op: "Init", Err: err}
	}
	return start(ctx, &config{Job: j, profiler: p, options: o})
}

// start makes the World that cfg describes. It takes over cfg.Control.
func start(ctx context.Context, cfg *config) (*World, error) {
	w := &World{cfg: cfg, auth: newAuthenticator(cfg.Key("connections"), cfg.Rank, cfg.Size)}
	w.stop, w.cancel = context.WithCancel(context.Background())
	w.members = newMembers(cfg, w.auth)
	grace := endGrace
	if cfg.Control != nil { // the launcher may take longer to report how a process ended
		grace = launcherGrace
	}
	w.mesh = exchange.New(exchange.Config{
		Rank: cfg.Rank, Size: cfg.Size, Grace: grace, Launched: cfg.Control != nil, On: w.on,
	})
	err := cfg.Parse(&cfg.parsed)
	w.newWaits()
	w.job.Failed = w.reportFailure
	if cfg.Control != nil {
		w.launcher = newLauncher(w, cfg.Control)
		w.job.Report, w.job.Harmed = w.launcher.report, w.launcher.harmed
	}
	if err == nil {
		err = w.assemble(ctx)
	}
	if err != nil {
		w.mesh.Closing()
		w.shut()
		return nil, w.fault("Init", err)
	}
	return w, nil
}

// assemble brings the ranks together.
func (w *World) assemble(ctx context.Context) error {
	switch {
	case w.cfg.Size > 1:
		ctx, giveUp := context.WithCancelCause(ctx)
		defer giveUp(nil)
		w.wg.Go(func() { w.mesh.Watch(ctx, giveUp, 0) })
		w.members.giveUp = func(err error) { giveUp(&exchange.Fault{Rank: -1, Err: err}) }
		if err := w.findEachOther(ctx); err != nil {
			return err
		}
	case w.cfg.Hosts == nil:
		w.cfg.Hosts, w.cfg.LocalRank, w.cfg.LocalSize = []int{0}, 0, 1
	}
	if w.launcher != nil {
		return w.launcher.send(job.Joined)
	}
	return nil
}

// findEachOther joins and connects the ranks. ctx ends when a rank has failed, and when this one cannot be a rank of
// the job: its cause is an *exchange.Fault then.
func (w *World) findEachOther(ctx context.Context) error {
	begin := time.Now()
	within := func(limit time.Duration, step func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: %v have passed", context.DeadlineExceeded, limit))
		defer cancel()
		return step(ctx)
	}
	limit := w.cfg.parsed.StartTimeout
	if err := within(limit, w.join); err != nil {
		return err
	}
	w.countHosts()
	if w.members.severalHosts() {
		w.mesh.Heartbeat(w.cfg.parsed.PeerTimeout, w.members.elsewhere)
	}
	// All ranks begin at almost the same time, when their lists are complete,
	// whenever they were started.
	err := within(limit, func(ctx context.Context) error { return w.mesh.Connect(ctx, min(limit/4, maxConnect), w.reach) })
	if err == nil {
		// When this is through, every rank has found all others.
		err = within(limit+reportWait, func(ctx context.Context) error {
			_, err := w.mesh.AllGather(ctx, w.wait, "Init", nil)
			return err
		})
	}
	if err != nil {
		return w.explain(context.Cause(ctx), err)
	}
	if w.cfg.parsed.Verbose && w.cfg.Rank == 0 {
		w.cfg.log.Info("treerun: all ranks have joined", "rank", 0, "took", time.Since(begin).Round(100*time.Microsecond),
			"dialed", w.members.dialed.Load(), "taken", w.taken.Load())
	}
	return nil
}
