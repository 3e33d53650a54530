//go:build linux

package host

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Reaper starts, signals and waits for all child processes of this process, in one goroutine that keeps its operating
// system thread. So the kernel ends children with a parent-death signal when this process dies by any cause, and no
// process is signaled after its number could have been reused. There is one per process. Its methods may be called
// concurrently.
//
// A rank that has ended stays a zombie until all ranks of the host have ended: others read and write its memory by its
// number, which must not refer to another process.
type Reaper struct {
	mu    sync.Mutex
	queue []func()
	wake  chan struct{}

	onExit       map[int]func(unix.WaitStatus) // by pid; of the goroutine
	held         map[int]bool                  // by pid: stays a zombie until Release
	onExitsNoted func()                        // called after ends have been noted
	closed       bool
}

// NewReaper starts the Reaper of this process. Orphans of children become children, which shows which process groups
// still live.
func NewReaper() *Reaper {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // since Linux 3.4
	// Nothing that this process has inherited is for children, and its own descriptors are close-on-exec anyway.
	// Before Linux 5.11 inherited ones remain open in children.
	_ = unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	r := &Reaper{
		wake: make(chan struct{}, 1), onExit: make(map[int]func(unix.WaitStatus)),
		held: make(map[int]bool), onExitsNoted: func() {},
	}
	ending := make(chan os.Signal, 1) // SIGCHLD; one that waits stands for all
	signal.Notify(ending, syscall.SIGCHLD)
	go r.run(ending)
	return r
}

// Do has f run by the Reaper's goroutine, after the functions of earlier calls. It does not wait.
func (r *Reaper) Do(f func()) {
	r.mu.Lock()
	r.queue = append(r.queue, f)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Call is Do, and waits until f has run.
func (r *Reaper) Call(f func()) {
	done := make(chan struct{})
	r.Do(func() { f(); close(done) })
	<-done
}

// OnExit calls ended when the child has ended and has been waited for. Only
// functions given to Do may call it, right after the child was started.
func (r *Reaper) OnExit(pid int, onExit func(unix.WaitStatus)) { r.onExit[pid] = onExit }

// Hold makes a child stay a zombie from its end until Release.
func (r *Reaper) Hold(pid int) { r.held[pid] = true }

// Free ends the hold of one child. Only functions given to Do may call it.
func (r *Reaper) Free(pid int) {
	delete(r.held, pid)
	if r.onExit[pid] == nil {
		reap(pid)
	}
}

// Release waits for all children that are held and have ended, or will end.
func (r *Reaper) Release() {
	held := r.held
	r.held = make(map[int]bool)
	for pid := range held {
		if r.onExit[pid] == nil {
			reap(pid)
		}
	}
	r.reapAll() // a list of children may have missed an orphan
}

// Close ends the Reaper once it has run the functions of earlier calls. Children with a parent-death signal die.
func (r *Reaper) Close() {
	r.Do(func() { r.closed = true })
}

func (r *Reaper) run(ending chan os.Signal) {
	runtime.LockOSThread() // forever: the thread ends with the goroutine
	defer signal.Stop(ending)
	for {
		for _, f := range r.dequeue() {
			f()
		}
		if r.closed {
			return
		}
		select {
		case <-ending:
			r.reap()
		case <-r.wake:
		}
	}
}

func (r *Reaper) dequeue() []func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.queue
	r.queue = nil
	return list
}

// reap notes which children have ended, and waits for those that are not held.
func (r *Reaper) reap() {
	defer func() { r.onExitsNoted() }()
	if len(r.held) == 0 {
		r.reapAll()
		return
	}
	// One that ended before another may have been checked too early: all that have ended by the last check have
	// ended at the same moment.
	for more := true; more; {
		more = false
		for pid, onExit := range r.onExit {
			status, ok := peek(pid)
			if !ok {
				continue
			}
			more = true
			delete(r.onExit, pid)
			if !r.held[pid] {
				reap(pid)
			}
			onExit(status)
		}
	}
	for _, pid := range mainThreadChildren() {
		if r.onExit[pid] == nil && !r.held[pid] {
			reap(pid)
		}
	}
}

// reapAll waits for all children that have ended.
func (r *Reaper) reapAll() {
	for {
		pid, status := reap(-1)
		if pid <= 0 {
			return
		}
		if onExit := r.onExit[pid]; onExit != nil { // else it was an orphan
			delete(r.onExit, pid)
			onExit(status)
		}
	}
}

// reap waits for a child, or any, if it has ended: else pid is not positive.
func reap(child int) (pid int, status unix.WaitStatus) {
	for {
		pid, err := unix.Wait4(child, &status, unix.WNOHANG, nil)
		if err != unix.EINTR {
			return pid, status
		}
	}
}

// mainThreadChildren returns the children of the first thread, which orphans of ranks become, and few other processes
// are. A kernel without CONFIG_PROC_CHILDREN does not list them: there orphans wait for Release.
func mainThreadChildren() (pids []int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	for _, field := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
