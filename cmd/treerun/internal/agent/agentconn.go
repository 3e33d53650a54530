package agent

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// heartbeats is into how many parts the peer timeout is divided: one sign of life in
// each, and maxMissed of them may be missing. So a host that is gone is known
// before the ranks of other hosts give up waiting for its ranks.
const (
	heartbeats = 8
	maxMissed  = 5
)

// agentConn is the connection to one agent and to those below it.
type agentConn struct {
	tree  *Tree
	name  string       // of the host
	hosts []wire.Below // the agent's own first

	pid    int        // of the process that we have started for it
	stderr stderrTail // what it writes to stderr
	status unix.WaitStatus
	exited chan struct{} // closed when the process has ended: status is set
	hello  chan struct{} // closed when the agent has said who it is: conn has begun
	gone   chan struct{} // closed when the connection has ended
	conn   wire.Conn
	left   map[int]bool // hosts that have not said goodbye

	mu      sync.Mutex
	raw     io.ReadWriteCloser // below conn; nil until there is one
	hungUp  bool
	silence string // why we have ended the connection ourselves; "": we have not
}

func newAgentConn(t *Tree, hosts []wire.Below) *agentConn {
	c := &agentConn{
		tree: t, name: hosts[0].Name, hosts: hosts, exited: make(chan struct{}), hello: make(chan struct{}),
		gone: make(chan struct{}), left: make(map[int]bool), stderr: stderrTail{done: make(chan struct{})},
	}
	for _, h := range hosts {
		c.left[h.Index] = true
	}
	return c
}

// run is the life of the connection.
func (c *agentConn) run() {
	if err := c.start(); err != nil {
		close(c.exited)
		c.lost(fmt.Sprintf("start treerun on host %s: %v%s", c.name, err, host.LimitHint(err)))
	} else {
		err := c.read()
		c.hangUp()
		if len(c.left) > 0 {
			c.lost(c.why(err))
		}
	}
	close(c.gone)
}

// start starts the process.
func (c *agentConn) start() error {
	if open := c.tree.cfg.Open; open != nil {
		close(c.exited) // there is no process
		close(c.stderr.done)
		c.connect(open(c.hosts[0].Index))
		return nil
	}
	args, err := c.tree.command(c.hosts[0].Target)
	if err != nil {
		return err
	}
	// A session of its own: signals of our terminal are not for it. The Reaper waits for it.
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
	out, outErr := cmd.StdinPipe()
	in, inErr := cmd.StdoutPipe()
	stderr, err := cmd.StderrPipe()
	if err = errors.Join(outErr, inErr, err); err == nil {
		c.tree.cfg.Reaper.Call(func() { err = c.fork(cmd) })
	}
	if err != nil {
		return err
	}
	c.connect(&wire.Pipes{ReadCloser: in, Out: out})
	go c.stderr.read(stderr)
	return nil
}

// connect notes the connection, which may not be wanted any more.
func (c *agentConn) connect(raw io.ReadWriteCloser) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.raw = raw; c.hungUp {
		_ = raw.Close()
	}
}

// fork runs in the Reaper's goroutine.
func (c *agentConn) fork(cmd *exec.Cmd) error {
	if cmd.Err != nil { // it is not there
		return fmt.Errorf("%w (hint: --launch-agent names another program than ssh)", cmd.Err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run %s: %w", cmd.Path, cmdline.Cause(err))
	}
	c.pid = cmd.Process.Pid
	c.tree.cfg.Reaper.Children(c.pid, func(status unix.WaitStatus) {
		c.status = status
		close(c.exited)
	})
	return nil
}

// kill ends the process, with those that it has started in its group.
func (c *agentConn) kill() {
	c.tree.cfg.Reaper.Call(func() {
		select {
		case <-c.exited:
		default:
			if c.pid > 0 {
				_ = unix.Kill(-c.pid, unix.SIGKILL)
			}
		}
	})
}

// hangUp ends the connection: the agent ends what it has started, and itself.
func (c *agentConn) hangUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hungUp = true; c.raw != nil {
		_ = c.raw.Close()
	}
}

// giveUp ends the connection because of what the agent does, or does not do.
func (c *agentConn) giveUp(why string) {
	c.mu.Lock()
	if c.silence == "" {
		c.silence = why
	}
	c.mu.Unlock()
	c.hangUp()
}

// begin greets the agent. Nothing but treerun itself and its version goes out before the
// agent's hello.
func (c *agentConn) begin() error {
	join := c.tree.cfg.Join
	timeout := join.Start.Timeout
	late := time.AfterFunc(timeout, func() {
		c.giveUp(fmt.Sprintf("it has not answered within %v", timeout))
	})
	// That it cannot be written, the reader tells better.
	if !join.Start.Push {
		_, _ = c.raw.Write(wire.Hello{Version: wire.Version()}.AsLauncher())
	} else if err := sendSelf(c.raw); err != nil {
		return err
	}
	r := bufio.NewReaderSize(c.raw, 64<<10)
	h, said, err := wire.ReadAgent(r)
	if !late.Stop() || err != nil {
		c.stderr.add(said)
		if err == nil {
			err = io.EOF
		}
		return err
	}
	if err := c.check(h); err != nil {
		return err
	}
	join.Index, join.Name, join.Below = c.hosts[0].Index, c.name, c.hosts[1:]
	first, err := wire.Encode(join.Index, &join)
	if err == nil && join.Start.Push {
		_, err = c.raw.Write(wire.Hello{Version: wire.Version()}.AsLauncher())
	}
	if err == nil {
		err = c.conn.Begin(r, c.raw, first)
	}
	if err == nil {
		close(c.hello)
	}
	return err
}

// read reads what the agent says, until its end.
func (c *agentConn) read() error {
	if err := c.begin(); err != nil {
		return err
	}
	c.tree.gone.Go(func() { c.conn.Serve(c.stream) })
	go c.heartbeat()
	for {
		f, err := c.conn.Read()
		if err == nil {
			err = c.note(f)
		}
		if errors.Is(err, wire.ErrProtocol) {
			return errStrange{err}
		}
		if err != nil {
			return err
		}
		c.tree.cfg.Emit(f)
	}
}

// stream passes on a stream that comes up.
func (c *agentConn) stream(f *wire.Frame, s net.Conn) {
	if c.has(f.Host) {
		c.tree.cfg.Stream(f, s)
		return
	}
	_ = s.Close()
}

// has tells whether a host is reached by this connection.
func (c *agentConn) has(host int) bool {
	return slices.ContainsFunc(c.hosts, func(h wire.Below) bool { return h.Index == host })
}

// errStrange is the error for what no agent of ours says.
type errStrange struct{ error }

// check looks whether the agent is of our version, and arrived whole.
func (c *agentConn) check(h wire.Hello) error {
	me := wire.Version()
	switch {
	case h.Version != me:
		return errStrange{fmt.Errorf("treerun there is %v, and here %v: they are different builds (hint: install the same "+
			"version on all hosts, or let --push send this one)", h.Version, me)}
	case c.tree.cfg.Join.Start.Push && h.Sum != c.tree.sum:
		return errStrange{fmt.Errorf("treerun did not arrive there as it was sent: its checksum is %.20q, want %.20q", h.Sum,
			c.tree.sum)}
	}
	return nil
}

// note keeps account of which hosts have said goodbye.
func (c *agentConn) note(f *wire.Frame) error {
	if !c.has(f.Host) {
		return errStrange{fmt.Errorf("it speaks for host %d, which is not there", f.Host)}
	}
	if f.Is(&wire.Goodbye{}) {
		delete(c.left, f.Host)
	}
	if f.Is(&wire.Lost{}) {
		l, err := f.Decode()
		if err != nil {
			return errStrange{err}
		}
		for _, h := range l.(*wire.Lost).Hosts {
			delete(c.left, h)
		}
	}
	return nil
}

// heartbeat gives the agent up when it is silent.
func (c *agentConn) heartbeat() {
	timeout := c.tree.cfg.Join.PeerTimeout
	tick := time.NewTicker(timeout / heartbeats)
	defer tick.Stop()
	for {
		select {
		case <-c.gone:
			return
		case <-tick.C:
		}
		if c.conn.Heartbeat() > maxMissed {
			silent := timeout * (maxMissed + 1) / heartbeats
			c.giveUp(fmt.Sprintf("nothing was heard of it for %v (--peer-timeout %v)", silent, timeout))
			return
		}
	}
}

// lost reports that the hosts that have not said goodbye are lost.
func (c *agentConn) lost(why string) {
	l := &wire.Lost{Code: cmdline.ExitInternal, Text: why}
	for _, h := range c.hosts {
		if c.left[h.Index] {
			l.Hosts = append(l.Hosts, h.Index)
		}
	}
	if f, err := wire.Encode(c.hosts[0].Index, l); err == nil {
		c.tree.cfg.Emit(f)
	}
}
