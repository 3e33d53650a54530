package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/treerun/treerun/scripts/internal/results"
)

// page returns the files of the page, by name.
func page(r record) (map[string][]byte, error) {
	if len(r.Figures) == 0 {
		return nil, fmt.Errorf("nothing was measured: run scripts/one-host.sh")
	}
	files := make(map[string][]byte)
	b := &writer{record: r}
	b.head()
	for _, s := range []struct{ op, title string }{{"allreduce", "AllReduce"}, {"broadcast", "Broadcast"}} {
		if len(r.ranks("sweep")) == 0 {
			break // a cut-off record
		}
		name := "one-host-" + s.op + ".svg"
		svg, err := drawn(r, s.op, s.title+", float32, one host", r.ranks("sweep"))
		if err != nil {
			return nil, err
		}
		files[name] = svg
		b.Line("## %s", s.title)
		b.Line("![time over size](%s)", name)
		for _, np := range r.ranks("sweep") {
			b.sweep(s.op, s.title, np)
		}
	}
	b.settings()
	b.latency()
	b.others()
	b.flight()
	b.limits()
	b.rest()
	files["one-host.md"] = b.Bytes()
	return files, nil
}

// writer writes the page, paragraph by paragraph.
type writer struct {
	record
	results.Page
}

func (b *writer) head() {
	b.Line("# One host: treerun beside Open MPI, MPICH and Gloo")
	b.Line("`scripts/one-host.sh` measured this, and `scripts/one-host.sh page` writes the page again from\n[one-host.tsv](one-host.tsv). Times are microseconds where no other unit stands, smaller is better, medians over the repetitions\n" +
		"of the median over a run's iterations, each as long as on its slowest rank and from its own exit of a barrier. All buffers are\n" +
		"ordinary memory (Go slices), except in the column \"Alloc\", where they come from `collective.Alloc`. float32, sum, not in place\n(Broadcast: in place), root 0.")
	b.Line("\"ratio\" is the time of the best peer over that of treerun: above 1 treerun is faster. **Bold** marks where treerun is slower.")
	b.Line("Peers have their default settings; MPICH runs with `mpich_shim.so` where ranks exceed cores (else it waits without ever\nyielding a core), Open MPI with `--oversubscribe --bind-to none`, Gloo over TCP of this host.")
	b.Line("What is missed, why, and what was tried: [one-host-why.md](one-host-why.md).")
	rows := [][]string{{"run", ""}}
	for _, f := range b.Facts {
		rows = append(rows, []string{f.Name, f.Value})
	}
	rows = append(rows, results.AwayRow(b.Pick(everything)))
	b.Table(rows)
}

// sweep writes the table of one operation and number of ranks.
func (b *writer) sweep(op, title string, np int) {
	b.Line("### %s, np = %d", title, np)
	rows := [][]string{{"size", "treerun", "plan", "Open MPI", "MPICH", "Gloo", "ratio", "Alloc", "ratio of Alloc"}}
	var ratios, alloc, large []float64
	var slower []string
	for _, bytes := range b.sizes("sweep", op, np) {
		get := func(who string) float64 { return b.cell("sweep", op, np, bytes, who) }
		best, _ := b.best("sweep", op, np, bytes)
		ratio, of := best/get("treerun"), best/get("treerun-alloc")
		ratios, alloc = append(ratios, ratio), append(alloc, of)
		if bytes >= 1<<20 {
			large = append(large, ratio)
		}
		if ratio < 1 {
			slower = append(slower, results.Size(bytes))
		}
		rows = append(rows, []string{results.Size(bytes), results.Number(get("treerun")), b.planOf(op, np, bytes), results.Number(get("openmpi")),
			results.Number(get("mpich")), results.Number(get("gloo")), results.Below(ratio, 1), results.Number(get("treerun-alloc")), results.Below(of, 1)})
	}
	b.Table(rows)
	b.Line("Geometric mean of the ratios: %s; of Alloc: %s; from 1 MiB up: %s, least %s. Slower than the best peer at: %s.",
		results.Ratio(results.Geometric(ratios)), results.Ratio(results.Geometric(alloc)), results.Ratio(results.Geometric(large)), results.Ratio(least(large)), results.Sizes(slower))
}

func (b *writer) planOf(op string, np int, bytes int64) string {
	list := b.of("sweep", op, np, func(f *results.Figure) bool { return f.Bytes == bytes && f.Who == "treerun" })
	return strings.Join(results.Distinct(list, func(f *results.Figure) string { return f.Plan }), ", ")
}

// settings compares with the best of all settings, if they were measured.
func (b *writer) settings() {
	b.Line("## Against the best of all settings")
	if len(b.ranks("settings")) == 0 {
		b.Line("Not measured: `scripts/one-host.sh settings` adds it.")
		return
	}
	b.Line("The best peer with any setting: those of the kit's `run_openmpi.sh --set`, `collsm` (`coll_sm_priority 90`), MPICH `nolocal`,\n" +
		"Gloo's other algorithms, and the defaults above. treerun is from the same minutes as the settings.")
	for _, op := range []string{"allreduce", "broadcast"} {
		for _, np := range b.ranks("settings") {
			rows := [][]string{{op + ", np = " + fmt.Sprint(np), "treerun", "best peer", "which", "ratio"}}
			var ratios []float64
			var below []string
			for _, bytes := range b.sizes("settings", op, np) {
				best, who := b.best("settings", op, np, bytes)
				if v, other := b.best("sweep", op, np, bytes); v < best || math.IsNaN(best) {
					best, who = v, other
				}
				mine := b.cell("settings", op, np, bytes, "treerun")
				ratios = append(ratios, best/mine)
				if best/mine < 0.9 {
					below = append(below, results.Size(bytes))
				}
				rows = append(rows, []string{results.Size(bytes), results.Number(mine), results.Number(best), who, results.Below(best/mine, 1)})
			}
			b.Table(rows)
			b.Line("Geometric mean of the ratios: %s. Below 0.9 at: %s.", results.Ratio(results.Geometric(ratios)), results.Sizes(below))
		}
	}
}

// latency writes AllReduce of 8 bytes and Barrier.
func (b *writer) latency() {
	b.Line("## AllReduce of 8 bytes, and Barrier")
	b.Line("\"from a barrier\" is as above; \"back to back\" is the mean of calls in a row without a barrier between them.")
	rows := [][]string{{"what", "np", "treerun", "Open MPI", "MPICH", "ratio"}}
	for _, np := range b.ranks("latency") {
		for _, what := range []struct{ part, op, title string }{
			{"latency", "allreduce", "AllReduce of 8 B, from a barrier"}, {"stream", "allreduce", "AllReduce of 8 B, back to back"},
			{"latency", "barrier", "Barrier, from a barrier"}, {"stream", "barrier", "Barrier, back to back"},
		} {
			for _, bytes := range b.sizes(what.part, what.op, np) {
				rows = append(rows, b.against(what.part, what.op, np, bytes, what.title, fmt.Sprint(np)))
			}
		}
	}
	b.Table(rows)
}

// against is a row with treerun, both MPIs and the ratio, after some first cells.
func (b *writer) against(part, op string, np int, bytes int64, first ...string) []string {
	get := func(who string) float64 { return b.cell(part, op, np, bytes, who) }
	best, _ := b.best(part, op, np, bytes)
	return append(first, results.Number(get("treerun")), results.Number(get("openmpi")), results.Number(get("mpich")), results.Below(best/get("treerun"), 1))
}

// others writes the other collectives.
func (b *writer) others() {
	b.Line("## The other collectives")
	b.Line("Against the better MPI. The size is that of nccl-tests: allgather, reducescatter, alltoall, gather and scatter count the bytes of all\nranks, at least one element of each. sendrecv passes the data on round a ring of all ranks.")
	for _, np := range b.ranks("others") {
		rows := [][]string{{fmt.Sprintf("np = %d", np), "size", "treerun", "Open MPI", "MPICH", "ratio"}}
		var ratios []float64
		var slower []string
		for _, op := range []string{"reduce", "allgather", "reducescatter", "alltoall", "gather", "scatter", "sendrecv"} {
			for _, bytes := range b.sizes("others", op, np) {
				rows = append(rows, b.against("others", op, np, bytes, op, results.Size(bytes)))
				best, _ := b.best("others", op, np, bytes)
				ratio := best / b.cell("others", op, np, bytes, "treerun")
				ratios = append(ratios, ratio)
				if ratio < 1 {
					slower = append(slower, op+" "+results.Size(bytes))
				}
			}
		}
		b.Table(rows)
		b.Line("Geometric mean of the ratios: %s. Slower at: %s.", results.Ratio(results.Geometric(ratios)), results.Sizes(slower))
	}
}

// flight compares many calls at once with one after the other.
func (b *writer) flight() {
	b.Line("## 150 AllReduces of 64 KiB: in flight, and one after the other")
	b.Line("Time of all 150, each with buffers of its own. In flight: treerun `StartAllReduce` and `Wait`, MPI `MPI_Iallreduce` and\n`MPI_Waitall`.")
	rows := [][]string{{"np", "treerun in flight", "treerun serial", "serial / in flight", "Open MPI in flight", "Open MPI serial", "Open MPI in flight / treerun", "MPICH in flight", "MPICH serial"}}
	for _, np := range b.ranks("flight") {
		for _, bytes := range b.sizes("flight", "inflight", np) {
			get := func(op, who string) float64 { return b.cell("flight", op, np, bytes, who) }
			mine := get("inflight", "treerun")
			rows = append(rows, []string{fmt.Sprint(np), results.Number(mine), results.Number(get("serial", "treerun")), results.Ratio(get("serial", "treerun") / mine),
				results.Number(get("inflight", "openmpi")), results.Number(get("serial", "openmpi")), results.Ratio(get("inflight", "openmpi") / mine),
				results.Number(get("inflight", "mpich")), results.Number(get("serial", "mpich"))})
		}
	}
	b.Table(rows)
}

// rest writes a job from start to finish and the memory of a communicator.
func (b *writer) rest() {
	b.Line("## A job from start to finish")
	rows := [][]string{{"np", "treerun (ms)", "Open MPI (ms)", "MPICH (ms)", "ratio"}}
	for _, np := range b.ranks("start") {
		rows = append(rows, b.against("start", "start", np, 0, fmt.Sprint(np)))
	}
	b.Table(rows)
	b.Line("treerun: `examples/hello`, which makes a communicator and passes a barrier. MPI: `MPI_Init` and `MPI_Finalize`.")
	b.Line("## Memory of a communicator")
	rows = [][]string{{"np", "AllReduces of", "shared memory (MiB)", "per rank (MiB)"}}
	for _, np := range b.ranks("memory") {
		for _, bytes := range b.sizes("memory", "memory", np) {
			mib := b.cell("memory", "memory", np, bytes, "treerun") / 1024
			rows = append(rows, []string{fmt.Sprint(np), results.Size(bytes), results.Number(mib), results.Number(mib / float64(np))})
		}
	}
	b.Table(rows)
	b.Line("What the memory file of all ranks occupies while `treerun bench` runs AllReduces of that size with ordinary slices.")
}

// least is NaN for an empty list.
func least(list []float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	return slices.Min(list)
}
