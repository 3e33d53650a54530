//go:build linux

package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// heartbeats is the number of parts into which the peer timeout is divided: one heartbeat in
// each, of which maxMissed may be missing. So the launcher knows that a host is gone
// before the ranks of other hosts give up waiting for its ranks.
const (
	heartbeats = 8
	maxMissed  = 5
)

// agentConn is the connection to one agent and to those below it.
type agentConn struct {
	tree  *Tree
	name  string             // of the host
	hosts []wire.Below       // the agent's own first
	raw   io.ReadWriteCloser // to an agent that runs; nil: it is started, or Config.Open has it

	pid        int           // of the process that we have started for it
	stderr     output.Tail   // the last lines of its stderr
	stderrDone chan struct{} // closed at the end of its stderr
	status     unix.WaitStatus
	exited     chan struct{} // closed when the process has ended: status is set
	hello      chan struct{} // closed when the hello of the agent has arrived: conn has begun
	ended      chan struct{} // closed when the connection has ended
	conn       wire.Conn

	ctx    context.Context         // done when the connection should end, by errAbandoned, or as we are done with it
	cancel context.CancelCauseFunc // ends the connection: the agent ends its processes, and itself
}

// errAbandoned is the reason for which we end a connection: the agent is silent, or is of another build.
type errAbandoned struct{ error }

func newAgentConn(t *Tree, hosts []wire.Below) *agentConn {
	c := &agentConn{
		tree: t, name: hosts[0].Name, hosts: hosts, exited: make(chan struct{}), hello: make(chan struct{}),
		ended: make(chan struct{}), stderrDone: make(chan struct{}),
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	return c
}

// run is the life of the connection.
func (c *agentConn) run() {
	defer close(c.ended)
	raw, err := c.start()
	if err != nil {
		close(c.exited)
		c.reportLost(fmt.Sprintf("start treerun on host %s: %v%s", c.name, err, host.LimitHint(err)))
		return
	}
	context.AfterFunc(c.ctx, func() { _ = raw.Close() })
	err = c.read(raw)
	lost := context.Cause(c.ctx) != context.Canceled
	c.cancel(nil)
	if lost {
		c.reportLost(c.endText(err))
	}
}

// start starts the process.
func (c *agentConn) start() (io.ReadWriteCloser, error) {
	raw := c.raw
	if open := c.tree.cfg.Open; open != nil && raw == nil {
		raw = open(c.hosts[0].Index)
	}
	if raw != nil {
		close(c.exited) // there is no process
		close(c.stderrDone)
		return raw, nil
	}
	args, err := c.tree.command(c.hosts[0].Target)
	if err != nil {
		return nil, err
	}
	// A session of its own: it gets no signals of our terminal. The Reaper waits for it.
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
	if filepath.Base(args[0]) == "srun" {
		cmd.Env = withoutSrunOptions(os.Environ())
	}
	out, outErr := cmd.StdinPipe()
	in, inErr := cmd.StdoutPipe()
	stderr, err := cmd.StderrPipe()
	if err = errors.Join(outErr, inErr, err); err == nil {
		c.tree.cfg.Reaper.Call(func() { err = c.fork(cmd) })
	}
	if err != nil {
		return nil, err
	}
	go func() {
		_, _ = io.Copy(&c.stderr, stderr)
		_ = stderr.Close()
		close(c.stderrDone)
	}()
	return &wire.Pipes{ReadCloser: in, Out: out}, nil
}

// fork runs in the Reaper's goroutine.
func (c *agentConn) fork(cmd *exec.Cmd) error {
	if cmd.Err != nil { // the program does not exist
		return fmt.Errorf("%w (hint: --launch-agent names another program than ssh)", cmd.Err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run %s: %w", cmd.Path, cmdline.Cause(err))
	}
	c.pid = cmd.Process.Pid
	c.tree.cfg.Reaper.OnExit(c.pid, func(status unix.WaitStatus) {
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

// handshake exchanges hellos with the agent. Nothing but treerun itself and its version is sent before
// the agent's hello.
func (c *agentConn) handshake(raw io.ReadWriteCloser) error {
	join := c.tree.cfg.Join
	timeout := join.Start.Timeout
	late := time.AfterFunc(timeout, func() {
		c.cancel(errAbandoned{fmt.Errorf("it has not answered within %v", timeout)})
	})
	// A failure to write is ignored: the reader returns a better error.
	if !join.Start.Push {
		_, _ = raw.Write(wire.Hello(wire.LauncherWord))
	} else if err := sendSelf(raw); err != nil {
		return err
	}
	r := bufio.NewReaderSize(raw, 64<<10)
	version, noise, err := wire.ReadHello(r, wire.AgentWord)
	if !late.Stop() && err == nil {
		err = io.EOF
	}
	if err != nil {
		_, _ = c.stderr.Write(noise)
		return err
	}
	if me := wire.Version(); version != me {
		return errAbandoned{fmt.Errorf("treerun there is %v, and here %v: they are different builds (hint: install the "+
			"same version on all hosts, or let --push send this one)", version, me)}
	}
	join.Index, join.Name, join.Below = c.hosts[0].Index, c.name, c.hosts[1:]
	if join.Start.Push {
		_, err = raw.Write(wire.Hello(wire.LauncherWord))
	}
	if err == nil {
		from := io.Reader(r)
		if join.Start.Lines {
			from = wire.NewLineReader(r)
		}
		err = c.conn.Begin(from, raw, &wire.Frame{Host: join.Index, Body: &join})
	}
	if err == nil {
		close(c.hello)
	}
	return err
}

// read reads the frames of the agent until the connection ends.
func (c *agentConn) read(raw io.ReadWriteCloser) error {
	if err := c.handshake(raw); err != nil {
		return err
	}
	go c.conn.Serve(c.onStream)
	go c.watch()
	for {
		f, err := c.conn.Read()
		if err == nil && !c.routes(f.Host) {
			err = fmt.Errorf("%w: it sent a frame of host %d, which it does not have", wire.ErrProtocol, f.Host)
		}
		if err != nil {
			return err
		}
		c.tree.cfg.Emit(f, nil)
	}
}

// onStream passes on a stream that comes up.
func (c *agentConn) onStream(f *wire.Frame, s net.Conn) {
	if c.routes(f.Host) {
		c.tree.cfg.Emit(f, s)
		return
	}
	_ = s.Close()
}

// routes reports whether a host is behind this connection.
func (c *agentConn) routes(host int) bool { return c.tree.routeOf(host) == c }

// watch gives up the agent when it is silent.
func (c *agentConn) watch() {
	timeout := c.tree.cfg.Join.PeerTimeout
	if c.conn.Watch(timeout/heartbeats, maxMissed, func() {}) {
		silent := timeout * (maxMissed + 1) / heartbeats
		c.cancel(errAbandoned{fmt.Errorf("it has sent nothing for %v (--peer-timeout %v)", silent, timeout)})
	}
}

// reportLost reports that the hosts are lost. The launcher knows which of them are over, or
// were lost before.
func (c *agentConn) reportLost(why string) {
	l := &wire.Lost{Text: why}
	for _, h := range c.hosts {
		l.Hosts = append(l.Hosts, h.Index)
	}
	c.tree.cfg.Emit(&wire.Frame{Host: c.hosts[0].Index, Body: l}, nil)
}
