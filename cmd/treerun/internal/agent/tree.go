//go:build linux

package agent

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// Config holds the settings with which hosts are reached.
type Config struct {
	Reaper *host.Reaper
	Join   wire.Join // Index, Name and Below are those of this process; Start and the rest hold for all
	// Emit is called concurrently with the frames that come up, those of one host in order,
	// without a stream; and with the streams, which it owns, and the frames with which they
	// begin. While it holds a frame, nothing more is read from that connection; with a stream, it
	// may take as long as the stream does.
	Emit  func(*wire.Frame, net.Conn)
	Trace func(format string, args ...any)
	// Open, unless it is nil, returns the connection to an agent that already runs.
	// Nothing is started then.
	Open func(index int) io.ReadWriteCloser
}

// Tree holds the connections to the agents directly below this process. Its
// methods may be called concurrently.
type Tree struct {
	cfg   Config
	mu    sync.Mutex
	conns []*agentConn       // replaced, never changed
	route map[int]*agentConn // by index of the host
}

// New starts agents on the hosts of cfg.Join.Below. It returns before they have
// started: every host reports wire.Ready or, for itself and all below it,
// wire.Lost.
func New(cfg Config) *Tree {
	t := &Tree{cfg: cfg, route: make(map[int]*agentConn)}
	for _, hosts := range split(cfg.Join.Below, cfg.Join.Start.FanOut) {
		c := newAgentConn(t, hosts)
		t.conns = append(t.conns, c)
		for _, h := range hosts {
			t.route[h.Index] = c
		}
	}
	for _, c := range t.conns {
		go c.run()
	}
	return t
}

// Add starts an agent on one more host; or on one that Add was called for, and that is lost. raw, unless it is nil, is
// the connection to an agent that runs there.
func (t *Tree) Add(h wire.Below, raw io.ReadWriteCloser) {
	c := newAgentConn(t, []wire.Below{h})
	c.raw = raw
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.route[h.Index]
	t.conns = append(slices.DeleteFunc(slices.Clone(t.conns), func(c *agentConn) bool { return c == before }), c)
	t.route[h.Index] = c
	go func() {
		if before != nil {
			before.cancel(nil)
			before.kill()
		}
		c.run()
	}()
}

func (t *Tree) all() []*agentConn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.conns
}

func (t *Tree) routeOf(host int) *agentConn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.route[host]
}

// split divides hosts among at most fan agents, neighbors together; the agent of the
// first host of each part is started from here.
func split(hosts []wire.Below, fan int) [][]wire.Below {
	var parts [][]wire.Below
	n := min(len(hosts), fan)
	for i := range n {
		parts = append(parts, hosts[i*len(hosts)/n:(i+1)*len(hosts)/n])
	}
	return parts
}

// Send sends a frame to its host, or to all. It does not wait.
func (t *Tree) Send(f *wire.Frame) {
	for _, c := range t.all() {
		if f.Host == wire.All || c.routes(f.Host) {
			c.conn.Send(f)
		}
	}
}

// Stream opens a stream to the host of f, once the hello of its agent has arrived.
func (t *Tree) Stream(f *wire.Frame) (net.Conn, error) {
	c := t.routeOf(f.Host)
	if c == nil {
		return nil, fmt.Errorf("no agent for host %d", f.Host)
	}
	return c.open(f)
}

func (c *agentConn) open(f *wire.Frame) (net.Conn, error) {
	select {
	case <-c.hello:
		return c.conn.Stream(f)
	case <-c.ended:
		return nil, net.ErrClosed
	}
}

// Push sends a file to the host of f, or to all, as a stream. It does not wait; an agent that does not
// get all of it reports an error.
func (t *Tree) Push(f *wire.Frame, path string) {
	for _, c := range t.all() {
		if f.Host != wire.All && !c.routes(f.Host) {
			continue
		}
		go func() {
			s, err := c.open(f)
			if err != nil {
				return // the reader reports that the connection has ended
			}
			file, err := os.Open(path)
			if err != nil {
				t.cfg.Trace("send the program: %v", err)
				_ = s.Close()
				return
			}
			defer file.Close()
			wire.Relay(s, file)
		}()
	}
}

// Close ends the connections: agents that still run end their ranks and themselves.
// Agents that were not started from here have the time of grace to close the connection
// first. It returns when the processes that were started here have ended; those that take
// longer than grace are killed.
func (t *Tree) Close(grace time.Duration) {
	late, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	for _, c := range t.all() {
		if t.cfg.Open != nil {
			select {
			case <-c.ended:
			case <-late.Done():
			}
		}
		c.cancel(nil)
	}
	for _, c := range t.all() {
		select {
		case <-c.exited:
			continue
		case <-late.Done():
		}
		c.kill()
		select {
		case <-c.exited:
		case <-time.After(time.Second):
			t.cfg.Trace("the launch agent of host %s does not end: it hangs in the kernel", c.name)
		}
	}
}
