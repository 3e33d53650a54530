package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/treerun/treerun/internal/testutil/nethosts"
	"github.com/treerun/treerun/scripts/internal/jobs"
	"github.com/treerun/treerun/scripts/internal/results"
)

const (
	hosts    = 8
	jobLimit = 3 * time.Minute

	// byAlgorithm has bench run one algorithm, where it knows the flag.
	byAlgorithm = "--algorithm"
)

// measurement measures AllReduce on hosts of which one has a slow card.
type measurement struct {
	treerun, about string
	repeat, rate   int // Mbit/s
	bytes          int64

	ways []string // the choice of treerun, and algorithms
	work string   // temporary folder
	out  bytes.Buffer
}

func (m *measurement) run(ctx context.Context) error {
	if err := nethosts.Missing(); err != nil {
		return fmt.Errorf("hosts cannot be made here: %w", err)
	}
	help, err := exec.CommandContext(ctx, m.treerun, "bench", "--help").Output()
	if err != nil {
		return err
	}
	m.ways = []string{chosen}
	if bytes.Contains(help, []byte(byAlgorithm)) {
		m.ways = append(m.ways, "ring")
	}
	if m.work, err = os.MkdirTemp("", "slow-card-"); err != nil {
		return err
	}
	defer os.RemoveAll(m.work)
	facts := append([]results.Fact{{Name: "begun", Value: results.Now()}}, results.Machine(m.about)...)
	for _, f := range append(facts, results.Fact{Name: rateFact, Value: fmt.Sprint(m.rate)}) {
		m.out.WriteString(f.Line())
	}
	for rep := 1; rep <= m.repeat; rep++ {
		for _, share := range shares {
			if err := m.on(ctx, rep, share); err != nil {
				return err
			}
		}
	}
	return nil
}

// on measures one repetition with a card that has a share of the others' rate.
func (m *measurement) on(ctx context.Context, rep int, share float64) error {
	rates := make([]string, hosts)
	for i := range rates {
		rates[i] = fmt.Sprintf("%dkbit", 1000*m.rate)
	}
	rates[hosts-1] = fmt.Sprintf("%.0fkbit", 1000*float64(m.rate)*share)
	h, err := nethosts.Make(hosts, nethosts.Options{Networks: []nethosts.Network{{Rates: rates}}})
	if err != nil {
		return err
	}
	defer h.Close()
	for i := range m.ways {
		who := m.ways[(i+rep)%len(m.ways)]
		watch := results.StartWatch()
		out, err := jobs.Output(ctx, h, jobLimit, m.command(h, who, part(share), rep == 1))
		if err != nil {
			return err
		}
		rows, err := jobs.Rows(out)
		if err != nil {
			return err
		}
		f := results.Figure{Part: part(share), Rep: rep, NP: hosts, Op: "allreduce", Bytes: m.bytes, Who: who,
			Value: rows[0].TimeUs, Away: watch.Away(), Plan: rows[0].Plan}
		m.out.WriteString(f.Line())
		fmt.Fprint(os.Stderr, f.Line())
	}
	return nil
}

// part names a share in the record.
func part(share float64) string { return fmt.Sprint(share) }

// command returns the benchmark on host 0, with every element compared or none.
func (m *measurement) command(h *nethosts.Hosts, who, cache string, check bool) *exec.Cmd {
	size, compare := fmt.Sprint(m.bytes), "0"
	if check {
		compare = "1"
	}
	args := []string{"bench", "-H", jobs.Slots(h, hosts, 1), "--launch-agent", h.Agent(),
		"--collective", "allreduce", "-b", size, "-e", size, "-n", "3", "-w", "1",
		"--max-seconds", "0", "--in-place=no", "-c", compare, "--json", "-"}
	if who != chosen {
		args = append(args, byAlgorithm, who)
	}
	cmd := h.Command(0, m.treerun, args...)
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(m.work, cache))
	return cmd
}
