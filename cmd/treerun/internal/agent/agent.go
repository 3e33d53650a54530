//go:build linux

// Package agent connects the launcher to the other hosts of a job. A Tree starts agents there
// and keeps the connections to them: frames and streams go down to the hosts of a job and come
// up from them. An agent is the other end: a process that the launcher, or another agent, starts
// on a host. It uses the protocol of package wire on its stdin and stdout, runs the ranks of its
// host as the launcher runs those of its own, and has a Tree of the hosts below it, so that many
// hosts are connected as a tree. When it loses the launcher, everything that it has started ends.
// Only the packages below cmd/treerun import it.
package agent

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/recording"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

// Main is an agent whose launcher is at the other end of stdin and stdout, from its hello to
// its end. It returns the exit code.
func Main(args []string) (int, error) {
	byLines := slices.Equal(args, []string{lines})
	if len(args) > 0 && !byLines || term.IsTerminal(0) {
		fmt.Fprintln(os.Stderr, "treerun agent is started by treerun on other hosts, not by users")
		return cmdline.ExitUsage, nil
	}
	if err := host.CheckAddressSpace(); err != nil {
		return 0, err
	}
	_ = os.Unsetenv(cmdline.FlagsVariable) // the flags of this job are those of the launcher
	stdio, err := takeStdio()
	if err != nil {
		return 0, err
	}
	if byLines {
		return (*Node)(nil).Run(&wire.LineWriter{ReadWriteCloser: stdio})
	}
	return (*Node)(nil).Run(stdio)
}

// takeStdio reserves stdin and stdout for the frames: code that writes to descriptor 1 by
// mistake does not corrupt them.
func takeStdio() (*wire.Pipes, error) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a write then fails instead of killing us
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	var files [2]*os.File
	for fd := range files {
		dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 5)
		if err == nil {
			_ = unix.SetNonblock(dup, true) // then a read can be ended; a file does as well
			files[fd] = os.NewFile(uintptr(dup), "launcher")
			err = unix.Dup3(int(null.Fd()), fd, 0)
		}
		if err != nil {
			return nil, os.NewSyscallError("dup", err)
		}
	}
	return &wire.Pipes{ReadCloser: files[0], Out: files[1]}, nil
}

// readJoin begins up, and reads the first frame of the launcher. A launcher of another
// version closes the connection: it learns our version from our hello.
func readJoin(up *wire.Conn, raw io.ReadWriteCloser) (*wire.Join, error) {
	r := bufio.NewReaderSize(raw, 64<<10)
	if _, _, err := wire.ReadHello(r, wire.LauncherWord); err != nil {
		return nil, err
	}
	if err := up.Begin(r, raw, nil); err != nil {
		return nil, err
	}
	f, err := up.Read()
	if err != nil {
		return nil, err
	}
	if join, ok := f.Body.(*wire.Join); ok {
		return join, nil
	}
	return nil, errors.New("the first frame of the launcher is not a join")
}

// agent is the agent of one host.
type agent struct {
	join   *wire.Join
	reaper *host.Reaper
	up     *wire.Conn // to the launcher, or the agent above
	tree   *Tree

	host    *host.Host
	program atomic.Pointer[string]      // its path; nil until it has been found
	stdin   chan net.Conn               // stdin of the rank that reads it, if it runs here
	input   *os.File                    // the other end of it for that rank, nil if there is none
	exited  chan struct{}               // receives when all ranks have ended
	done    chan struct{}               // closed when the agent ends
	started bool                        // a job has arrived
	totals  *totals                     // nil: this process requests none
	node    *Node                       // nil unless a user has started this process
	result  atomic.Pointer[wire.Result] // the result of the job, once it is over
}

// forwardUp passes on frames and streams from a host below.
func (a *agent) forwardUp(f *wire.Frame, s net.Conn) {
	if s == nil {
		a.up.Send(f)
		return
	}
	relay(a.up.Stream, f, s)
}

// relay passes a stream on.
func relay(open func(*wire.Frame) (net.Conn, error), f *wire.Frame, s net.Conn) {
	if next, err := open(f); err == nil {
		wire.Relay(next, s)
	}
	_ = s.Close()
}

// report sends the launcher a report about this host.
func (a *agent) report(b wire.Body) {
	if a.totals.takes(b) {
		return
	}
	a.up.Send(&wire.Frame{Host: a.join.Index, Body: b})
	if _, ok := b.(*wire.RanksExited); ok {
		select {
		case a.exited <- struct{}{}:
		default: // of a run before
		}
	}
}

func (a *agent) trace(format string, args ...any) {
	if a.join.Verbose {
		a.report(&wire.Note{Text: fmt.Sprintf(format, args...), Verbose: true})
	}
}

// stopSignals returns the signals that stop the job: a scheduler that ends it sends SIGTERM to all its processes, and
// the ranks have until SIGKILL to save. SIGUSR1 and SIGUSR2, by which schedulers announce that, end nothing.
func stopSignals() <-chan os.Signal {
	stops := make(chan os.Signal, 8)
	signal.Notify(stops, syscall.SIGTERM)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR1, syscall.SIGUSR2)
	return stops
}

// run obeys the launcher until the connection ends.
func (a *agent) run() (int, error) {
	lost := make(chan error, 2)
	go func() { lost <- a.readOrders() }()
	go func() {
		if a.up.Watch(a.join.PeerTimeout/heartbeats, heartbeats, a.host.Alive) {
			lost <- fmt.Errorf("the launcher has sent nothing for %v", a.join.PeerTimeout)
		}
	}()
	go a.up.Serve(a.onStream)
	if a.join.Path != "" {
		a.reportReady(a.join.Path)
	}
	stops := stopSignals()
	if a.node != nil {
		stops = a.node.Signals
	}
	for {
		select {
		case sig := <-stops:
			a.report(&wire.Signal{Number: sig.(syscall.Signal)})
		case err := <-lost:
			return a.end(err)
		}
	}
}

// end ends everything because the launcher has closed the connection, or is lost.
func (a *agent) end(err error) (int, error) {
	a.up.Close()
	a.host.Order(&wire.Signal{Number: syscall.SIGKILL})
	select {
	case <-a.exited:
	case <-time.After(2 * host.LostAfter):
	}
	close(a.done)
	a.tree.Close(time.Second)
	switch {
	case a.node != nil:
		return a.node.end(a.result.Load(), err)
	case err == io.EOF: // the launcher is gone, and with it the reader of errors
		return cmdline.ExitInternal, nil
	}
	return 0, err
}

// readOrders obeys the launcher's frames. It returns the reason for their end.
func (a *agent) readOrders() error {
	for {
		f, err := a.up.Read()
		if err != nil {
			return err
		}
		if f.Host != a.join.Index {
			a.tree.Send(f)
		}
		if f.Host != a.join.Index && f.Host != wire.All {
			continue
		}
		if err := a.execute(f.Body); err != nil {
			return err
		}
	}
}

// execute executes an order of the launcher.
func (a *agent) execute(b wire.Body) error {
	switch b := b.(type) {
	case *wire.Run:
		return a.start(b)
	case *wire.Result:
		if a.node != nil {
			a.result.Store(b)
			return io.EOF
		}
	default:
		a.host.Order(b)
	}
	return nil
}

// reportReady reports to the launcher whether the ranks can run here.
func (a *agent) reportReady(path string) {
	ready, err := a.ready(path)
	if err != nil {
		a.reportError(err)
		return
	}
	a.report(ready)
}

func (a *agent) ready(path string) (*wire.Ready, error) {
	info, err := os.Stat(a.join.Dir)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, fmt.Errorf("the working directory %s: %w (hint: --wdir names one that all hosts have)", a.join.Dir,
			cmdline.Cause(err))
	}
	if path, err = findProgram(path, a.join.Program); err != nil {
		return nil, err
	}
	a.program.Store(&path)
	return host.Describe()
}

func (a *agent) reportError(err error) {
	a.report(&wire.Result{Code: cmdline.ExitCode(err), Text: err.Error()})
}

// start starts the ranks of this host.
func (a *agent) start(j *wire.Run) error {
	path := a.program.Load()
	if path == nil || a.started && j.File.Epoch == 0 {
		return errors.New("unexpected job")
	}
	select {
	case <-a.exited: // of the run before
	default:
	}
	reads := j.Stdin >= 0 && j.File.Hosts[j.Stdin] == a.join.Index ||
		j.Stdin == wire.StdinAll && slices.Contains(j.File.Hosts, a.join.Index)
	if reads && !a.started {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		a.input = r
		go a.copyStdin(w)
	}
	if !a.started {
		a.watch(j)
	}
	a.started = true
	a.host.Start(j, host.Program{Path: *path, Reader: j.Stdin, Stdin: a.input, Pipe: a.input != nil && !j.Again})
	return nil
}

// Node is the treerun of a node: an agent that a user, or a scheduler, has
// started with a command line of its own.
type Node struct {
	Program string           // as the user gave it
	Path    string           // of the executable, absolute
	Dir     string           // working directory of the ranks
	Signals <-chan os.Signal // those that stop the job; they go to the launcher

	// Watch, unless it is nil, is called when the job starts, with the state of this host's part of it.
	Watch func(live func() (*recording.Live, error))
}

// Run runs the ranks of this node for the launcher, which is at the other end of raw,
// and closes raw. It returns the exit code of the job. An error is one that the
// launcher may not know of. n is nil for an agent that a launcher has started.
func (n *Node) Run(raw io.ReadWriteCloser) (int, error) {
	defer raw.Close()
	if _, err := raw.Write(wire.Hello(wire.AgentWord)); err != nil {
		return 0, fmt.Errorf("send the hello to the launcher: %w", err)
	}
	up := new(wire.Conn)
	join, err := readJoin(up, raw)
	if n != nil && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) {
		err = errors.New("node 0 ended before the job began (hint: see the output of its treerun)")
	}
	if err != nil {
		return 0, err
	}
	if n != nil {
		join.Program, join.Path, join.Dir = n.Program, n.Path, n.Dir
	}
	a := &agent{
		join: join, node: n, up: up, reaper: host.NewReaper(), stdin: make(chan net.Conn, 1),
		exited: make(chan struct{}, 1), done: make(chan struct{}), totals: newTotals(n),
	}
	a.host = host.New(host.Config{
		Reaper: a.reaper, Index: join.Index, Dir: join.Dir, Env: host.Setenv(os.Environ(), "PWD="+join.Dir),
		Name: join.Name, Cores: job.UsableCores(), Report: a.report, Stream: a.forwardOutput, Trace: a.trace,
		GuardTimeout: join.PeerTimeout,
	})
	a.tree = New(Config{Reaper: a.reaper, Join: *join, Emit: a.forwardUp, Trace: a.trace})
	return a.run()
}

// end returns the exit code of the job from the result that the launcher has sent, nil if it has
// sent none. err is the reason why no more frames come from it.
func (n *Node) end(result *wire.Result, err error) (int, error) {
	switch {
	case result != nil && result.Text != "":
		return 0, cmdline.Errorf(result.Code, "node 0: %s", result.Text)
	case result != nil:
		return result.Code, nil
	case err == io.EOF:
		err = errors.New("its connection has ended")
	}
	return 0, fmt.Errorf("node 0 is lost: %w", err)
}
