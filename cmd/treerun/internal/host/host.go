// Package host runs the ranks of one host of a job: it starts them, passes messages and signals to them, and ends them
// with all processes that they have left in their process groups. It makes no decisions: the launcher, in this process
// or on another host, gives orders and gets reports (package wire). Packages launch and agent import it; the commands
// that reach other hosts are children of the Reaper, too.
package host

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

const (
	// LeftoverGrace is the time from SIGTERM to SIGKILL for processes that ended ranks have left running.
	LeftoverGrace = 100 * time.Millisecond

	// LostAfter is the time from SIGKILL until a process counts as lost: it hangs in the kernel.
	LostAfter = 5 * time.Second
)

// Config is the input of a Host in addition to the job.
type Config struct {
	Reaper *Reaper
	Index  int      // of the host
	Dir    string   // working directory of the ranks
	Env    []string // environment of the ranks; the variables of the job are added
	Name   string   // of the host
	Cores  int      // number of cores of this host that the job may use

	// Report is called with each event, in order, by one goroutine. It should not wait for long.
	Report func(wire.Body)
	// Stream takes over the reading end of one of a rank's streams.
	Stream func(rank, stream int, src *Pipe)
	Trace  func(format string, args ...any)

	// GuardTimeout makes the guard end the ranks when this process does nothing for that time; 0: only when it has died.
	GuardTimeout time.Duration
}

// Host runs the ranks of one host, from Start to a report of wire.RanksExited. Its methods may be called concurrently;
// orders are carried out in sequence.
type Host struct {
	cfg Config
	k   *Reaper

	// Of the Reaper's goroutine:
	job      *wire.Job
	program  Program
	spawner  *spawner
	guard    *guard
	ranks    []int // of this host
	children []*child
	pending  []*job.Message // for ranks that have not started yet
	ends     []wire.End     // seen at this moment
	oomKills int            // in the control group, before the ranks started
	running  int            // children that have not ended
	talking  int            // children that may still send messages

	starting bool // more ranks will be started
	looks    int  // of marks
	stop     bool // all ranks have been sent a signal to stop
	killed   bool
	guards   int  // that were started
	released bool // all ranks have ended, and have been waited for
	sweeping bool // their leftover processes are being stopped
	over     bool
}

// New returns a Host without ranks.
func New(cfg Config) *Host {
	h := &Host{cfg: cfg, k: cfg.Reaper}
	h.k.Do(func() { h.k.reaped = h.reaped })
	return h
}

// Program is the program of the ranks.
type Program struct {
	Path  string
	Stdin *os.File // of rank 0, nil for /dev/null, which the others get
	Pipe  bool     // Stdin is the Host's, which closes it once rank 0 has it
}

// Start starts the host's ranks of a job. The report is wire.Started, then, where
// not all could be started, wire.Result; wire.RanksExited comes in every case. Call it
// once.
func (h *Host) Start(j *wire.Job, p Program) { h.k.Do(func() { h.start(j, p) }) }

// Order carries out the launcher's orders that concern ranks. One to stop that comes before the job is the end:
// wire.RanksExited is reported, and nothing starts.
func (h *Host) Order(b wire.Body) {
	h.k.Do(func() {
		switch b := b.(type) {
		case *wire.RankMessage:
			if b.Message != nil {
				h.tell(b.Message)
			}
		case *wire.Signal:
			switch b.Number {
			case unix.SIGKILL:
				h.kill()
			case unix.SIGTERM:
				h.terminate()
			default:
				h.signalAll(b.Number)
			}
		case *wire.Finish:
			h.finish()
		}
	})
}

// Alive shows the guard that the Reaper still works.
func (h *Host) Alive() {
	h.k.Do(func() {
		if !h.over {
			h.guard.alive()
		}
	})
}

// ranksOf returns the ranks of a host, in order.
func ranksOf(f *job.File, host int) []int {
	var ranks []int
	for r, at := range f.Hosts {
		if at == host {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

func (h *Host) start(j *wire.Job, p Program) {
	if h.over {
		return
	}
	h.job, h.program, h.ranks, h.starting = j, p, ranksOf(&j.File, h.cfg.Index), true
	if h.stop || h.killed {
		h.started(nil)
		return
	}
	sp, err := newSpawner(h)
	if err != nil {
		h.started(err)
		return
	}
	h.spawner = sp
	h.startGuard()
	h.oomKills, _ = oomKills("/")
	h.next()
}

// next starts the next rank. Orders that have arrived meanwhile are carried out between two ranks.
func (h *Host) next() {
	i := len(h.children)
	if i == len(h.ranks) || h.stop || h.killed {
		h.started(nil)
		return
	}
	c, err := h.spawner.start(i)
	if err != nil {
		h.started(err)
		return
	}
	h.children = append(h.children, c)
	h.guard.watch(c.pid)
	h.running++
	h.talking++
	for _, m := range h.pending {
		c.out.Add(m)
	}
	h.k.Do(h.next)
}

// started reports which ranks run, and the error for the rest.
func (h *Host) started(err error) {
	h.starting, h.pending = false, nil
	if h.spawner != nil {
		h.spawner.close()
	}
	if h.program.Pipe {
		_ = h.program.Stdin.Close()
	}
	report := new(wire.Started)
	for _, c := range h.children {
		report.Ranks, report.PIDs = append(report.Ranks, c.rank), append(report.PIDs, c.pid)
	}
	h.cfg.Report(report)
	if err != nil {
		h.cfg.Report(&wire.Result{Code: cmdline.ExitCode(err), Text: err.Error()})
	}
	h.reaped() // some may have ended
	h.look()
	h.after(markEvery, h.marks)
}

// markEvery is how often a host looks for ranks that have begun to end. A rank that has at two looks, and has not
// ended, is reported: for most the end itself comes before.
const markEvery = 100 * time.Millisecond

// marks looks for ranks that have begun to end, and whose memory the system takes back for so long that the others
// should not wait for it.
func (h *Host) marks() {
	for _, c := range h.children {
		if c.ended || !c.marked() {
			continue
		}
		if c.dying++; c.dying == 2 {
			told := &job.Message{Kind: job.Dying, Rank: c.rank, PID: c.pid}
			h.cfg.Report(&wire.RankMessage{Rank: c.rank, Message: told})
		}
	}
	if h.looks++; h.looks%haltLooks == 0 && !h.stop && !h.killed && slices.Max(h.job.File.Hosts) > 0 {
		h.noteHalted()
	}
	if h.running > 0 {
		h.after(markEvery, h.marks)
	}
}

// haltLooks is the number of looks for ending ranks from one look for stopped ranks to the next.
const haltLooks = 5

// noteHalted reports ranks that are stopped at two looks, though not by the terminal. Ranks of other hosts count one as
// lost after the peer timeout.
func (h *Host) noteHalted() {
	for _, c := range h.children {
		c.state = job.StatProc(c.pid)
		if !c.state.Stopped() || c.state.Signal == unix.SIGTSTP {
			c.halted = 0
		} else if c.halted++; c.halted == 2 {
			h.cfg.Report(&wire.Note{Text: fmt.Sprintf("rank %d is %v (process %d): ranks of other hosts count it as lost "+
				"after --peer-timeout", c.rank, c.state, c.pid)})
		}
	}
}

// tell passes a message on to all running ranks except the rank that it is about.
func (h *Host) tell(m *job.Message) {
	if h.job == nil || h.starting {
		h.pending = append(h.pending, m)
	}
	for _, c := range h.children {
		if !c.ended && (m.Kind != job.Exited || c.rank != m.Rank) {
			c.out.Add(m)
		}
	}
}

// ended notes that a rank has ended.
func (h *Host) ended(c *child, status unix.WaitStatus) {
	c.ended = true
	h.running--
	e := wire.End{Rank: c.rank, PID: c.pid, Stopped: c.stopped, ReadJobFile: c.readJobFile()}
	if e.Hint = h.endHint(c.pid, status); c.halted > 1 {
		e.Hint = fmt.Sprintf("had been %v", c.state)
	}
	if status.Signaled() {
		e.Signal = status.Signal()
	} else {
		e.Code = status.ExitStatus()
	}
	h.ends = append(h.ends, e)
	c.control.Finish() // receive passes on the messages that it wrote before
}

// reaped reports the ends that were seen at this moment.
func (h *Host) reaped() {
	if len(h.ends) > 0 && !h.starting {
		ends := h.ends
		h.ends = nil
		h.cfg.Report(&wire.Ended{Ends: ends})
	}
	h.look()
}

// deafTo notes that a rank's messages have ended with err. After a failed read the job fails: the other ranks would
// wait for these messages.
func (h *Host) deafTo(c *child, err error) {
	var errno syscall.Errno
	if !c.ended && errors.As(err, &errno) && errno != unix.ECONNRESET {
		h.cfg.Report(&wire.Result{Code: cmdline.ExitInternal, Text: fmt.Sprintf("messages of rank %d: %v", c.rank, err)})
	}
	h.silent(c)
}

// silent notes that no more messages will come from a rank.
func (h *Host) silent(c *child) {
	h.talking--
	h.cfg.Report(&wire.RankMessage{Rank: c.rank})
	h.look()
}

// look checks whether everything is over.
func (h *Host) look() {
	if h.over || h.starting || h.job == nil && !h.stop && !h.killed || h.running > 0 {
		return
	}
	if !h.released { // all have ended: their numbers may be reused
		h.released = true
		h.k.Release()
	}
	if h.talking > 0 || h.leftovers() {
		return
	}
	h.end(false)
}

func (h *Host) end(stuck bool) {
	if h.over {
		return
	}
	h.over = true
	if !stuck {
		h.guard.dismiss() // no group has a member left
	}
	for _, c := range h.children {
		if stuck && c.deaf != nil && !c.ended {
			h.cfg.Report(&wire.Note{Text: fmt.Sprintf("rank %d (process %d) could not be killed: %v (it has another user now, "+
				"or capabilities)", c.rank, c.pid, c.deaf)})
		}
		c.close()
	}
	h.cfg.Report(&wire.RanksExited{Stuck: stuck})
}

// leftovers reports whether processes are left in the groups of ranks, all of which have ended, and begins to stop
// them. If the job was being stopped, they have had the signal, and have the time that ranks have.
func (h *Host) leftovers() bool {
	lives := slices.ContainsFunc(h.children, (*child).groupLives)
	if lives && !h.sweeping {
		h.sweeping = true
		h.cfg.Trace("stopping processes that ranks have left running")
		if !h.stop && !h.killed {
			h.signalAll(unix.SIGTERM)
			h.signalAll(unix.SIGCONT)
			h.after(LeftoverGrace, h.kill)
		}
	}
	return lives
}

// after has f run by the Reaper's goroutine after d, unless all is over then.
func (h *Host) after(d time.Duration, f func()) {
	time.AfterFunc(d, func() {
		h.k.Do(func() {
			if !h.over {
				f()
			}
		})
	})
}

// terminate sends SIGTERM to all ranks and the processes that ended ones have left. SIGCONT lets stopped processes
// receive it.
func (h *Host) terminate() {
	if h.stop || h.killed || h.sweeping {
		return // they have been sent more than that
	}
	h.stop = true
	h.markStopped()
	h.signalAll(unix.SIGTERM)
	h.signalAll(unix.SIGCONT)
	h.look()
}

// kill ends all ranks and their leftover processes, at once.
func (h *Host) kill() {
	h.markStopped()
	h.signalAll(unix.SIGKILL)
	if !h.killed {
		h.killed = true
		h.after(LostAfter, func() { h.end(true) })
	}
	h.look()
}

func (h *Host) markStopped() {
	for _, c := range h.children {
		c.stopped = c.stopped || c.dying == 0
	}
}

// signalAll sends sig to the process groups of all ranks that have not ended,
// and to those that ended ranks have left processes in. A rank's pid is the group's number;
// it belongs to the rank until the rank is waited for, and after that as long as a child of
// ours is in the group.
// A rank that has left its group is signalled by its number.
func (h *Host) signalAll(sig syscall.Signal) {
	for _, c := range h.children {
		if !h.released || c.groupLives() {
			c.deaf = unix.Kill(-c.pid, sig)
		}
		group, err := unix.Getpgid(c.pid)
		if h.released || c.ended || err != nil || group == c.pid {
			continue
		}
		c.deaf = unix.Kill(c.pid, sig)
		if !c.left && sig == unix.SIGTERM {
			c.left = true
			h.cfg.Report(&wire.Note{Text: fmt.Sprintf("rank %d (process %d) has left its process group for %d: treerun "+
				"stops it alone, and not what it has started there", c.rank, c.pid, group)})
		}
	}
}

// finish makes all streams end after the data written until now: a process outside the ranks' process groups may hold
// them open.
func (h *Host) finish() {
	for _, c := range h.children {
		for _, s := range c.streams {
			s.Finish()
		}
	}
}
