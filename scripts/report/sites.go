//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/treerun/treerun/internal/testutil/nethosts"
)

// site is a set of hosts, with the benchmarks that run there.
type site struct {
	part    string // of its rows
	hosts   int    // 1: this one
	perHost int    // ranks
	network nethosts.Network
	groups  []group

	h *nethosts.Hosts // during the measurement; nil: this host
}

func (s *site) np() int { return s.hosts * s.perHost }

// group is a benchmark that several implementations run in turns.
type group struct {
	load
	maxRepeat int      // maximum number of repetitions; 0: no limit
	who       []string // peers, treerun, or values of flag
	flag      string   // flag of treerun bench that selects the implementation; "": none
	more      []string // arguments of treerun bench
	busy      int      // programs beside the jobs that use a core each
}

const (
	noCalls   = "start" // the op of a job that makes no calls
	everyCall = "calls" // that of one that makes all
)

// shorten makes all measurements short, to test the program.
func shorten(all []site) []site {
	for _, s := range all {
		for k := range s.groups {
			g := &s.groups[k]
			g.begin, g.end, g.factor, g.warmup = min(g.begin, 256*kib), min(g.end, 256*kib), 512, 0
			g.iters = min(g.iters, 1)
		}
	}
	return all
}

// measureSite measures one repetition at a site.
func (m *run) measureSite(ctx context.Context, s *site) (err error) {
	if s.hosts > 1 {
		if err := nethosts.Missing(); err != nil {
			return fmt.Errorf("hosts cannot be made here: %w", err)
		}
		if s.h, err = nethosts.Make(s.hosts, nethosts.Options{Networks: []nethosts.Network{s.network}}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.h.Close()) }()
	}
	for i := range s.groups {
		g := &s.groups[i]
		if g.maxRepeat > 0 && m.rep > g.maxRepeat {
			continue
		}
		stop, err := startBusy(g.busy)
		for _, who := range m.order(g.who...) {
			if err == nil {
				m.runWithRetry(ctx, s, g, who)
				err = ctx.Err()
			}
		}
		stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// startBusy starts programs that use a core each until stop, or until this program ends.
func startBusy(n int) (stop func(), err error) {
	var all []*exec.Cmd
	for len(all) < n && err == nil {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err = cmd.Start(); err == nil {
			all = append(all, cmd)
		}
	}
	return func() {
		for _, cmd := range all {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}, err
}

// runWithRetry runs one job of one implementation, again if it fails; a second failure is recorded.
func (m *run) runWithRetry(ctx context.Context, s *site, g *group, who string) {
	err := errors.New("not run")
	for try := 0; try < 2 && err != nil && !errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil; try++ {
		if g.ops == noCalls {
			err = m.start(ctx, s, who)
		} else {
			err = m.job(ctx, s, who, m.commandLine(s, g, who)...)
		}
	}
	if err != nil && ctx.Err() == nil {
		m.recordFailure(s.part+", "+who, err)
	}
}

// commandLine returns the command line of a benchmark.
func (m *run) commandLine(s *site, g *group, who string) []string {
	if g.ops == everyCall {
		return m.programLine(s, who, everyCall, strings.Fields(m.args)...)
	}
	l := g.load
	l.check = l.check && m.rep == 1
	if isPeer(who) {
		return m.peer(s, who, "perf", l.perf())
	}
	more := append(s.ranks(), g.more...)
	if who == earlier {
		return append([]string{m.before}, l.bench(more...)...)
	}
	if g.flag != "" && who != ownChoice {
		more = append(more, g.flag, who)
	}
	return append([]string{m.treerun}, l.bench(more...)...)
}

// programLine returns the command line of a program, the kit's twin of which has the given name.
func (m *run) programLine(s *site, who, twin string, args ...string) []string {
	if who != ownChoice {
		return m.peer(s, who, twin, args)
	}
	if twin == everyCall {
		args = append([]string{everyCall}, args...) // of scripts/measure
	}
	limit := fmt.Sprint(jobLimit.Seconds())
	return slices.Concat([]string{m.treerun}, s.ranks(),
		[]string{"--tag-output=false", "--timeout", limit, m.program}, args)
}

// start measures an empty job from start to finish, in milliseconds.
func (m *run) start(ctx context.Context, s *site, who string) error {
	clock := startStopwatch()
	if _, err := m.output(ctx, s, "cache-open", m.programLine(s, who, "null")...); err != nil {
		return err
	}
	k := key{Part: noCalls, Who: who, Op: noCalls, NP: s.np()}
	m.add(&row{key: k, Rep: m.rep, Figure: clock.seconds() * 1000, Away: clock.otherCores()})
	return nil
}
