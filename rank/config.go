package rank

import (
	"log/slog"
	"time"

	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/rank/internal/environ"
)

// config is the complete input of a World, from all sources.
type config struct {
	*environ.Job
	hostID   string    // identifies this host; "": netconn.HostID
	profiler *profiler // nil: no profiles are wanted

	options
}

// Option changes how Init works.
type Option func(*options)

type options struct {
	parsed       environ.Settings // with their defaults; the launcher's settings override them
	waitReport   time.Duration    // the interval of Init's reports on missing ranks
	helloTimeout time.Duration    // how long a connection may take to prove itself
	log          *slog.Logger
	logWait      func(text string) // of WithLogger
	launcherGone func(err error)   // called when the launcher is gone
}

func defaultOptions() options {
	return options{
		parsed:     environ.Settings{StartTimeout: 60 * time.Second, PeerTimeout: netconn.DefaultPeerTimeout},
		waitReport: 10 * time.Second, helloTimeout: time.Second, log: slog.Default(),
	}
}

// WithStartTimeout sets how long Init waits for all ranks to join. The default
// is 60 s.
func WithStartTimeout(d time.Duration) Option {
	return func(o *options) { o.parsed.StartTimeout = d }
}

// WithLogger sets where the package reports events that are not errors of a call, such as an unauthenticated
// connection. The default is slog.Default(), and for reports of long waits, also of communicators, treerun's own lines.
// At level Debug the messages of memberlist are reported, too.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) { o.log, o.logWait = l, func(text string) { l.Warn(text) } }
}
