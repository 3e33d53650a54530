package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/treerun/treerun/internal/testutil/nethosts"
	"github.com/treerun/treerun/scripts/internal/jobs"
	"github.com/treerun/treerun/scripts/internal/results"
)

// jobLimit is how long one job may take.
const jobLimit = 90 * time.Second

// measurement measures everything.
type measurement struct {
	quick                 bool
	repeat                int
	cap                   float64
	only                  []string
	treerun, hello, train string // executables
	peers                 string
	about                 string

	work string // temporary folder
	self string // this executable
	rep  int
	out  bytes.Buffer
}

func (m *measurement) text() []byte { return m.out.Bytes() }

// fact notes a line about the machine or the run.
func (m *measurement) fact(name, format string, args ...any) {
	m.out.WriteString(results.Fact{Name: name, Value: fmt.Sprintf(format, args...)}.Line())
}

// figure notes one figure of this repetition.
func (m *measurement) figure(f results.Figure) {
	f.Rep = m.rep
	m.out.WriteString(f.Line())
}

func (m *measurement) run(ctx context.Context) error {
	if err := nethosts.Missing(); err != nil {
		return fmt.Errorf("hosts cannot be made here: %w", err)
	}
	var err error
	if m.self, err = os.Executable(); err != nil {
		return err
	}
	if m.work, err = os.MkdirTemp("", "several-hosts-"); err != nil {
		return err
	}
	defer os.RemoveAll(m.work)
	m.describe()
	all := networks()
	if m.quick {
		all = quickly(all)
	}
	for m.rep = 1; m.rep <= m.repeat; m.rep++ {
		begin := time.Now()
		load, _ := os.ReadFile("/proc/loadavg")
		whole := m.out.Len()
		for _, n := range all {
			if len(m.only) == 0 || slices.Contains(m.only, n.name) {
				if err := m.on(ctx, n); err != nil && ctx.Err() != nil && m.rep > 1 {
					m.out.Truncate(whole) // stopped: what is whole counts
					m.fact("stopped", "in repetition %d", m.rep)
					return nil
				} else if err != nil {
					return err
				}
			}
		}
		m.fact("repetition", "%d: load before %.14s, %.0f s", m.rep, load, time.Since(begin).Seconds())
		fmt.Fprintf(os.Stderr, "repetition %d of %d: %.0f s\n", m.rep, m.repeat, time.Since(begin).Seconds())
	}
	return nil
}

// describe notes the machine and the versions.
func (m *measurement) describe() {
	m.fact("begun", "%s", results.Now())
	for _, f := range results.Machine(m.about) {
		m.fact(f.Name, "%s", f.Value)
	}
	for name, command := range map[string]string{"Open MPI": "mpirun.openmpi", "MPICH": "mpirun.mpich"} {
		if m.peers == "" {
			continue
		}
		out, _ := exec.Command(command, "--version").Output()
		for word := range strings.FieldsSeq(string(out)) {
			if strings.Count(word, ".") >= 1 && strings.Trim(word, "0123456789.") == "" {
				m.fact(name, "%s", word)
				break
			}
		}
	}
	m.fact("repetitions", "%d, at most %g s of timed iterations a row of small messages", m.repeat, m.cap)
}

// on measures one repetition on one network.
func (m *measurement) on(ctx context.Context, n network) error {
	h, err := nethosts.Make(hosts, nethosts.Options{Networks: []nethosts.Network{n.Network}})
	if err != nil {
		return err
	}
	defer h.Close()
	cache := filepath.Join(m.work, "cache-"+n.name)
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return err
	}
	if err := m.flows(h, n); err != nil {
		return err
	}
	for _, g := range n.groups {
		if g.least > 0 && m.rep > g.least {
			continue
		}
		for _, who := range m.turn(g.who) {
			if err := ctx.Err(); err != nil {
				return err
			}
			m.group(ctx, n.name, &job{h: h, who: who, group: g, check: m.rep == 1, cap: m.cap, cache: cache})
		}
	}
	switch n.name {
	case "open":
		for _, who := range m.turn([]string{"treerun", "openmpi", "mpich"}) {
			m.start(ctx, &job{h: h, who: who, group: group{perHost: 1}, cache: cache})
		}
	case "even2":
		if m.rep == 1 {
			return m.training(ctx, &job{h: h, who: "treerun", group: group{perHost: 2}, cache: cache})
		}
	}
	return ctx.Err()
}

// turn returns those that take part, in this repetition's order.
func (m *measurement) turn(who []string) []string {
	var all []string
	for _, w := range who {
		if w == "treerun" || m.peers != "" {
			all = append(all, w)
		}
	}
	if len(all) == 0 {
		return nil
	}
	k := (m.rep - 1) % len(all)
	return append(slices.Clone(all[k:]), all[:k]...)
}

// flows measures plain TCP flows, one after the other.
func (m *measurement) flows(h *nethosts.Hosts, n network) error {
	pairs := n.pairs
	if pairs == nil {
		for i := range hosts {
			for j := range hosts {
				if i != j {
					pairs = append(pairs, [2]int{i, j})
				}
			}
		}
	}
	for _, p := range pairs {
		if m.quick && p != pairs[0] && n.Mesh == nil {
			continue
		}
		bits, err := flow(h, m.self, p[0], p[1])
		if err != nil {
			return err
		}
		m.figure(results.Figure{Part: n.name, NP: hosts, Op: fmt.Sprintf("flow-%d-%d", p[0], p[1]), Who: "tcp", Value: bits / 1e6})
	}
	return nil
}

// group runs one job of one implementation, again if it fails; then that is
// noted.
func (m *measurement) group(ctx context.Context, name string, j *job) {
	for _, line := range m.commands(j) {
		var all []jobs.Row
		var away float64
		err := errors.New("not run")
		for try := 0; try < 2 && err != nil && !errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil; try++ {
			begin := results.StartWatch()
			var out []byte
			if out, err = m.output(ctx, j, line); err == nil {
				all, err = jobs.Rows(out)
			}
			away = begin.Away()
		}
		if err != nil {
			if ctx.Err() == nil {
				m.failed(name, j, err)
			}
			return
		}
		for _, r := range all {
			m.figure(results.Figure{Part: name, NP: j.np(), Op: r.Op, Bytes: r.Bytes, Who: j.who, Value: r.TimeUs, Away: away, Plan: r.Plan})
		}
	}
}

func (m *measurement) failed(name string, j *job, err error) {
	m.fact("failed", "%s, %s: %.300s", name, j.who, err)
	fmt.Fprintf(os.Stderr, "failed on %s: %v\n", name, err)
}

// start measures an empty job from start to finish, in milliseconds.
func (m *measurement) start(ctx context.Context, j *job) {
	begin := results.StartWatch()
	if _, err := m.output(ctx, j, m.empty(j)); err != nil {
		m.failed("start", j, err)
		return
	}
	m.figure(results.Figure{Part: "start", NP: j.np(), Op: "start", Who: j.who, Value: begin.Elapsed().Seconds() * 1000, Away: begin.Away()})
}

// training trains on all hosts and on one, and notes by how much the losses
// differ.
func (m *measurement) training(ctx context.Context, j *job) error {
	const fashion = "/usr/share/datasets/fashion-mnist"
	args := []string{"--epochs", "10"}
	data := "the digits, 10 epochs"
	if _, err := os.Stat(fashion); err == nil && !m.quick {
		args, data = []string{"--data", fashion, "--epochs", "2"}, "Fashion-MNIST, 2 epochs"
	}
	var curves [2][]float64
	var seconds [2]float64
	for i, where := range []string{"hosts", "one"} {
		file := filepath.Join(m.work, "loss-"+where)
		line := append(append(m.job(j), m.train, "--loss-log", file), args...)
		if where == "one" {
			line[2] = fmt.Sprintf("%s:%d", j.h.Name(0), j.np())
		}
		begin := results.StartWatch()
		if _, err := m.output(ctx, j, line); err != nil {
			m.failed("training", j, err)
			return ctx.Err()
		}
		seconds[i] = begin.Elapsed().Seconds()
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if curves[i], err = losses(string(text)); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	m.fact("training", "%s: losses %v on %d hosts x %d ranks (%.1f s), %v on one host with %d (%.1f s); largest difference %.2g",
		data, curves[0], hosts, j.group.perHost, seconds[0], curves[1], j.np(), seconds[1], apart(curves[0], curves[1]))
	return nil
}

// losses reads the lines "epoch loss accuracy" of examples/train.
func losses(text string) ([]float64, error) {
	var all []float64
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 || strings.HasPrefix(line, "#") {
			continue
		}
		v, err := strconv.ParseFloat(f[1], 64)
		if err != nil {
			return nil, fmt.Errorf("loss %q: %w", f[1], err)
		}
		all = append(all, v)
	}
	if len(all) == 0 {
		return nil, errors.New("no losses")
	}
	return all, nil
}
