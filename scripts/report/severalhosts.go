package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/treerun/treerun/internal/testutil/nethosts"
)

// severalLimit is how long one job may take.
const severalLimit = 90 * time.Second

// severalHosts measures on all networks.
func (m *run) severalHosts(ctx context.Context) error {
	if m.hello == "" || m.train == "" {
		return errors.New("several-hosts needs -hello FILE and -train FILE")
	}
	for name, command := range map[string]string{"Open MPI": "mpirun.openmpi", "MPICH": "mpirun.mpich"} {
		if m.peers == "" {
			continue
		}
		out, _ := exec.Command(command, "--version").Output()
		for word := range strings.FieldsSeq(string(out)) {
			if strings.Contains(word, ".") && strings.Trim(word, "0123456789.") == "" {
				m.fact(name, "%s", word)
				break
			}
		}
	}
	m.fact("repetitions", "%d, at most %g s of timed iterations a row of small messages", m.repeat, m.seconds)
	all := networks()
	if m.quick {
		all = quickly(all)
	}
	return m.repetitions(ctx, func() error {
		for _, n := range all {
			if len(m.only) > 0 && !slices.Contains(m.only, n.name) {
				continue
			}
			if err := m.on(ctx, n); err != nil {
				return err
			}
		}
		return nil
	})
}

// on measures one repetition on one network.
func (m *run) on(ctx context.Context, n network) (err error) {
	h, err := makeHosts(hosts, n.Network)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	if err := m.flows(h, n); err != nil {
		return err
	}
	for _, g := range n.groups {
		if g.most > 0 && m.rep > g.most {
			continue
		}
		for _, who := range m.turn(g.who...) {
			m.group(ctx, n.name, where{h, hosts, g.perHost}, who, g.load)
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	switch {
	case n.name == "open":
		for _, who := range m.turn("treerun", "openmpi", "mpich") {
			m.start(ctx, where{h, hosts, 1}, who)
		}
	case n.name == "even2" && m.rep == 1:
		return m.training(ctx, where{h, hosts, 2})
	}
	return ctx.Err()
}

// flows measures plain TCP flows, one after the other.
func (m *run) flows(h *nethosts.Hosts, n network) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	pairs := n.pairs
	for i := 0; n.pairs == nil && i < hosts*hosts; i++ {
		if from, to := i/hosts, i%hosts; from != to {
			pairs = append(pairs, [2]int{from, to})
		}
	}
	if m.quick && n.pairs != nil {
		pairs = pairs[:1]
	}
	for _, p := range pairs {
		bits, err := flow(h, self, p[0], p[1])
		if err != nil {
			return err
		}
		k := key{Part: n.name, Who: "tcp", Op: fmt.Sprintf("flow-%d-%d", p[0], p[1]), NP: hosts}
		m.add(&row{key: k, Rep: m.rep, Figure: bits / 1e6})
	}
	return nil
}

// group runs one job of one implementation, again if it fails; then that is noted.
func (m *run) group(ctx context.Context, network string, w where, who string, l load) {
	if l.iters == 0 {
		l.iters, l.seconds = 200, m.seconds
	}
	l.check, l.inPlace = m.rep == 1, "no"
	lines := [][]string{m.peer(w, who, "perf", l.perf())}
	if who == "treerun" {
		lines = nil
		for op := range strings.SplitSeq(l.ops, ",") {
			// As the peers: MPI_Bcast is always in place.
			l.ops, l.inPlace = op, map[bool]string{true: "yes", false: "no"}[op == "broadcast"]
			lines = append(lines, append([]string{m.treerun}, l.bench(w.ranks()...)...))
		}
	}
	for _, line := range lines {
		err := errors.New("not run")
		for try := 0; try < 2 && err != nil && !errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil; try++ {
			err = m.job(ctx, w, severalLimit, key{Part: network, Who: who}, line...)
		}
		if err != nil && ctx.Err() == nil {
			m.failed(network+", "+who, err)
			return
		}
	}
}

// start measures an empty job from start to finish, in milliseconds.
func (m *run) start(ctx context.Context, w where, who string) {
	line := m.peer(w, who, "null", nil)
	if who == "treerun" {
		line = append(m.program(w.ranks()), m.hello)
	}
	clock := startWatch()
	if _, err := m.output(ctx, w, severalLimit, "cache-open", line...); err != nil {
		m.failed("start, "+who, err)
		return
	}
	k := key{Part: "start", Who: who, Op: "start", NP: w.np()}
	m.add(&row{key: k, Rep: m.rep, Figure: clock.seconds() * 1000, Away: clock.away()})
}

// program returns the command line of a job of treerun without the program.
func (m *run) program(ranks []string) []string {
	return append(append([]string{m.treerun}, ranks...), "--tag-output=false", "--timeout", "120")
}

// training trains on all hosts and on one, and notes by how much the losses differ.
func (m *run) training(ctx context.Context, w where) error {
	const fashion = "/usr/share/datasets/fashion-mnist"
	args, data := []string{"--epochs", "10"}, "the digits, 10 epochs"
	if _, err := os.Stat(fashion); err == nil && !m.quick {
		args, data = []string{"--data", fashion, "--epochs", "2"}, "Fashion-MNIST, 2 epochs"
	}
	var curves [2][]float64
	var seconds [2]float64
	for i, on := range []where{w, {w.h, 1, w.np()}} {
		file := filepath.Join(m.work, fmt.Sprint("loss-", i))
		clock := startWatch()
		line := append(append(m.program(on.ranks()), m.train, "--loss-log", file), args...)
		if _, err := m.output(ctx, w, severalLimit, "cache-even2", line...); err != nil {
			m.failed("training", err)
			return ctx.Err()
		}
		seconds[i] = clock.seconds()
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if curves[i], err = losses(string(text)); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	m.fact("training", "%s: losses %v on %d hosts x %d ranks (%.1f s), %v on one host with %d (%.1f s); largest "+
		"difference %.2g",
		data, curves[0], w.hosts, w.perHost, seconds[0], curves[1], w.np(), seconds[1], apart(curves[0], curves[1]))
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

// apart returns the largest difference between two curves, relative to the
// second one's values; infinite where they have not as many.
func apart(a, b []float64) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	most := 0.0
	for i := range a {
		most = max(most, math.Abs(a[i]-b[i])/math.Abs(b[i]))
	}
	return most
}
