package rank

import (
	"context"
	"log/slog"
	"time"

	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/rank/internal/environ"
)

// config is the complete input of a World, from all sources.
type config struct {
	*environ.Job
	hostID   string    // identifies this host; "": netconn.HostID
	profiler *profiler // nil: no profiles are wanted

	place *place // in a later epoch; nil: in the first one
	options
}

// countHosts derives the placement of the ranks from their host identities, where the launcher did not pass it.
func (cfg *config) countHosts(m *members) {
	if cfg.Hosts != nil {
		return
	}
	ids := make([]string, cfg.Size)
	for r := range ids {
		ids[r] = m.entry(r).Host
	}
	var before, all int
	cfg.Hosts, before, all = numberHosts(ids, cfg.Rank)
	if cfg.LocalSize == 0 {
		cfg.LocalSize = all
	}
	if cfg.LocalRank < 0 || cfg.LocalRank >= cfg.LocalSize {
		cfg.LocalRank = before
	}
}

// numberHosts numbers the hosts of all ranks in order of appearance, and counts
// the ranks on the host of self: those before it, and all.
func numberHosts(ids []string, self int) (hosts []int, before, all int) {
	number := map[string]int{}
	hosts = make([]int, len(ids))
	for r, id := range ids {
		if _, known := number[id]; !known {
			number[id] = len(number)
		}
		hosts[r] = number[id]
	}
	before, all = neighbors(hosts, self)
	return hosts, before, all
}

// neighbors counts the ranks on the host of self, given the hosts by rank: those before it, and all.
func neighbors(hosts []int, self int) (before, all int) {
	return numbers.GroupSizes(hosts[:self+1])[self] - 1, numbers.GroupSizes(hosts)[self]
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
	within       context.Context   // of Worlds: those of its Worlds end with it; nil: of Init
	renews       bool              // this process takes part in later epochs
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

// WithEpochs makes the process take part in the epochs of a job that continues after the loss of a rank: when one is
// over, it calls World.Renew. Worlds includes it.
func WithEpochs() Option { return func(o *options) { o.renews = true } }

// WithLogger sets where the package reports events that are not errors of a call, such as an unauthenticated
// connection. The default is slog.Default(), and for reports of long waits, also of communicators, treerun's own lines.
// At level Debug the messages of memberlist are reported, too.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) { o.log, o.logWait = l, func(text string) { l.Warn(text) } }
}
