package main

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// severalLimit is how long one job may take.
const severalLimit = 90 * time.Second

// severalHosts measures on all networks.
func (m *run) severalHosts(ctx context.Context) error {
	if m.hello == "" {
		return errors.New("several-hosts needs -hello FILE")
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
	for _, who := range m.turn("treerun", "openmpi", "mpich") {
		if n.name == "open" {
			m.start(ctx, where{h, hosts, 1}, who)
		}
	}
	return ctx.Err()
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
		line = append(append([]string{m.treerun}, w.ranks()...), "--tag-output=false", "--timeout", "120", m.hello)
	}
	clock := startWatch()
	if _, err := m.output(ctx, w, severalLimit, "cache-open", line...); err != nil {
		m.failed("start, "+who, err)
		return
	}
	k := key{Part: "start", Who: who, Op: "start", NP: w.np()}
	m.add(&row{key: k, Rep: m.rep, Figure: clock.seconds() * 1000, Away: clock.away()})
}
