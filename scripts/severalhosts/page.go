package main

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"github.com/treerun/treerun/scripts/internal/plots"
	"github.com/treerun/treerun/scripts/internal/results"
)

const (
	pageName = "several-hosts.md"
	plotName = "several-hosts.svg"
)

// order is that of columns and legends.
var order = []string{"treerun", "openmpi", "openmpi:ring", "mpich", "gloo", "gloo:hd"}

// chapter is what the page says of a network.
type chapter struct {
	network, title, text string
	goals                map[string]float64 // shares of the bound that treerun is to reach, from 'from' on
	from                 int64
}

var chapters = []chapter{
	{"even", "Even: four hosts, 500 Mbit/s each", "A switch with four hosts, one rank each; every host sends and receives at most 500 Mbit/s.\n" +
		"The bound of AllReduce is 2(n-1)/n S / B, that of Broadcast S / B, with the rate B of one plain flow.", map[string]float64{"allreduce": 0.95, "broadcast": 0.90}, 4 * mib},
	{"even2", "The same, two ranks on each host", "Eight ranks; the bound is that of one rank per host.", map[string]float64{}, 4 * mib},
	{"mesh", "Mesh: six links of 100 to 800 Mbit/s", "Every pair of hosts has a link of its own. The bound of AllReduce is what spanning trees can carry at once (Tutte and\n" +
		"Nash-Williams), that of Broadcast the least cut, both with the rates of plain flows over each link, measured in the same run.", map[string]float64{"allreduce": 0.90, "broadcast": 0.90}, 16 * mib},
	{"uneven", "Uneven cards: 800, 400, 200 and 100 Mbit/s", "A switch; host 0 has the fastest card. No message can be done with faster than the slowest card takes it.", map[string]float64{"allreduce": 0.90, "broadcast": 0.90}, 4 * mib},
	{"open", "Unshaped", "Four hosts on a switch without limits: the cores are the limit.", nil, 0},
}

// writer writes the page.
type writer struct {
	record
	results.Page
}

// page returns the files of the page, by name.
func page(r record) (map[string][]byte, error) {
	if len(r.Figures) == 0 {
		return nil, fmt.Errorf("nothing was measured")
	}
	w := &writer{record: r}
	w.head()
	w.summary()
	for _, c := range chapters {
		w.chapter(c)
	}
	w.start()
	w.training()
	svg, err := drawn(r)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{pageName: append(bytes.TrimRight(w.Bytes(), "\n"), '\n'), plotName: svg}, nil
}

func (w *writer) head() {
	w.Line("# Several hosts: treerun beside Open MPI, MPICH and Gloo")
	w.Line("`scripts/several-hosts.sh` measured this, and `scripts/several-hosts.sh page` writes the page again from\n" +
		"[several-hosts.tsv](several-hosts.tsv). The hosts are network namespaces of one machine (package `internal/testutil/nethosts`): links are shaped\n" +
		"by token buckets at both ends, no delay is added, and all hosts share its cores. Messages below 256 KiB pass a shaped link\n" +
		"as a burst. Times are medians over the repetitions of the median over a job's iterations, each as long as on its slowest rank\n" +
		"and from its own exit of a barrier; in the first repetition every element was compared. float32, sum, not in place\n" +
		"(Broadcast: in place), root 0. \"Mbit/s\" is the size of the message over the time.")
	w.Line("\"ratio\" is the time of the best peer over that of treerun: above 1 treerun is faster; **bold** marks where it is slower, or\n" +
		"where its share of the bound is below the goal. The peers have their default settings, and those for AllReduce that are known to\n" +
		"be better somewhere: Open MPI's ring, Gloo's halving-doubling (hd). Open MPI runs with `mpi_yield_when_idle`, MPICH with a shim that\n" +
		"yields (both would else wait without giving up the cores, which the hosts share).")
	rows := [][]string{{"run", ""}}
	for _, f := range w.Facts {
		if f.Name != "training" {
			rows = append(rows, []string{f.Name, strings.ReplaceAll(f.Value, "|", "/")})
		}
	}
	if row := results.AwayRow(w.Pick(func(f *results.Figure) bool { return !strings.HasPrefix(f.Op, "flow") })); row != nil {
		rows = append(rows, row)
	}
	w.Table(rows)
	w.Line("![time over size](%s)", plotName)
}

// summary says in one table how each goal was met.
func (w *writer) summary() {
	rows := [][]string{{"network", "collective", "size", "treerun, Mbit/s", "bound, Mbit/s", "share", "goal", "best peer, Mbit/s", "ratio"}}
	for _, c := range chapters {
		for _, op := range []string{"allreduce", "broadcast"} {
			goal, has := c.goals[op]
			if !has {
				continue
			}
			bound := w.bound(c.network, op)
			for _, bytes := range w.sizes(c.network, op) {
				mine := w.cell(c.network, op, bytes, "treerun")
				if bytes < c.from || math.IsNaN(mine) {
					continue
				}
				best, who := w.best(c.network, op, bytes)
				rows = append(rows, []string{c.network, op, results.Size(bytes), results.Number(rate(bytes, mine)), results.Number(bound), results.Below(rate(bytes, mine)/bound, goal), fmt.Sprintf("%.2f", goal),
					strings.TrimSpace(results.Number(rate(bytes, best)) + " " + plots.Title(who)), results.Below(best/mine, 1)})
			}
		}
	}
	if len(rows) > 1 {
		w.Line("## The goals for large messages")
		w.Table(rows)
	}
}

// chapter writes the tables of one network.
func (w *writer) chapter(c chapter) {
	if len(w.sizes(c.network, "allreduce"))+len(w.sizes(c.network, "broadcast")) == 0 {
		return
	}
	w.Line("## %s", c.title)
	w.Line("%s", c.text)
	w.flows(c.network)
	for _, op := range []string{"allreduce", "broadcast"} {
		w.sweep(c, op)
	}
}

// flows writes the rates of plain flows.
func (w *writer) flows(network string) {
	var all []string
	for i := range hosts {
		for j := range hosts {
			if v := w.flow(network, i, j); !math.IsNaN(v) {
				all = append(all, fmt.Sprintf("%d to %d: %s", i, j, results.Number(v)))
			}
		}
	}
	if len(all) > 0 {
		w.Line("One plain TCP flow, Mbit/s of payload: %s.", strings.Join(all, ", "))
	}
}

// sweep writes the table of one operation.
func (w *writer) sweep(c chapter, op string) {
	sizes := w.sizes(c.network, op)
	if len(sizes) == 0 {
		return
	}
	who := w.who(c.network, op)
	bound := w.bound(c.network, op)
	head := []string{op + " (µs)"}
	for _, x := range who {
		head = append(head, plots.Title(x))
	}
	head = append(head, "plan", "ratio")
	if !math.IsNaN(bound) {
		head = append(head, "Mbit/s", "share of bound")
	}
	rows := [][]string{head}
	var ratios []float64
	var slower []string
	for _, bytes := range sizes {
		mine := w.cell(c.network, op, bytes, "treerun")
		best, _ := w.best(c.network, op, bytes)
		row := []string{results.Size(bytes)}
		for _, x := range who {
			row = append(row, results.Number(w.cell(c.network, op, bytes, x)))
		}
		row = append(row, w.plan(c.network, op, bytes), results.Below(best/mine, 1))
		if !math.IsNaN(bound) {
			row = append(row, results.Number(rate(bytes, mine)), w.share(c, op, bytes, rate(bytes, mine)/bound))
		}
		rows = append(rows, row)
		if r := best / mine; !math.IsNaN(r) {
			ratios = append(ratios, r)
			if r < 1 {
				slower = append(slower, results.Size(bytes))
			}
		}
	}
	w.Table(rows)
	if !math.IsNaN(bound) {
		w.Line("Bound: %s Mbit/s.", results.Number(bound))
	}
	if len(ratios) > 0 {
		w.Line("Geometric mean of the ratios: %.2f. Slower than the best peer at: %s.", results.Geometric(ratios), results.Sizes(slower))
	}
}

// share writes the share of the bound where it means something: bursts do not.
func (w *writer) share(c chapter, op string, bytes int64, v float64) string {
	if bytes < mib {
		return ""
	}
	goal := 0.0
	if bytes >= c.from {
		goal = c.goals[op]
	}
	return results.Below(v, goal)
}

// start writes the time of an empty job.
func (w *writer) start() {
	mine := w.cell("start", "start", 0, "treerun")
	if math.IsNaN(mine) {
		return
	}
	w.Line("## A job from start to finish")
	rows := [][]string{{"hosts", "treerun (ms)", "Open MPI (ms)", "MPICH (ms)", "Open MPI / treerun"}}
	ompi := w.cell("start", "start", 0, "openmpi")
	rows = append(rows, []string{fmt.Sprint(hosts), results.Number(mine), results.Number(ompi), results.Number(w.cell("start", "start", 0, "mpich")), results.Below(ompi/mine, 2)})
	w.Table(rows)
	w.Line("From the launcher on host 0, with the namespaces' launch agent in place of ssh, one rank per host. treerun: `examples/hello`, which\n" +
		"makes a communicator and passes a barrier. MPI: `MPI_Init` and `MPI_Finalize`. The goal is 2.")
}

// training writes what examples/train found.
func (w *writer) training() {
	for _, f := range w.Facts {
		if f.Name == "training" {
			w.Line("## Training on several hosts and on one")
			w.Line("`examples/train` with the same ranks on four hosts and on one: %s.", strings.TrimSuffix(f.Value, "."))
		}
	}
}

// rate returns bytes in microseconds as Mbit/s.
func rate(bytes int64, us float64) float64 { return float64(bytes) * 8 / us }
