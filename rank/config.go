package rank

import (
	"log/slog"
	"net"
	"time"
)

// config is everything that a World is started from, wherever it came from.
type config struct {
	jobID                string
	secret               []byte
	rank, size           int
	localRank, localSize int // -1 and 0 when they follow from where the ranks run
	host                 string
	hosts                []int    // host index of every rank; nil when it follows from where they run
	seed                 string   // HOST:PORT at which rank 0 listens; "" when the launcher passes rank 0's on
	control              net.Conn // to the launcher, nil when there is none
	settings             map[string]string

	options
}

// oneHost says whether all ranks are known to be on this host.
func (c *config) oneHost() bool {
	if c.hosts == nil {
		return c.localSize == c.size
	}
	for _, h := range c.hosts {
		if h != c.hosts[0] {
			return false
		}
	}
	return true
}

// Option changes how Init works.
type Option func(*options)

type options struct {
	startTimeout time.Duration
	waitReport   time.Duration // how often Init says for whom it waits
	log          *slog.Logger
	launcherGone func(err error) // what to do when the launcher has gone
}

func defaultOptions() options {
	return options{startTimeout: 60 * time.Second, waitReport: 10 * time.Second, log: slog.Default()}
}

// WithStartTimeout sets how long Init waits for all ranks to join. The default
// is 60 s.
func WithStartTimeout(d time.Duration) Option {
	return func(o *options) { o.startTimeout = d }
}

// WithLogger sets where the package reports what is not an error of a call,
// such as a connection from a stranger. The default is slog.Default(). At level
// Debug the words of memberlist are reported, too.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) { o.log = l }
}
