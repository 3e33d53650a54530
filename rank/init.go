package rank

import (
	"context"
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

// initialized is set by the first Init of this process.
var initialized atomic.Bool

// Init makes this process a rank of the job that it was started in, and returns when all ranks have joined and can
// reach each other. Without a launcher, it returns a world of one. The package comment lists its sources.
//
// It can be called once in a process. When it fails, or ctx ends, or the start timeout passes, Init releases all
// resources and returns an error, a *Error, that names the ranks that are missing or the rank that failed.
func Init(ctx context.Context, opts ...Option) (*World, error) {
	if !initialized.CompareAndSwap(false, true) {
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
		Rank: cfg.Rank, Size: cfg.Size, Grace: grace, Launched: cfg.Control != nil, On: w.members.onHost,
	})
	err := cfg.Parse(&cfg.parsed)
	w.queries = newQueries(w)
	view := w.queries.job
	w.wait = view.NewWait("", nil)
	view.Failed = w.reportFailure
	if cfg.Control != nil {
		w.launcher = newLauncher(w, cfg.Control)
		view.Report, view.PeerLost = w.launcher.report, w.launcher.peerLost
	}
	if err == nil {
		err = w.assemble(ctx)
	}
	if err != nil {
		w.mesh.MarkClosing()
		w.release()
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
		w.meeting = &rendezvous{
			cfg: w.cfg, members: w.members, mesh: w.mesh, launcher: w.launcher, wait: w.wait, stop: w.stop,
			port: &port{auth: w.auth, members: w.members, mesh: w.mesh, queries: w.queries},
		}
		w.meeting.wg.Go(func() { w.mesh.Watch(ctx, giveUp, 0) })
		w.members.giveUp = func(err error) { giveUp(&exchange.Fault{Rank: -1, Err: err}) }
		if err := w.meeting.connect(ctx); err != nil {
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
