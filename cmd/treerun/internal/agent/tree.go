package agent

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// Config says how to reach hosts.
type Config struct {
	Reaper *host.Reaper
	Join   wire.Join // Index, Name and Below are those of this process; Start and the rest hold for all
	// Emit gets the frames that come up, those of one host in order. Several
	// goroutines call it; while it waits, nothing more comes from that side.
	Emit  func(*wire.Frame)
	Trace func(format string, args ...any)
	// Stream gets the streams that come up, and owns them. It is called concurrently, and
	// may take as long as the stream.
	Stream func(*wire.Frame, net.Conn)
	// Open, unless it is nil, returns the connection to an agent that is there already.
	// Nothing is started then.
	Open func(index int) io.ReadWriteCloser
}

// Tree holds the connections to the agents right below this process. Its
// methods may be called concurrently.
type Tree struct {
	cfg   Config
	conns []*agentConn
	route map[int]*agentConn // by index of the host
	sum   string             // of this executable, where it is pushed
	gone  sync.WaitGroup     // connections, and those who serve their streams
}

// New starts agents on the hosts of cfg.Join.Below. That goes on when it has
// returned: every host reports wire.Ready or, for itself and all below it,
// wire.Lost.
func New(cfg Config) (*Tree, error) {
	f := &Tree{cfg: cfg, route: make(map[int]*agentConn)}
	if cfg.Join.Start.Push && len(cfg.Join.Below) > 0 {
		var err error
		if f.sum, err = wire.Sum(); err != nil {
			return nil, err
		}
	}
	for _, hosts := range split(cfg.Join.Below, cfg.Join.Start.FanOut) {
		b := newAgentConn(f, hosts)
		f.conns = append(f.conns, b)
		for _, h := range hosts {
			f.route[h.Index] = b
		}
	}
	for _, b := range f.conns {
		f.gone.Go(b.run)
	}
	return f, nil
}

// split shares hosts out to at most fan agents, neighbours together; the first of
// each part is the one that is started from here.
func split(hosts []wire.Below, fan int) [][]wire.Below {
	var parts [][]wire.Below
	n := min(len(hosts), fan)
	for i := range n {
		parts = append(parts, hosts[i*len(hosts)/n:(i+1)*len(hosts)/n])
	}
	return parts
}

// Send sends a frame to the host that it is for, or to all. It does not wait.
func (f *Tree) Send(fr *wire.Frame) {
	if fr.Host != wire.All {
		if b := f.route[fr.Host]; b != nil {
			b.conn.Send(fr)
		}
		return
	}
	for _, b := range f.conns {
		b.conn.Send(fr)
	}
}

// Flush waits until what has been sent is on its way; not for long.
func (f *Tree) Flush(limit time.Duration) {
	end := time.Now().Add(limit)
	for _, b := range f.conns {
		b.conn.Flush(time.Until(end))
	}
}

// Stream opens a stream to the host that fr is for, once its agent has said who it is.
func (f *Tree) Stream(fr *wire.Frame) (net.Conn, error) {
	b := f.route[fr.Host]
	if b == nil {
		return nil, fmt.Errorf("no agent for host %d", fr.Host)
	}
	return b.open(fr)
}

func (b *agentConn) open(fr *wire.Frame) (net.Conn, error) {
	select {
	case <-b.hello:
		return b.conn.Stream(fr)
	case <-b.gone:
		return nil, net.ErrClosed
	}
}

// Push sends a file to all agents, as a stream. It does not wait; an agent that does not
// get all of it tells so.
func (f *Tree) Push(fr *wire.Frame, path string) {
	for _, b := range f.conns {
		go func() {
			s, err := b.open(fr)
			if err != nil {
				return // the reader tells that it has ended
			}
			file, err := os.Open(path)
			if err != nil {
				f.cfg.Trace("send the program: %v", err)
				_ = s.Close()
				return
			}
			defer file.Close()
			wire.Relay(s, file)
		}()
	}
}

// Gone returns a channel that is closed when no connection is left.
func (f *Tree) Gone() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		f.gone.Wait()
		close(done)
	}()
	return done
}

// Close ends the connections: agents that are still there end their ranks and
// themselves. It returns when the processes that were started here have ended;
// those that take longer than grace are killed.
func (f *Tree) Close(grace time.Duration) {
	for _, b := range f.conns {
		b.hangUp()
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	for _, b := range f.conns {
		select {
		case <-b.exited:
		case <-late.C:
			late.Reset(0)
			b.kill()
			select {
			case <-b.exited:
			case <-time.After(time.Second):
				f.cfg.Trace("%s does not end: it hangs in the kernel", b)
			}
		}
	}
}

// String names the connection for errors.
func (b *agentConn) String() string {
	if len(b.hosts) > 1 {
		return fmt.Sprintf("the connection to host %s and %d hosts behind it", b.name, len(b.hosts)-1)
	}
	return "the connection to host " + b.name
}
