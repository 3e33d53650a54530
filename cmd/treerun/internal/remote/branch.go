package remote

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/exitcode"
	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// Beats is into how many parts the peer timeout is divided: one sign of life in
// each, and Missed of them may be missing. So a host that is gone is known
// before the ranks of other hosts give up waiting for its ranks.
const (
	Beats  = 8
	Missed = 5
)

// branch is the connection to one agent and to those below it.
type branch struct {
	f     *Forest
	name  string       // of the host
	hosts []wire.Below // the agent's own first

	pid     int      // of the process that we have started for it
	in, out *os.File // our ends of its stdin and stdout
	words   words    // what it writes to stderr
	status  unix.WaitStatus
	exited  chan struct{} // closed when the process has ended: status is set
	hello   chan struct{} // closed when the agent has said who it is
	broken  chan struct{} // closed when nothing is to be written any more
	breakIt func()

	mu      sync.Mutex
	queue   []*wire.Frame
	writing bool // something has been taken from queue and is not written yet
	wake    chan struct{}
	silence string      // why we have ended the connection ourselves; "": we have not
	heard   atomic.Bool // something came since the last beat
	said    atomic.Bool // something was sent since the last beat
	left    map[int]bool
}

func newBranch(f *Forest, hosts []wire.Below) *branch {
	b := &branch{
		f: f, name: hosts[0].Name, hosts: hosts, exited: make(chan struct{}), hello: make(chan struct{}),
		broken: make(chan struct{}), wake: make(chan struct{}, 1), left: make(map[int]bool),
	}
	b.breakIt = sync.OnceFunc(func() { close(b.broken) })
	for _, h := range hosts {
		b.left[h.Index] = true
	}
	return b
}

// run is the life of the connection.
func (b *branch) run() {
	defer b.f.gone.Done()
	if err := b.start(); err != nil {
		close(b.exited)
		b.breakIt()
		b.lost(fmt.Sprintf("start treerun on host %s: %v%s", b.name, err, host.LimitHint(err)))
		return
	}
	go b.write()
	err := b.read()
	b.hangUp()
	_ = b.out.Close()
	if len(b.left) > 0 {
		b.lost(b.why(err))
	}
}

// start starts the process.
func (b *branch) start() error {
	if open := b.f.cfg.Open; open != nil {
		b.in, b.out = open(b.hosts[0].Index)
		close(b.exited) // there is no process
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
	b.in, b.out = ours[0], ours[1]
	b.f.cfg.Keeper.Call(func() { err = b.fork(args, theirs) })
	if err != nil {
		return errors.Join(err, b.in.Close(), b.out.Close(), ours[2].Close())
	}
	go b.words.read(ours[2])
	return nil
}

// fork runs in the Keeper's goroutine. The process has a session of its own:
// signals of our terminal are not for it.
func (b *branch) fork(args []string, stdio [3]*os.File) error {
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
	b.f.cfg.Keeper.Children(b.pid, func(status unix.WaitStatus) {
		b.status = status
		close(b.exited)
	})
	return nil
}

// kill ends the process, with those that it has started in its group.
func (b *branch) kill() {
	b.f.cfg.Keeper.Call(func() {
		select {
		case <-b.exited:
		default:
			if b.pid > 0 {
				_ = unix.Kill(-b.pid, unix.SIGKILL)
			}
		}
	})
}

// hangUp ends the agent's stdin: it ends what it has started, and itself.
func (b *branch) hangUp() {
	b.breakIt()
	if b.in != nil {
		_ = b.in.Close()
	}
}

// giveUp ends the connection from our side.
func (b *branch) giveUp(why string) {
	b.mu.Lock()
	if b.silence == "" {
		b.silence = why
	}
	b.mu.Unlock()
	b.hangUp()
	_ = b.out.SetReadDeadline(time.Unix(1, 0))
}

// send queues a frame for the agent.
func (b *branch) send(f *wire.Frame) {
	b.mu.Lock()
	b.queue = append(b.queue, f)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// flush waits until the queue has been written.
func (b *branch) flush(deadline time.Time) {
	for time.Now().Before(deadline) {
		b.mu.Lock()
		idle := len(b.queue) == 0 && !b.writing
		b.mu.Unlock()
		if idle {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// atOnce is how many bytes are written at once, about.
const atOnce = 256 << 10

// take returns what is to be written next.
func (b *branch) take(buf []byte) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for n < len(b.queue) && len(buf) < atOnce {
		buf = b.queue[n].Append(buf)
		n++
	}
	b.queue = b.queue[n:]
	b.writing = len(buf) > 0
	return buf
}

// write is what is written to the agent: what it needs to be there, and then
// what is sent. Nothing secret goes out before its hello.
func (b *branch) write() {
	err := b.introduce()
	var buf []byte
	for err == nil {
		if buf = b.take(buf[:0]); len(buf) > 0 {
			b.said.Store(true)
			_, err = b.in.Write(buf)
			continue
		}
		select {
		case <-b.wake:
		case <-b.broken:
			return
		}
	}
	b.hangUp() // why, the reader learns
}

// introduce writes what comes before the first frame of the job.
func (b *branch) introduce() error {
	join := b.f.cfg.Join
	join.Index, join.Name, join.Below = b.hosts[0].Index, b.name, b.hosts[1:]
	f, err := wire.Encode(join.Index, &join)
	if err != nil {
		return err
	}
	first := f.Append(wire.Me().AsLauncher())
	if !join.Start.Push {
		if _, err := b.in.Write(first); err != nil {
			return err
		}
	} else if err := sendSelf(b.in); err != nil {
		return err
	}
	select {
	case <-b.hello:
	case <-b.broken:
		return io.ErrClosedPipe
	}
	if join.Start.Push {
		_, err = b.in.Write(first)
	}
	return err
}

// read reads what the agent says, until its end.
func (b *branch) read() error {
	r := bufio.NewReaderSize(b.out, 64<<10)
	timeout := b.f.cfg.Join.Start.Timeout
	late := time.AfterFunc(timeout, func() {
		b.giveUp(fmt.Sprintf("it has not answered within %v", timeout))
	})
	h, said, err := wire.ReadAgent(r)
	if !late.Stop() || err != nil {
		b.words.add(said)
		if err == nil {
			err = io.EOF
		}
		return err
	}
	if err := b.check(h); err != nil {
		return err
	}
	close(b.hello)
	beat := time.NewTicker(b.f.cfg.Join.PeerTimeout / Beats)
	defer beat.Stop()
	stop := make(chan struct{})
	defer close(stop)
	go b.beat(beat.C, stop)
	for {
		f, err := wire.Read(r)
		if path := new(fs.PathError); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.As(err, &path) {
			return errStrange{fmt.Errorf("it does not keep to the protocol: %w", err)}
		}
		if err != nil {
			return err
		}
		b.heard.Store(true)
		if f.Is(&wire.Alive{}) {
			continue
		}
		if err := b.note(f); err != nil {
			return err
		}
		b.f.cfg.Emit(f)
	}
}

// errStrange is the error for what no agent of ours says.
type errStrange struct{ error }

// check looks whether the agent is of our version, and arrived whole.
func (b *branch) check(h wire.Hello) error {
	me := wire.Me()
	switch {
	case h.Protocol != me.Protocol || h.Version != me.Version:
		return errStrange{fmt.Errorf("treerun there is %v, and here %v: they are different builds (hint: install the same version on all hosts, or let --push send this one)", h, me)}
	case b.f.cfg.Join.Start.Push && h.Sum != b.f.sum:
		return errStrange{fmt.Errorf("treerun did not arrive there as it was sent: its checksum is %.20q, want %.20q", h.Sum, b.f.sum)}
	}
	return nil
}

// note keeps account of which hosts have said goodbye.
func (b *branch) note(f *wire.Frame) error {
	known := false
	for _, h := range b.hosts {
		known = known || h.Index == f.Host
	}
	if !known {
		return errStrange{fmt.Errorf("it speaks for host %d, which is not there", f.Host)}
	}
	if f.Is(&wire.Bye{}) {
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

// beat says that we live, and listens whether the agent does. It counts beats,
// not time: who was stopped together with the other side does not give it up.
func (b *branch) beat(tick <-chan time.Time, stop <-chan struct{}) {
	alive := &wire.Frame{Host: wire.All}
	if f, err := wire.Encode(wire.All, &wire.Alive{}); err == nil {
		alive = f
	}
	for missed := 0; ; {
		select {
		case <-stop:
			return
		case <-tick:
		}
		if !b.said.Swap(false) {
			b.send(alive)
			b.said.Store(false)
		}
		if b.heard.Swap(false) {
			missed = 0
		} else if missed++; missed > Missed {
			timeout := b.f.cfg.Join.PeerTimeout
			b.giveUp(fmt.Sprintf("nothing was heard of it for %v (--peer-timeout %v)", timeout*(Missed+1)/Beats, timeout))
			return
		}
	}
}

// lost reports that the hosts that have not said goodbye are lost.
func (b *branch) lost(why string) {
	l := &wire.Lost{Code: exitcode.Internal, Text: why}
	for _, h := range b.hosts {
		if b.left[h.Index] {
			l.Hosts = append(l.Hosts, h.Index)
		}
	}
	if f, err := wire.Encode(b.hosts[0].Index, l); err == nil {
		b.f.cfg.Emit(f)
	}
}
