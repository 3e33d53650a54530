package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/treerun/treerun/internal/testutil/nethosts"
	"github.com/treerun/treerun/scripts/internal/jobs"
	"github.com/treerun/treerun/scripts/internal/results"
)

// measurement measures cases.
type measurement struct {
	quick                 bool
	repeat, iterations    int
	treerun, peers, about string

	work   string // temporary folder
	record record
	rows   record // of all repetitions
}

// rate is that of every host's link.
const rate = "500mbit"

// jobLimit is how long one job may take.
const jobLimit = 170 * time.Second

func (m *measurement) fact(name, format string, args ...any) {
	m.record = slices.DeleteFunc(m.record, func(e entry) bool { return e.Fact == name })
	m.record = append(m.record, entry{Fact: name, Value: fmt.Sprintf(format, args...)})
}

func (m *measurement) run(ctx context.Context, list []testCase) (err error) {
	if err := nethosts.Missing(); err != nil {
		return fmt.Errorf("hosts cannot be made here: %w", err)
	}
	if m.work, err = os.MkdirTemp("", "sparse-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(m.work)) }()
	m.describe()
	h, err := nethosts.Make(4, nethosts.Options{Networks: []nethosts.Network{{Rates: []string{rate}}}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	for rep := range m.repeat {
		begin := time.Now()
		if done := m.repetition(ctx, h, list, rep == 0); !done {
			m.fact("stopped", "in repetition %d of %d", rep+1, m.repeat)
			break // what was measured counts
		}
		m.fact("repetitions", "%d", rep+1)
		fmt.Fprintf(os.Stderr, "repetition %d of %d: %.0f s\n", rep+1, m.repeat, time.Since(begin).Seconds())
	}
	m.record = m.record.with(m.rows)
	return nil
}

// repetition measures all cases once. It reports whether it came to the end.
func (m *measurement) repetition(ctx context.Context, h *nethosts.Hosts, list []testCase, first bool) bool {
	for i := range list {
		c := &list[i]
		if c.who != "treerun" && m.peers == "" {
			continue
		}
		if m.quick {
			c.bytes = min(c.bytes, 1<<20)
		}
		begin := time.Now()
		err := m.one(ctx, h, c, first)
		switch {
		case ctx.Err() != nil:
			return false
		case err != nil:
			m.fact("failed "+c.name, "%.300s", strings.ReplaceAll(err.Error(), "\n", " "))
			fmt.Fprintf(os.Stderr, "%s: %v\n", c.name, err)
		default:
			fmt.Fprintf(os.Stderr, "%s: %.1f s\n", c.name, time.Since(begin).Seconds())
		}
	}
	return true
}

func (m *measurement) describe() {
	m.fact("measured", "%s", results.Now())
	for _, f := range results.Machine(m.about) {
		m.fact(f.Name, "%s", f.Value)
	}
}

// one measures a case. With check it has the results compared.
func (m *measurement) one(ctx context.Context, h *nethosts.Hosts, c *testCase, check bool) error {
	line := m.command(h, c, check)
	cmd := h.Command(0, line[0], line[1:]...)
	if c.hosts == 1 {
		cmd = exec.Command(line[0], line[1:]...)
	}
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+m.work)
	watch := results.StartWatch()
	out, err := jobs.Output(ctx, h, jobLimit, cmd)
	if err != nil {
		return err
	}
	away := watch.Away()
	rows, err := rowsOf(c, out)
	if err != nil {
		return err
	}
	for _, e := range rows {
		e.Away = away
		m.rows = append(m.rows, e)
	}
	return nil
}

// command returns the command line of a case, for host 0.
func (m *measurement) command(h *nethosts.Hosts, c *testCase, check bool) []string {
	perf := []string{"-j", "-o", "allreduce", "-b", fmt.Sprint(c.bytes), "-e", fmt.Sprint(c.bytes), "-n", fmt.Sprint(m.iterations), "-w", "1", "-c", "0", "-i"}
	slots := jobs.Slots(h, c.hosts, c.perHost)
	bin := func(name string) string { return filepath.Join(m.peers, "bin", name) }
	name, setting, _ := strings.Cut(c.who, ":")
	switch name {
	case "openmpi":
		return append(append(jobs.OpenMPI(h, slots, c.np(), setting == "ring"), bin("mpi_perf.openmpi")), perf...)
	case "mpich":
		return append(append(jobs.MPICH(h, slots, c.np(), bin("mpich_shim.so")), bin("mpi_perf.mpich")), perf...)
	}
	line := []string{m.treerun, "bench"}
	if c.hosts == 1 {
		line = append(line, "-np", fmt.Sprint(c.perHost))
	} else {
		line = append(line, "-H", slots, "--launch-agent", h.Agent())
	}
	return append(line, c.bench(m.iterations, check)...)
}

// rowsOf returns what a benchmark has printed as entries of a record.
func rowsOf(c *testCase, out []byte) (record, error) {
	rows, err := jobs.Rows(out)
	var all record
	for _, b := range rows {
		e := entry{Case: c.row(""), TimeUs: b.TimeUs, InPlace: b.InPlace, FloorUs: b.FloorUs, Form: b.Plan, Verified: b.Wrong != nil}
		if b.PredictedUs != nil {
			e.Predict = *b.PredictedUs
		}
		if s := b.Sparse; s != nil {
			e.Case = c.row(s.Overlap)
			e.Density, e.Form, e.Union, e.Sent, e.FindUs = s.Density, s.Form, s.Union, s.Sent, s.FindUs
		}
		all = append(all, e)
	}
	return all, err
}
