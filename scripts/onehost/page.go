package main

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
)

// page returns the files of the page, by name.
func page(r *record) (map[string][]byte, error) {
	if len(r.figures) == 0 {
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
		b.line("## %s", s.title)
		b.line("![time over size](%s)", name)
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
	*record
	bytes.Buffer
}

// line writes a paragraph.
func (b *writer) line(format string, args ...any) { fmt.Fprintf(b, format+"\n\n", args...) }

// table writes a table, whose first row is its head.
func (b *writer) table(rows [][]string) {
	for i, row := range rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(b, "|%s\n", strings.Repeat("---|", len(row)))
		}
	}
	b.WriteByte('\n')
}

func (b *writer) head() {
	b.line("# One host: treerun beside Open MPI, MPICH and Gloo")
	b.line("`scripts/one-host.sh` measured this, and `scripts/one-host.sh page` writes the page again from\n[one-host.tsv](one-host.tsv). Times are microseconds where no other unit stands, smaller is better, medians over the repetitions\n" +
		"of the median over a run's iterations, each as long as on its slowest rank and from its own exit of a barrier. All buffers are\n" +
		"ordinary memory (Go slices), except in the column \"Alloc\", where they come from `collective.Alloc`. float32, sum, not in place\n(Broadcast: in place), root 0.")
	b.line("\"ratio\" is the time of the best peer over that of treerun: above 1 treerun is faster. **Bold** marks where treerun is slower.")
	b.line("Peers have their default settings; MPICH runs with `mpich_shim.so` where ranks exceed cores (else it waits without ever\nyielding a core), Open MPI with `--oversubscribe --bind-to none`, Gloo over TCP of this host.")
	rows := [][]string{{"run", ""}}
	for _, f := range b.facts {
		rows = append(rows, []string{f.name, f.value})
	}
	away := make([]float64, len(b.figures))
	for i, f := range b.figures {
		away[i] = f.away
	}
	slices.Sort(away)
	rows = append(rows, []string{"cores that others used during a job", fmt.Sprintf("median %.2f, 90th percentile %.2f, most %.2f", median(away), away[len(away)*9/10], away[len(away)-1])})
	b.table(rows)
}

// sweep writes the table of one operation and number of ranks.
func (b *writer) sweep(op, title string, np int) {
	b.line("### %s, np = %d", title, np)
	rows := [][]string{{"size", "treerun", "plan", "Open MPI", "MPICH", "Gloo", "ratio", "Alloc", "ratio of Alloc"}}
	var ratios, alloc, large []float64
	var slower []string
	for _, bytes := range b.sizes("sweep", op, np) {
		get := func(who string) float64 { return b.cell("sweep", op, np, bytes, who) }
		best, _ := b.least("sweep", op, np, bytes, peer)
		ratio, of := best/get("treerun"), best/get("treerun-alloc")
		ratios, alloc = append(ratios, ratio), append(alloc, of)
		if bytes >= 1<<20 {
			large = append(large, ratio)
		}
		if ratio < 1 {
			slower = append(slower, size(bytes))
		}
		rows = append(rows, []string{size(bytes), number(get("treerun")), b.planOf(op, np, bytes), number(get("openmpi")),
			number(get("mpich")), number(get("gloo")), marked(ratio), number(get("treerun-alloc")), marked(of)})
	}
	b.table(rows)
	b.line("Geometric mean of the ratios: %s; of Alloc: %s; from 1 MiB up: %s, least %s. Slower than the best peer at: %s.",
		times(geometric(ratios)), times(geometric(alloc)), times(geometric(large)), times(least(large)), listed(slower))
}

func (b *writer) planOf(op string, np int, bytes int64) string {
	list := b.pick(func(f *figure) bool {
		return f.part == "sweep" && f.op == op && f.np == np && f.bytes == bytes && f.who == "treerun"
	})
	return strings.Join(distinct(list, func(f *figure) string { return f.plan }), ", ")
}

// settings compares with the best of all settings, if they were measured.
func (b *writer) settings() {
	b.line("## Against the best of all settings")
	if len(b.ranks("settings")) == 0 {
		b.line("Not measured: `scripts/one-host.sh settings` adds it.")
		return
	}
	b.line("The best peer with any setting: those of the kit's `run_openmpi.sh --set`, `collsm` (`coll_sm_priority 90`), MPICH `nolocal`,\n" +
		"Gloo's other algorithms, and the defaults above. treerun is from the same minutes as the settings.")
	for _, op := range []string{"allreduce", "broadcast"} {
		for _, np := range b.ranks("settings") {
			rows := [][]string{{op + ", np = " + fmt.Sprint(np), "treerun", "best peer", "which", "ratio"}}
			var ratios []float64
			var below []string
			for _, bytes := range b.sizes("settings", op, np) {
				best, who := b.least("settings", op, np, bytes, peer)
				if v, other := b.least("sweep", op, np, bytes, peer); v < best || math.IsNaN(best) {
					best, who = v, other
				}
				mine := b.cell("settings", op, np, bytes, "treerun")
				ratios = append(ratios, best/mine)
				if best/mine < 0.9 {
					below = append(below, size(bytes))
				}
				rows = append(rows, []string{size(bytes), number(mine), number(best), who, marked(best / mine)})
			}
			b.table(rows)
			b.line("Geometric mean of the ratios: %s. Below 0.9 at: %s.", times(geometric(ratios)), listed(below))
		}
	}
}

// latency writes AllReduce of 8 bytes and Barrier.
func (b *writer) latency() {
	b.line("## AllReduce of 8 bytes, and Barrier")
	b.line("\"from a barrier\" is as above; \"back to back\" is the mean of calls in a row without a barrier between them.")
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
	b.table(rows)
}

// against is a row with treerun, both MPIs and the ratio, after some first cells.
func (b *writer) against(part, op string, np int, bytes int64, first ...string) []string {
	get := func(who string) float64 { return b.cell(part, op, np, bytes, who) }
	best, _ := b.least(part, op, np, bytes, peer)
	return append(first, number(get("treerun")), number(get("openmpi")), number(get("mpich")), marked(best/get("treerun")))
}

// others writes the other collectives.
func (b *writer) others() {
	b.line("## The other collectives")
	b.line("Against the better MPI. The size is that of nccl-tests: allgather, reducescatter, alltoall, gather and scatter count the bytes of all\nranks, at least one element of each. sendrecv passes the data on round a ring of all ranks.")
	for _, np := range b.ranks("others") {
		rows := [][]string{{fmt.Sprintf("np = %d", np), "size", "treerun", "Open MPI", "MPICH", "ratio"}}
		var ratios []float64
		var slower []string
		for _, op := range []string{"reduce", "allgather", "reducescatter", "alltoall", "gather", "scatter", "sendrecv"} {
			for _, bytes := range b.sizes("others", op, np) {
				rows = append(rows, b.against("others", op, np, bytes, op, size(bytes)))
				best, _ := b.least("others", op, np, bytes, peer)
				ratio := best / b.cell("others", op, np, bytes, "treerun")
				ratios = append(ratios, ratio)
				if ratio < 1 {
					slower = append(slower, op+" "+size(bytes))
				}
			}
		}
		b.table(rows)
		b.line("Geometric mean of the ratios: %s. Slower at: %s.", times(geometric(ratios)), listed(slower))
	}
}

// flight compares many calls at once with one after the other.
func (b *writer) flight() {
	b.line("## 150 AllReduces of 64 KiB: in flight, and one after the other")
	b.line("Time of all 150, each with buffers of its own. In flight: treerun `StartAllReduce` and `Wait`, MPI `MPI_Iallreduce` and\n`MPI_Waitall`.")
	rows := [][]string{{"np", "treerun in flight", "treerun serial", "serial / in flight", "Open MPI in flight", "Open MPI serial", "Open MPI in flight / treerun", "MPICH in flight", "MPICH serial"}}
	for _, np := range b.ranks("flight") {
		for _, bytes := range b.sizes("flight", "inflight", np) {
			get := func(op, who string) float64 { return b.cell("flight", op, np, bytes, who) }
			mine := get("inflight", "treerun")
			rows = append(rows, []string{fmt.Sprint(np), number(mine), number(get("serial", "treerun")), times(get("serial", "treerun") / mine),
				number(get("inflight", "openmpi")), number(get("serial", "openmpi")), times(get("inflight", "openmpi") / mine),
				number(get("inflight", "mpich")), number(get("serial", "mpich"))})
		}
	}
	b.table(rows)
}

// rest writes a job from start to finish and the memory of a communicator.
func (b *writer) rest() {
	b.line("## A job from start to finish")
	rows := [][]string{{"np", "treerun (ms)", "Open MPI (ms)", "MPICH (ms)", "ratio"}}
	for _, np := range b.ranks("start") {
		rows = append(rows, b.against("start", "start", np, 0, fmt.Sprint(np)))
	}
	b.table(rows)
	b.line("treerun: `examples/hello`, which makes a communicator and passes a barrier. MPI: `MPI_Init` and `MPI_Finalize`.")
	b.line("## Memory of a communicator")
	rows = [][]string{{"np", "AllReduces of", "shared memory (MiB)", "per rank (MiB)"}}
	for _, np := range b.ranks("memory") {
		for _, bytes := range b.sizes("memory", "memory", np) {
			mib := b.cell("memory", "memory", np, bytes, "treerun") / 1024
			rows = append(rows, []string{fmt.Sprint(np), size(bytes), number(mib), number(mib / float64(np))})
		}
	}
	b.table(rows)
	b.line("What the memory file of all ranks occupies while `treerun bench` runs AllReduces of that size with ordinary slices.")
}
