package rank

import (
	"log/slog"
	"net"
	"time"
)

// config is everything that a World is started from, wherever it came from.
type config struct {
	jobID                string
	epoch                int
	secret               []byte
	rank, size           int
	localRank, localSize int // -1 and 0 when they follow from where the ranks run
	host                 string
	device               string   // UUID of this rank's GPU, "" for none
	hosts                []int    // host index of every rank; nil when it follows from where they run
	hostID               string   // tells this host from others; "": what hostID says
	seeds                []string // HOST:PORT at which rank 0 listens; none when the launcher passes rank 0's on
	control              net.Conn // to the launcher, nil when there is none
	settings             map[string]string
	variables            map[string]string // where settings came from the environment: by setting
	parsed               settings

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

// severalHosts says whether ranks are known to be on several hosts.
func (c *config) severalHosts() bool {
	return !c.oneHost() && (c.hosts != nil || c.localSize > 0)
}

// Option changes how Init works.
type Option func(*options)

type options struct {
	startTimeout time.Duration
	waitReport   time.Duration // how often Init says for whom it waits
	helloTimeout time.Duration // how long a connection may take to prove itself
	log          *slog.Logger
	launcherGone func(err error) // what to do when the launcher has gone
}

func defaultOptions() options {
	return options{startTimeout: 60 * time.Second, waitReport: 10 * time.Second, helloTimeout: time.Second,
		log: slog.Default()}
}

// WithStartTimeout sets how long Init waits for all ranks to join. The default
// is 60 s.
func WithStartTimeout(d time.Duration) Option {
	return func(o *options) { o.startTimeout = d }
}

// WithLogger sets where the package reports what is not an error of a call,
// such as an unauthenticated connection. The default is slog.Default(). At level
// Debug the words of memberlist are reported, too.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) { o.log = l }
}
