//go:build linux

package host

import (
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

// spawn starts one more process of a rank. The report is wire.Started or wire.Unstarted.
func (h *Host) spawn(s *wire.Spawn) {
	if h.done || h.stopSent || h.killed || h.last {
		return
	}
	c, err := (*child)(nil), error(nil)
	if h.spawner == nil { // it is the first one of this host
		err = prepare(h)
	}
	if err == nil {
		c, err = h.spawner.again(s)
	}
	if err != nil {
		reportUnstarted(h, s.Rank, s.Attempt, err)
		return
	}
	h.add(c)
	h.cfg.Report(&wire.Started{Ranks: []int{c.rank}, PIDs: []int{c.pid}})
}

// again starts one more process of a rank.
func (sp *spawner) again(s *wire.Spawn) (*child, error) {
	h := sp.host
	local := slices.Index(h.ranks, s.Rank)
	if local < 0 {
		var err error
		if local, err = sp.extend(s.Rank); err != nil {
			return nil, err
		}
		h.ranks = sp.ranks
	}
	one := *sp
	one.file.Joining = true
	for one.file.Size <= slices.Max(h.ranks) { // its world comes with a roster: here it must only be one of the job
		one.file.Size++
		one.file.Hosts = append(slices.Clip(one.file.Hosts), min(h.index, slices.Max(one.file.Hosts)+1))
	}
	one.file.LocalSize = len(h.ranks)
	one.env = Setenv(one.env, epochVariable(s.Epoch))
	return one.start(local, s.Attempt)
}

// reportUnstarted reports that a process could not be started, in a job that continues without it.
func reportUnstarted(h *Host, rank, attempt int, err error) {
	h.cfg.Report(&wire.Unstarted{Rank: rank, Attempt: attempt, Code: cmdline.ExitCode(err), Text: err.Error()})
}

// replace takes the place of a host that is lost: in this run, or in the next one after a restart.
func (h *Host) replace(lost int) {
	if h.done {
		h.cfg.Index = lost
	}
	if h.done || h.stopSent || h.killed || len(h.ranks) > 0 {
		return
	}
	h.index, h.ranks = lost, ranksOf(&h.job.File, lost)
}

// forget releases the ranks that have ended, at the beginning of an epoch: the others have left the one before, and use
// their process ids no more. What is left of their process groups is killed.
func (h *Host) forget() {
	h.children = slices.DeleteFunc(h.children, func(c *child) bool {
		if !c.ended || !c.controlEnded {
			return false
		}
		_ = unix.Kill(-c.pid, unix.SIGKILL) // the zombie keeps the number of the group
		h.reaper.Free(c.pid)
		for _, s := range c.streams {
			s.Finish()
		}
		c.close()
		return true
	})
}

// killRank ends one rank, which counts as one that failed.
func killRank(h *Host, k *wire.Kill) {
	i := slices.IndexFunc(h.children, func(c *child) bool { return c.rank == k.Rank && c.attempt == k.Attempt })
	if i < 0 || h.children[i].ended {
		return
	}
	c := h.children[i]
	if c.killedFor != "" {
		return
	}
	state := job.StatProc(c.pid)
	if k.IfStopped && (!state.Stopped() || state.Signal == unix.SIGTSTP) {
		return
	}
	if c.killedFor = k.Why; state.Stopped() && k.Grace == 0 {
		c.killedFor = fmt.Sprintf("%s; it was %v", k.Why, state)
	}
	h.cfg.Report(&wire.Note{Text: fmt.Sprintf("rank %d (process %d): %s", c.rank, c.pid, c.killedFor)})
	kill := func(sig unix.Signal) {
		c.signalProgram(sig)
		_ = unix.Kill(-c.pid, sig)
		_ = unix.Kill(c.pid, sig) // it may have left its group
	}
	if k.Grace > 0 {
		c.stopSent = true
		kill(unix.SIGTERM)
		kill(unix.SIGCONT)
		h.after(k.Grace, func() {
			if !c.ended {
				kill(unix.SIGKILL)
			}
		})
		return
	}
	kill(unix.SIGKILL)
}

// closeSpawner closes what only the start of ranks needs.
func (h *Host) closeSpawner() {
	if h.spawner != nil {
		h.spawner.close()
		h.spawner = nil
	}
}

// epochVariable returns the variable of the environment that has the epoch.
func epochVariable(epoch int) string { return job.EnvEpoch + "=" + strconv.Itoa(epoch) }
