package agent

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// beats is into how many parts the peer timeout is divided: one sign of life in
// each, and maxMissed of them may be missing. So a host that is gone is known
// before the ranks of other hosts give up waiting for its ranks.
const (
	beats     = 8
	maxMissed = 5
)

// agentConn is the connection to one agent and to those below it.
type agentConn struct {
	f     *Tree
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

func newAgentConn(f *Tree, hosts []wire.Below) *agentConn {
	b := &agentConn{
		f: f, name: hosts[0].Name, hosts: hosts, exited: make(chan struct{}), hello: make(chan struct{}),
		gone: make(chan struct{}), left: make(map[int]bool), stderr: stderrTail{done: make(chan struct{})},
	}
	for _, h := range hosts {
		b.left[h.Index] = true
	}
	return b
}

// run is the life of the connection.
func (b *agentConn) run() {
	if err := b.start(); err != nil {
		close(b.exited)
		b.lost(fmt.Sprintf("start treerun on host %s: %v%s", b.name, err, host.LimitHint(err)))
	} else {
		err := b.read()
		b.hangUp()
		if len(b.left) > 0 {
			b.lost(b.why(err))
		}
	}
	close(b.gone)
}

// start starts the process.
func (b *agentConn) start() error {
	if open := b.f.cfg.Open; open != nil {
		close(b.exited) // there is no process
		close(b.stderr.done)
		b.connect(open(b.hosts[0].Index))
		return nil
	}
	args, err := b.f.command(b.hosts[0].Target)
	if err != nil {
		return err
	}
	var theirs [3]*os.File
	var ours [3]*os.File
	defer func() {
		for _, f := range theirs {
			if f != nil {
				_ = f.Close()
			}
		}
	}()
	for i := range theirs {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		if i == 0 {
			r, w = w, r
		}
		ours[i], theirs[i] = r, w
	}
	pipes := &wire.Pipes{In: ours[1], Out: ours[0]}
	b.f.cfg.Reaper.Call(func() { err = b.fork(args, theirs) })
	if err != nil {
		return errors.Join(err, pipes.Close(), ours[2].Close())
	}
	b.connect(pipes)
	go b.stderr.read(ours[2])
	return nil
}

// connect notes the connection, which may not be wanted any more.
func (b *agentConn) connect(raw io.ReadWriteCloser) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.raw = raw; b.hungUp {
		_ = raw.Close()
	}
}

// fork runs in the Reaper's goroutine. The process has a session of its own:
// signals of our terminal are not for it.
func (b *agentConn) fork(args []string, stdio [3]*os.File) error {
	path, err := lookPath(args[0])
	if err != nil {
		return err
	}
	var fds []uintptr
	for _, f := range stdio {
		fds = append(fds, f.Fd())
	}
	b.pid, err = syscall.ForkExec(path, args, &syscall.ProcAttr{
		Env: os.Environ(), Files: fds,
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM},
	})
	if err != nil {
		return fmt.Errorf("run %s: %w", path, err)
	}
	b.f.cfg.Reaper.Children(b.pid, func(status unix.WaitStatus) {
		b.status = status
		close(b.exited)
	})
	return nil
}

// kill ends the process, with those that it has started in its group.
func (b *agentConn) kill() {
	b.f.cfg.Reaper.Call(func() {
		select {
		case <-b.exited:
		default:
			if b.pid > 0 {
				_ = unix.Kill(-b.pid, unix.SIGKILL)
			}
		}
	})
}

// hangUp ends the connection: the agent ends what it has started, and itself.
func (b *agentConn) hangUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hungUp = true; b.raw != nil {
		_ = b.raw.Close()
	}
}

// giveUp ends the connection because of what the agent does, or does not do.
func (b *agentConn) giveUp(why string) {
	b.mu.Lock()
	if b.silence == "" {
		b.silence = why
	}
	b.mu.Unlock()
	b.hangUp()
}

// begin greets the agent. Nothing but treerun itself and its version goes out before the
// agent's hello.
func (b *agentConn) begin() error {
	join := b.f.cfg.Join
	timeout := join.Start.Timeout
	late := time.AfterFunc(timeout, func() {
		b.giveUp(fmt.Sprintf("it has not answered within %v", timeout))
	})
	// That it cannot be written, the reader tells better.
	if !join.Start.Push {
		_, _ = b.raw.Write(wire.Hello{Version: wire.Version()}.AsLauncher())
	} else if err := sendSelf(b.raw); err != nil {
		return err
	}
	r := bufio.NewReaderSize(b.raw, 64<<10)
	h, said, err := wire.ReadAgent(r)
	if !late.Stop() || err != nil {
		b.stderr.add(said)
		if err == nil {
			err = io.EOF
		}
		return err
	}
	if err := b.check(h); err != nil {
		return err
	}
	join.Index, join.Name, join.Below = b.hosts[0].Index, b.name, b.hosts[1:]
	first, err := wire.Encode(join.Index, &join)
	if err == nil && join.Start.Push {
		_, err = b.raw.Write(wire.Hello{Version: wire.Version()}.AsLauncher())
	}
	if err == nil {
		err = b.conn.Begin(r, b.raw, first)
	}
	if err == nil {
		close(b.hello)
	}
	return err
}

// read reads what the agent says, until its end.
func (b *agentConn) read() error {
	if err := b.begin(); err != nil {
		return err
	}
	b.f.gone.Go(func() { b.conn.Serve(b.stream) })
	go b.beat()
	for {
		f, err := b.conn.Read()
		if err == nil {
			err = b.note(f)
		}
		if errors.Is(err, wire.ErrProtocol) {
			return errStrange{err}
		}
		if err != nil {
			return err
		}
		b.f.cfg.Emit(f)
	}
}

// stream passes on a stream that comes up.
func (b *agentConn) stream(f *wire.Frame, s net.Conn) {
	if b.has(f.Host) {
		b.f.cfg.Stream(f, s)
		return
	}
	_ = s.Close()
}

// has tells whether a host is reached by this connection.
func (b *agentConn) has(host int) bool {
	return slices.ContainsFunc(b.hosts, func(h wire.Below) bool { return h.Index == host })
}

// errStrange is the error for what no agent of ours says.
type errStrange struct{ error }

// check looks whether the agent is of our version, and arrived whole.
func (b *agentConn) check(h wire.Hello) error {
	me := wire.Version()
	switch {
	case h.Version != me:
		return errStrange{fmt.Errorf("treerun there is %v, and here %v: they are different builds (hint: install the same "+
			"version on all hosts, or let --push send this one)", h.Version, me)}
	case b.f.cfg.Join.Start.Push && h.Sum != b.f.sum:
		return errStrange{fmt.Errorf("treerun did not arrive there as it was sent: its checksum is %.20q, want %.20q", h.Sum,
			b.f.sum)}
	}
	return nil
}

// note keeps account of which hosts have said goodbye.
func (b *agentConn) note(f *wire.Frame) error {
	if !b.has(f.Host) {
		return errStrange{fmt.Errorf("it speaks for host %d, which is not there", f.Host)}
	}
	if f.Is(&wire.Goodbye{}) {
		delete(b.left, f.Host)
	}
	if f.Is(&wire.Lost{}) {
		l, err := f.Decode()
		if err != nil {
			return errStrange{err}
		}
		for _, h := range l.(*wire.Lost).Hosts {
			delete(b.left, h)
		}
	}
	return nil
}

// beat gives the agent up when it is silent.
func (b *agentConn) beat() {
	timeout := b.f.cfg.Join.PeerTimeout
	tick := time.NewTicker(timeout / beats)
	defer tick.Stop()
	for {
		select {
		case <-b.gone:
			return
		case <-tick.C:
		}
		if b.conn.Beat() > maxMissed {
			b.giveUp(fmt.Sprintf("nothing was heard of it for %v (--peer-timeout %v)", timeout*(maxMissed+1)/beats, timeout))
			return
		}
	}
}

// lost reports that the hosts that have not said goodbye are lost.
func (b *agentConn) lost(why string) {
	l := &wire.Lost{Code: cmdline.ExitInternal, Text: why}
	for _, h := range b.hosts {
		if b.left[h.Index] {
			l.Hosts = append(l.Hosts, h.Index)
		}
	}
	if f, err := wire.Encode(b.hosts[0].Index, l); err == nil {
		b.f.cfg.Emit(f)
	}
}
