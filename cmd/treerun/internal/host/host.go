//go:build linux

// Package host runs the ranks of one host of a job: it starts them, passes messages and signals to them, and ends them
// with all processes that they have left in their process groups. It makes no decisions: the launcher, in this process
// or on another host, gives orders and gets reports (package wire). Packages launch and agent import it; the commands
// that reach other hosts are children of the Reaper, too.
package host

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/inspect"
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
	Stream func(s *wire.Stream, src *Pipe)
	Trace  func(format string, args ...any)

	// GuardTimeout makes the guard end the ranks when this process does nothing for that time; 0: only when it has
	// died.
	GuardTimeout time.Duration
}

// Host runs the ranks of one host, from Start to a report of wire.RanksExited, and then from another Start. Its methods
// may be called concurrently; orders are carried out in sequence.
type Host struct {
	cfg     Config
	reaper  *Reaper
	run              // of the Reaper's goroutine
	runs    int      // the number of this one
	input   *Input   // of all ranks; nil: one has the stdin of the host, or none has
	copying bool     // it is being copied
	kept    []*child // those whose recordings may still be fetched
	program Program
}

// run is the state of a Host from one Start to the report of wire.RanksExited.
type run struct {
	job          *wire.Run
	index        int // in job.File.Hosts: that of the host whose place this one has
	spawner      *spawner
	guard        *guard
	memory       *memoryGroups // of the ranks; nil: there are none
	ranks        []int         // of this host
	children     []*child
	deaths       *deaths        // nil unless ranks continue after a loss
	pending      []*job.Message // for ranks that have not started yet
	ends         []wire.End     // seen at this moment
	oomKills     int            // in the control group, before the ranks started
	running      int            // children that have not ended
	openControls int            // children that may still send messages

	starting bool  // more ranks will be started now
	last     bool  // no more ranks will be started later
	checks   int   // number of calls of checkDying
	longest  int64 // beginning of the longest suspect wait, in Unix nanoseconds; 0: there is none
	stopSent bool  // all ranks have been sent a signal to stop
	killed   bool
	guards   int  // that were started
	released bool // all ranks have ended, and have been waited for
	sweeping bool // their leftover processes are being stopped
	done     bool
}

// New returns a Host without ranks.
func New(cfg Config) *Host {
	h := &Host{cfg: cfg, reaper: cfg.Reaper}
	h.reaper.Do(func() { h.reaper.onExitsNoted = h.reportEnds })
	return h
}

// Program is the program of the ranks.
type Program struct {
	Path   string
	Reader int      // the rank that gets Stdin, or wire.StdinAll
	Stdin  *os.File // nil for /dev/null, which the others get
	Pipe   bool     // Stdin is the Host's, which closes it once the rank has it, unless that may start anew
}

// Start starts the host's ranks of a job. The report is wire.Started, then, where not all could be started,
// wire.Result, or after a restart wire.Unstarted; wire.RanksExited comes in every case. After that Start may be called
// again, of a job that restarts.
func (h *Host) Start(j *wire.Run, p Program) { h.reaper.Do(func() { h.start(j, p) }) }

// Order carries out the launcher's orders that concern ranks. One to stop that comes before the job is the end:
// wire.RanksExited is reported, and nothing starts.
func (h *Host) Order(b wire.Body) {
	h.reaper.Do(func() {
		switch b := b.(type) {
		case *wire.RankMessage:
			if b.Message != nil {
				h.forward(b.Message)
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
			h.finishStreams()
		case *wire.Spawn:
			h.spawn(b)
		case *wire.Replace:
			h.replace(b.Lost)
		case *wire.Kill:
			killRank(h, b)
		case *wire.Look:
			look(h, b)
		case *wire.Fetch:
			fetch(h, b)
		case *wire.Last:
			h.last = true
			h.endIfDone()
		}
	})
}

// Alive shows the guard that the Reaper still works.
func (h *Host) Alive() {
	h.reaper.Do(func() {
		if !h.done {
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

func (h *Host) start(j *wire.Run, p Program) {
	switch {
	case h.done && j.File.Epoch > 0:
		h.run = run{}
		h.runs++
	case h.done:
		return
	}
	h.index = h.cfg.Index
	h.job, h.program, h.ranks, h.starting = j, p, ranksOf(&j.File, h.index), true
	if p.Reader == wire.StdinAll && p.Stdin != nil && h.input == nil {
		h.input = new(Input)
	}
	if h.last = !j.File.Renews; !h.last {
		h.deaths = &deaths{begun: h.onDeathBegun}
	}
	h.oomKills, _ = oomKills("/")
	if h.stopSent || h.killed || len(h.ranks) == 0 { // replace gives a spare host its ranks
		h.reportStarted(nil)
		return
	}
	if err := prepare(h); err != nil {
		h.reportStarted(err)
		return
	}
	h.startNext()
}

// prepare prepares the start of the host's ranks.
func prepare(h *Host) (err error) {
	if h.spawner, err = newSpawner(h); err == nil {
		h.memory = h.spawner.memory
		h.startGuard()
	}
	return err
}

// startNext starts the next rank. Orders that have arrived meanwhile are carried out between two ranks.
func (h *Host) startNext() {
	i := len(h.children)
	if i == len(h.ranks) || h.stopSent || h.killed {
		h.reportStarted(nil)
		return
	}
	c, err := h.spawner.start(i, h.job.File.Epoch)
	if err != nil {
		h.reportStarted(err)
		return
	}
	h.add(c)
	for _, m := range h.pending {
		c.out.Add(m)
	}
	h.reaper.Do(h.startNext)
}

// add takes in a rank that runs.
func (h *Host) add(c *child) {
	h.children = append(h.children, c)
	if c.events = h.job.File.Events; c.events > 0 {
		h.kept = append(h.kept, c)
	}
	h.guard.watch(c.rank, c.pid)
	h.running++
	h.openControls++
}

// reportStarted reports which ranks run, and the error for the rest.
func (h *Host) reportStarted(err error) {
	h.starting, h.pending = false, nil
	if h.last {
		h.closeSpawner()
	}
	copyInput(h)
	if h.program.Pipe && !h.job.Again && h.input == nil {
		h.program.Pipe = false
		_ = h.program.Stdin.Close()
	}
	report := new(wire.Started)
	for _, c := range h.children {
		report.Ranks, report.PIDs = append(report.Ranks, c.rank), append(report.PIDs, c.pid)
	}
	h.cfg.Report(report)
	switch {
	case err != nil && h.job.File.Epoch > 0:
		reportUnstarted(h, h.ranks[len(h.children)], h.job.File.Epoch, err)
	case err != nil:
		h.cfg.Report(&wire.Result{Code: cmdline.ExitCode(err), Text: err.Error()})
	}
	h.reportEnds() // some may have ended
	h.endIfDone()
	h.after(dyingInterval, h.checkDying)
}

// forward passes a message on to all running ranks except the rank that it is about.
func (h *Host) forward(m *job.Message) {
	if h.job == nil || h.starting {
		h.pending = append(h.pending, m)
	}
	for _, c := range h.children {
		if !c.ended && (m.Kind != job.Exited || c.rank != m.Rank) {
			if m.Kind == job.Revoked || m.Kind == job.Exited && (m.Lost || m.Code != 0 || m.Signal != 0) {
				c.publish(m)
			}
			c.out.Add(m)
		}
	}
	if m.Kind == job.Begins {
		h.forget()
	}
}

// onEnded notes that a rank has ended.
func (h *Host) onEnded(c *child, status unix.WaitStatus) {
	c.ended = true
	h.running--
	e := wire.End{Rank: c.rank, PID: c.pid, Attempt: c.attempt, Stopped: c.stopSent, ReadJobFile: c.readJobFile()}
	if e.Hint = cmp.Or(c.memoryHint(), h.endHint(c.pid, status)); c.killedFor != "" {
		e.Hint = c.killedFor
	} else if c.stoppedChecks > 1 {
		e.Hint = fmt.Sprintf("had been %v", c.state)
	} else if status.CoreDump() {
		e.Hint = coreHint(c)
	}
	if status.Signaled() {
		e.Signal = status.Signal()
	} else {
		e.Code = status.ExitStatus()
	}
	e.Last = inspect.Ended(c.rank, c.pid, io.NewSectionReader(c.file, job.StatusAt, math.MaxInt64-job.StatusAt),
		e.Code == 0 && e.Signal == 0)
	h.ends = append(h.ends, e)
	c.control.Finish() // receive passes on the messages that it wrote before
}

// reportEnds reports the ends that were seen at this moment.
func (h *Host) reportEnds() {
	if len(h.ends) > 0 && !h.starting {
		ends := h.ends
		h.ends = nil
		h.cfg.Report(&wire.Ended{Ends: ends})
	}
	h.endIfDone()
}

// onControlClosed notes that a rank's messages have ended with err. After a failed read the job fails: the other ranks
// would wait for these messages.
func (h *Host) onControlClosed(c *child, err error) {
	var errno syscall.Errno
	if !c.ended && errors.As(err, &errno) && errno != unix.ECONNRESET {
		h.cfg.Report(&wire.Result{Code: cmdline.ExitInternal, Text: fmt.Sprintf("messages of rank %d: %v", c.rank, err)})
	}
	h.openControls--
	c.controlEnded = true
	h.cfg.Report(&wire.RankMessage{Rank: c.rank, Attempt: c.attempt})
	h.endIfDone()
}

// endIfDone ends the Host once no rank runs, sends messages or has left processes.
func (h *Host) endIfDone() {
	over := h.stopSent || h.killed || h.last && h.job != nil
	if h.done || h.starting || h.running > 0 || !over {
		return
	}
	if !h.released { // all have ended: their numbers may be reused
		h.released = true
		h.reaper.Release()
	}
	if h.openControls > 0 || h.stopLeftovers() {
		return
	}
	h.end(false)
}

func (h *Host) end(stuck bool) {
	if h.done {
		return
	}
	h.done = true
	if !stuck {
		h.guard.dismiss() // no group has a member left
	}
	for _, c := range h.children {
		if stuck && c.signalErr != nil && !c.ended {
			h.cfg.Report(&wire.Note{Text: fmt.Sprintf("rank %d (process %d) could not be killed: %v (it has another user now, "+
				"or capabilities)", c.rank, c.pid, c.signalErr)})
		}
		c.close()
	}
	h.memory.removeLeft()
	h.closeSpawner()
	if h.deaths != nil {
		h.deaths.close()
	}
	port, _ := freePort() // a restart without one fails where it is needed
	h.cfg.Report(&wire.RanksExited{Stuck: stuck, Port: port})
}

// stopLeftovers reports whether processes are left in the groups of ranks, all of which have ended, and begins to stop
// them. If the job was being stopped, they have had the signal, and have the time that ranks have.
func (h *Host) stopLeftovers() bool {
	left := slices.ContainsFunc(h.children, (*child).groupLives)
	if left && !h.sweeping {
		h.sweeping = true
		h.cfg.Trace("stopping processes that ranks have left running")
		if !h.stopSent && !h.killed {
			h.signalAll(unix.SIGTERM)
			h.signalAll(unix.SIGCONT)
			h.after(LeftoverGrace, h.kill)
		}
	}
	return left
}

// after has f run by the Reaper's goroutine after d, unless the run is done then.
func (h *Host) after(d time.Duration, f func()) {
	run := h.runs
	time.AfterFunc(d, func() {
		h.reaper.Do(func() {
			if !h.done && h.runs == run {
				f()
			}
		})
	})
}

// finishStreams makes all streams end after the data written until now: a process outside the ranks' process groups may
// hold them open.
func (h *Host) finishStreams() {
	for _, c := range h.children {
		for _, s := range c.streams {
			s.Finish()
		}
	}
}
