package rank

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/record"
	"github.com/treerun/treerun/internal/status"
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
func start(ctx context.Context, cfg *config) (w *World, err error) {
	if err := cfg.Parse(&cfg.parsed); err != nil {
		if cfg.Control != nil {
			cfg.Control.Close()
		}
		return nil, &Error{Self: cfg.Rank, Rank: -1, Op: "Init", Err: err}
	}
	if cfg.Control == nil {
		return build(ctx, cfg, nil)
	}
	l := newLauncher(cfg, cfg.Control)
	switch {
	case cfg.File.Renews && cfg.options.renews:
		renewing.Store(true)
		err = l.send(job.Renewable)
	case cfg.Joining:
		err = &Error{Self: cfg.Rank, Rank: -1, Op: "Init", Err: fmt.Errorf("%w for this process, which joins a job that "+
			"runs: it was started without rank.Worlds and rank.WithEpochs", ErrRenew)}
	}
	switch {
	case err != nil:
	case cfg.Joining:
		if w, err = l.renew(ctx, nil); err != nil && !errors.As(err, new(*Error)) {
			err = &Error{Self: cfg.Rank, Rank: -1, Op: "Init", Err: err}
		}
	default:
		w, err = build(ctx, cfg, l)
		if err != nil && again(err) { // a rank was lost before all had joined
			w, err = l.renew(ctx, nil)
		}
	}
	if err != nil {
		l.close()
	}
	return w, err
}

// build makes the World of one epoch. After an error it has released all resources but the connection to the launcher.
func build(ctx context.Context, cfg *config, l *launcher) (*World, error) {
	w := &World{
		cfg: cfg, launcher: l, auth: newAuthenticator(cfg.Key("connections"), cfg.Rank, cfg.Size),
		changed: make(chan struct{}),
	}
	if cfg.place != nil {
		w.auth.know(cfg.Key("attempt"))
	}
	w.stop, w.cancel = context.WithCancel(context.Background())
	w.members = newMembers(cfg, w.auth)
	grace := endGrace
	if l != nil { // the launcher may take longer to report how a process ended
		grace = launcherGrace
	}
	w.mesh = exchange.New(exchange.Config{
		Rank: cfg.Rank, Size: cfg.Size, Grace: grace, Launched: l != nil, On: w.members.onHost,
	})
	w.queries = newQueries(w)
	view := w.queries.job
	w.wait = view.NewWait("", nil)
	view.Failed = func(err error) {
		if !w.Renews() || !again(err) { // else the epoch is over, and the launcher knows why
			reportFailure(w, err)
		}
	}
	view.Page, view.Record = cfg.Page, cfg.Record
	if cfg.place == nil {
		defer cfg.Record.Phase(record.Join, "", "")()
	}
	cfg.Page.SetWorld(os.Getpid(), cfg.Epoch, cfg.Rank, cfg.Size)
	if l != nil {
		view.Report, view.PeerLost = l.report, l.peerLost
		view.Watched = cfg.Page != nil && !w.Renews() // else it limits the waits that ranks report
		if cfg.News != nil {
			view.News, view.HandleNews = cfg.News.Counter(), l.look
		}
		l.news.attach(w)
	}
	if err := w.assemble(ctx); err != nil {
		if l != nil {
			l.news.attach(nil)
		}
		w.mesh.MarkClosing()
		w.release()
		err = w.fault("Init", err)
		if m := w.meeting; m != nil && m.port.acceptor.Failed() != nil { // it closed connections of others
			err = fmt.Errorf("%w\n%w", err, m.port.acceptor.Failed())
		}
		return nil, err
	}
	cfg.Page.SetPhase(status.Running)
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
		w.members.giveUp = func(err error) {
			if w.cfg.place == nil { // else the port of a lost rank may have another listener now
				giveUp(&exchange.Fault{Rank: -1, Err: err})
			}
		}
		if err := w.meeting.connect(ctx); err != nil {
			return err
		}
	case w.cfg.place != nil:
		w.cfg.place.door.ln.Close()
	case w.cfg.Hosts == nil:
		w.cfg.Hosts, w.cfg.LocalRank, w.cfg.LocalSize = []int{0}, 0, 1
	}
	if w.launcher != nil {
		return w.launcher.write(&job.Message{Kind: job.Joined, Epoch: w.cfg.Epoch})
	}
	return nil
}
