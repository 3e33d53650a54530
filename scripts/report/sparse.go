package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/treerun/treerun/internal/testutil/nethosts"
)

// testCase is one job of one benchmark.
type testCase struct {
	hosts   int // 1: this one, unshaped
	perHost int
	// who is a peer; "plain", treerun's dense AllReduce; or the form of a sparse one:
	// "price", by price; one of forms; or "own", aggregators on ranks of their own.
	who      string
	what     string // which part of a form's densities and overlaps, "" for all
	overlaps string // list; "" for a dense AllReduce
	density  string // list
}

const (
	sweep = "1,.8,.4,.2,.1,.08,.04,.02,.01"
	few   = "1,.1,.01"
	rare  = ".1,.01" // dense input runs as the dense plan

	// paperBytes is the message of the paper: 26,214,400 floats.
	paperBytes = 104857600

	own = "own"
)

var mpis = []string{"openmpi", "openmpi:ring", "mpich"}

// forms are those that ranks on so many hosts can choose between, beside the dense plan.
func forms(hosts int) []string {
	if hosts == 1 {
		return []string{"trees", "aggregators", "shared"}
	}
	return []string{"trees", "aggregators"}
}

// set names the ranks of a case: "4x2" for four hosts with two each.
func (c *testCase) set() string { return fmt.Sprintf("%dx%d", c.hosts, c.perHost) }

func (c *testCase) name() string { return strings.TrimSuffix(c.set()+"-"+c.who+"-"+c.what, "-") }

// cases returns all, in the order in which they are measured.
func cases() []testCase {
	var all []testCase
	for _, perHost := range []int{2, 1} {
		first, others := sweep, "full,none"
		if perHost == 1 {
			first, others = few, "full"
		}
		all = append(all, testCase{4, perHost, "plain", "", "", ""}, testCase{4, perHost, "price", "random", "random", first},
			testCase{4, perHost, "price", "others", others, rare})
		for _, form := range forms(4) {
			all = append(all, testCase{4, perHost, form, "", "random," + others, rare})
		}
	}
	all = append(all, testCase{4, 2, own, "", "random", ".01"}, testCase{1, 4, own, "", "random", rare})
	for _, who := range mpis {
		all = append(all, testCase{4, 2, who, "", "", ""})
	}
	for _, np := range []int{2, 4, 8} {
		all = append(all, testCase{1, np, "plain", "", "", ""}, testCase{1, np, "price", "", "random,full", few})
		for _, form := range forms(1) {
			all = append(all, testCase{1, np, form, "", "random,full", rare})
		}
	}
	return all
}

// chosenCases returns the cases with these names; one that ends in * stands for all that
// begin so. No names stand for all cases.
func chosenCases(list []testCase, names []string) ([]testCase, error) {
	if len(names) == 0 {
		return list, nil
	}
	var out []testCase
	for _, name := range names {
		before := len(out)
		for _, c := range list {
			begin, open := strings.CutSuffix(name, "*")
			if c.name() == name || open && strings.HasPrefix(c.name(), begin) {
				out = append(out, c)
			}
		}
		if len(out) == before {
			return nil, fmt.Errorf("no case %q", name)
		}
	}
	return out, nil
}

// measures reports whether a row is one of the case's.
func (c *testCase) measures(v *row) bool {
	return v.Part == c.set() && v.Who == c.who &&
		(v.Sparse == nil || slices.Contains(strings.Split(c.overlaps, ","), v.Sparse.Overlap))
}

// sparse measures all cases on four hosts and on this one.
func (m *run) sparse(ctx context.Context) (err error) {
	list, err := chosenCases(cases(), m.only)
	if err != nil {
		return err
	}
	m.rows = slices.DeleteFunc(m.rows, func(v *row) bool {
		return slices.ContainsFunc(list, func(c testCase) bool { return c.measures(v) })
	})
	h, err := makeHosts(hosts, nethosts.Network{Rates: []string{"500mbit"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	return m.repetitions(ctx, func() error {
		for i := range list {
			c := &list[i]
			if len(m.turn(c.who)) == 0 {
				continue // a peer, of which there is no kit
			}
			if err := m.one(ctx, h, c); err != nil && ctx.Err() == nil {
				m.failed(c.name(), err)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return nil
	})
}

// one measures a case once.
func (m *run) one(ctx context.Context, h *nethosts.Hosts, c *testCase) error {
	w := where{h, c.hosts, c.perHost}
	l := load{ops: "allreduce", begin: paperBytes, iters: m.iterations, warmup: 1, inPlace: "yes", check: m.rep == 1}
	if c.hosts == 1 {
		w.h, l.begin, l.iters, l.warmup = nil, 64*mib, 9, 2
		l.inPlace = map[bool]string{true: "yes", false: "both"}[c.who == own]
	}
	if m.quick {
		l.begin = mib
	}
	l.end, l.factor = l.begin, 2
	var line []string
	switch {
	case slices.Contains(mpis, c.who):
		l.check = false
		line = m.peer(w, c.who, "perf", l.perf())
	case c.overlaps == "":
		line = append([]string{m.treerun}, l.bench(w.ranks()...)...)
	default:
		l.ops = "sparse-allreduce"
		more := []string{"--density", c.density, "--overlap", c.overlaps}
		switch c.who {
		case "price":
		case own:
			more = append(more, "--form", "aggregators", "--aggregators", "4")
		default:
			more = append(more, "--form", c.who)
		}
		line = append([]string{m.treerun}, l.bench(append(w.ranks(), more...)...)...)
	}
	return m.job(ctx, w, 170*time.Second, key{Part: c.set(), Who: c.who}, line...)
}
