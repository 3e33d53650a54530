// Package agent is the far side of a job on several hosts: a process that the
// launcher, or another agent, starts on a host. It speaks package wire on its
// stdin and stdout, runs the ranks of its host as the launcher runs those of its
// own, and passes frames on to and from the hosts below it in the tree. When it
// loses the launcher, everything that it has started ends. Only cmd/treerun
// imports it.
package agent

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/exitcode"
	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/remote"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/rank/machine"
)

// Is tells whether the arguments after treerun's name make it an agent.
func Is(args []string) bool {
	return len(args) > 0 && len(args) <= 2 && args[0] == remote.Command && (len(args) == 1 || args[1] == remote.SumFlag)
}

// Main is an agent, from its hello to its end. It returns the exit code.
func Main(args []string) int {
	if term.IsTerminal(0) {
		fmt.Fprintln(os.Stderr, "treerun agent is what treerun starts on other hosts; it is not for people")
		return exitcode.Usage
	}
	if err := host.CheckLimits(); err != nil {
		return fail(err)
	}
	hello := wire.Me()
	if len(args) == 2 {
		var err error
		if hello.Sum, err = wire.Sum(); err != nil {
			return fail(err)
		}
	}
	in, out, err := takeStdio()
	if err != nil {
		return fail(err)
	}
	if _, err := out.Write(hello.AsAgent()); err != nil {
		return fail(err)
	}
	code, err := obeyAs(nil, in, out)
	if err != nil {
		return fail(err)
	}
	return code
}

// obeyAs is an agent once its hello is out. node is nil for one that a launcher
// has started.
func obeyAs(node *Node, in, out *os.File) (int, error) {
	r := bufio.NewReaderSize(in, 64<<10)
	join, err := readJoin(r)
	if node != nil && errors.Is(err, io.EOF) {
		err = exitcode.Errorf(exitcode.Internal,
			"node 0 ended before the job began (hint: the output of its own treerun says why)")
	}
	if err != nil {
		return 0, err
	}
	if node != nil {
		join.Program, join.Path, join.Dir = node.Program, node.Path, node.Dir
	}
	a, err := newAgent(join, newUplink(out))
	if err != nil {
		return 0, err
	}
	a.node = node
	return a.run(r)
}

func fail(err error) int {
	fmt.Fprintf(os.Stderr, "treerun agent: %v\n", err)
	return exitcode.Of(err)
}

// takeStdio makes stdin and stdout ours alone: what writes to descriptor 1 by
// mistake does not get into the frames.
func takeStdio() (in, out *os.File, err error) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a write then fails instead of killing us
	var files [2]*os.File
	for fd := range files {
		dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 5)
		if err != nil {
			return nil, nil, os.NewSyscallError("fcntl", err)
		}
		_ = unix.SetNonblock(dup, true) // then a read can be ended; a file does as well
		files[fd] = os.NewFile(uintptr(dup), "launcher")
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	defer null.Close()
	for fd := range files {
		if err := unix.Dup3(int(null.Fd()), fd, 0); err != nil {
			return nil, nil, os.NewSyscallError("dup3", err)
		}
	}
	return files[0], files[1], nil
}

// readJoin reads what the launcher says first. A launcher of another version
// knows that from our hello, and says it better.
func readJoin(r *bufio.Reader) (*wire.Join, error) {
	h, err := wire.ReadLauncher(r)
	me := wire.Me()
	if err == nil && (h.Protocol != me.Protocol || h.Version != me.Version) {
		err = fmt.Errorf("the launcher is treerun %v, and this is %v", h, me)
	}
	if err != nil {
		return nil, err
	}
	f, err := wire.Read(r)
	if err != nil {
		return nil, err
	}
	b, err := f.Decode()
	if err != nil {
		return nil, err
	}
	if join, ok := b.(*wire.Join); ok {
		return join, nil
	}
	return nil, errors.New("the launcher does not begin with who we are")
}

// agent is the agent of one host.
type agent struct {
	join   *wire.Join
	keeper *host.Keeper
	up     *uplink
	forest *remote.Forest

	program program       // of the goroutine that reads
	host    *host.Host    // nil until the job comes
	stdin   *input        // of rank 0, where it is here
	told    bool          // the job has come
	streams *forwarder    // of all ranks
	over    chan struct{} // closed when all ranks have ended
	once    sync.Once
	cut     atomic.Bool // the launcher is lost
	node    *Node       // nil unless a user has started this process
}

func newAgent(join *wire.Join, up *uplink) (*agent, error) {
	a := &agent{join: join, up: up, keeper: host.NewKeeper(), over: make(chan struct{})}
	a.program.path = join.Path
	a.streams = newForwarder(a.report)
	if err := a.keeper.Adopt(); err != nil {
		a.trace("%v", err)
	}
	var err error
	a.forest, err = remote.New(remote.Config{Keeper: a.keeper, Join: *join, Emit: up.send, Trace: a.trace})
	return a, err
}

// report tells the launcher something about this host.
func (a *agent) report(b wire.Body) {
	f, err := wire.Encode(a.join.Index, b)
	if err != nil {
		f, _ = wire.Encode(a.join.Index, &wire.Result{Code: exitcode.Internal, Text: err.Error()})
	}
	a.up.send(f)
	if _, ok := b.(*wire.Over); ok {
		a.once.Do(func() { close(a.over) })
	}
}

func (a *agent) trace(format string, args ...any) {
	if a.join.Verbose {
		a.report(&wire.Note{Text: fmt.Sprintf(format, args...), Verbose: true})
	}
}

// run obeys the launcher until the job is over here and below.
func (a *agent) run(r *bufio.Reader) (int, error) {
	lost := make(chan error, 1)
	go func() { lost <- a.listen(r) }()
	if a.join.Path != "" {
		a.look()
	}
	done := make(chan struct{})
	go func() {
		<-a.over
		a.streams.wait()
		<-a.forest.Gone()
		close(done)
	}()
	beat := time.NewTicker(a.join.PeerTimeout / remote.Beats)
	defer beat.Stop()
	for {
		select {
		case <-done:
			a.report(&wire.Bye{})
			if done = nil; a.node != nil {
				continue // the result is still to come
			}
			a.up.close()
			a.forest.Close(time.Second)
			return 0, nil
		case sig := <-a.node.signals():
			a.report(&wire.Signal{Number: int(sig.(syscall.Signal))})
		case <-beat.C:
			if a.up.beat() {
				return a.end(fmt.Errorf("nothing was heard of the launcher for %v", a.join.PeerTimeout))
			}
			a.hostDo(func(h *host.Host) { h.Alive() })
		case err := <-lost:
			return a.end(err)
		}
	}
}

// end ends everything because the launcher is lost.
func (a *agent) end(err error) (int, error) {
	a.cut.Store(true)
	a.up.abandon()
	a.streams.abandon()
	a.hostDo(func(h *host.Host) {
		h.Order(&wire.Stop{Kill: true})
		select {
		case <-a.over:
		case <-time.After(2 * host.LostAfter):
		}
	})
	a.forest.Close(time.Second)
	switch {
	case a.node != nil:
		return a.node.end(err)
	case err == io.EOF: // it is gone: nobody reads our words
		return exitcode.Internal, nil
	}
	return 0, err
}

// hostDo calls f with the Host, if there is one.
func (a *agent) hostDo(f func(*host.Host)) {
	a.up.mu.Lock()
	h := a.host
	a.up.mu.Unlock()
	if h != nil {
		f(h)
	}
}

// listen obeys the launcher's frames. It returns why there are no more.
func (a *agent) listen(r *bufio.Reader) error {
	for {
		f, err := wire.Read(r)
		if err != nil {
			return err
		}
		if f.Host != a.join.Index && !f.Is(&wire.Alive{}) {
			a.forest.Send(f)
		}
		if f.Host != a.join.Index && f.Host != wire.All {
			a.up.heard(false)
			continue
		}
		b, err := f.Decode()
		alive, _ := b.(*wire.Alive)
		a.up.heard(alive != nil && alive.Pause)
		if err == nil {
			err = a.obey(b)
		}
		if err != nil {
			return err
		}
	}
}

// obey does what the launcher says.
func (a *agent) obey(b wire.Body) error {
	switch b := b.(type) {
	case *wire.Push:
		if a.join.Path != "" {
			return errors.New("a program comes that was not announced")
		}
		if whole, err := a.program.add(b); err != nil {
			a.refuse(err)
		} else if whole {
			a.look()
		}
	case *wire.Job:
		a.told = true
		return a.start(b)
	case *wire.Input:
		if !a.told {
			return errors.New("stdin of rank 0 came before the job")
		}
		if a.stdin != nil {
			a.stdin.add(b.Data)
		}
	case *wire.Result:
		if a.node != nil {
			return &over{b}
		}
	case *wire.Taken:
		a.streams.taken(b)
	case *wire.Stop:
		if a.host == nil { // there will be no job
			a.report(&wire.Over{})
			return nil
		}
		a.host.Order(b)
	case *wire.Tell, *wire.Signal, *wire.Finish:
		if a.host != nil {
			a.host.Order(b)
		}
	}
	return nil
}

// look sees whether the ranks can run here, and tells.
func (a *agent) look() {
	ready, err := a.ready()
	if err != nil {
		a.refuse(err)
		return
	}
	a.report(ready)
}

func (a *agent) ready() (*wire.Ready, error) {
	info, err := os.Stat(a.join.Dir)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, exitcode.Errorf(exitcode.Internal, "the working directory %s: %w (hint: --wdir names one that all hosts have)", a.join.Dir, cause(err))
	}
	if err := a.program.find(a.join.Program); err != nil {
		return nil, err
	}
	name, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find the name of the host: %w", err)
	}
	port, err := host.FreePort()
	if err != nil {
		return nil, fmt.Errorf("find a free port for MASTER_PORT: %w", err)
	}
	cores := cmdline.UsableCores()
	return &wire.Ready{Host: name, PID: os.Getpid(), Cores: cores, Port: port, Machine: machine.ID(cores)}, nil
}

func (a *agent) refuse(err error) {
	a.report(&wire.Result{Code: exitcode.Of(err), Text: err.Error()})
}

// start starts the ranks of this host.
func (a *agent) start(j *wire.Job) error {
	if a.host != nil {
		return errors.New("a second job comes")
	}
	var err error
	cfg := host.Config{
		Keeper: a.keeper, Index: a.join.Index, Path: a.program.path, Dir: a.join.Dir, Env: environ(a.join.Dir),
		Name: a.join.Name, Cores: cmdline.UsableCores(), Report: a.report, Stream: a.streams.add, Trace: a.trace,
		GuardTimeout: a.join.PeerTimeout,
	}
	if j.HasStdin && j.File.Hosts[0] == a.join.Index {
		if a.stdin, cfg.Stdin, err = newInput(a.report); err != nil {
			return err
		}
		cfg.Pipe = true
	}
	h := host.New(cfg)
	a.up.mu.Lock()
	a.host = h
	a.up.mu.Unlock()
	h.Start(j)
	return nil
}

// environ returns the environment of this process, in a folder.
func environ(dir string) []string {
	var env []string
	for _, e := range os.Environ() {
		if !bytes.HasPrefix([]byte(e), []byte("PWD=")) {
			env = append(env, e)
		}
	}
	return append(env, "PWD="+dir)
}
