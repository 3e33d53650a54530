package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/treerun/treerun/internal/chart"
	"github.com/treerun/treerun/internal/numbers"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// implementations have the names by which people call them, in the order of columns
// and legends; the number of one is its look in charts.
var implementations = []struct{ name, title string }{
	{"treerun", "treerun"}, {"openmpi", "Open MPI"}, {"openmpi:ring", "Open MPI, ring"}, {"mpich", "MPICH"},
	{"gloo", "Gloo"}, {"gloo:hd", "Gloo, hd"}, {"treerun-alloc", "treerun, Alloc"},
}

func titleOf(who string) string {
	for _, x := range implementations {
		if x.name == who {
			return x.title
		}
	}
	return ""
}

// panel is a chart of the times of all implementations over size.
func (r rows) panel(title string, k key) chart.Panel {
	p := chart.Panel{Title: title, X: "message (bytes)", Y: "time (µs)", Sizes: true}
	for look, x := range implementations {
		k.Who = x.name
		c := chart.Curve{Name: x.title, Look: look}
		for _, bytes := range r.sizes(k) {
			k.Bytes = bytes
			c.Points = append(c.Points, chart.Point{X: float64(bytes), Y: r.value(k)})
		}
		k.Bytes = 0
		p.Curves = append(p.Curves, c)
	}
	return p
}

// oneHost is what the page is made of.
type oneHost struct{ *record }

var sweptOps = []struct{ Op, Title string }{{"allreduce", "AllReduce"}, {"broadcast", "Broadcast"}}

func oneHostFiles(r *record) (any, pictures, error) {
	files := pictures{}
	ranks := r.ranks("sweep")
	for _, s := range sweptOps {
		if len(ranks) == 0 {
			break // a cut-off record
		}
		var panels []chart.Panel
		for _, np := range ranks {
			panels = append(panels, r.panel(fmt.Sprintf("%d ranks", np), key{Part: "sweep", Op: s.Op, NP: np}))
		}
		svg, err := chart.SVG(s.Title+", float32, one host", 400, 370, panels)
		if err != nil {
			return nil, nil, err
		}
		files["one-host-"+s.Op+".svg"] = svg
	}
	return oneHost{r}, files, nil
}

// peers are the implementations in the rows that k asks for that are not treerun.
func (r rows) peers(k key) []string {
	return distinct(r.of(k, func(v *row) bool { return !strings.HasPrefix(v.Who, "treerun") }),
		func(v *row) string { return v.Who })
}

// bestPeer returns the smallest value of the peers, and whose it is.
func (r rows) bestPeer(k key) (float64, string) {
	k.Who = ""
	return r.best(k, r.peers(k))
}

// get returns the value of one implementation.
func (r rows) get(k key, who string) float64 {
	k.Who = who
	return r.value(k)
}

// About is the table of facts.
func (p oneHost) About() table { return p.Run(p.away()) }

// Ops are the operations that are measured at all sizes.
func (p oneHost) Ops() any { return sweptOps }

// Sweep writes the table of one operation and number of ranks.
func (p oneHost) Sweep(op string, np int) string {
	t := table{{"size", "treerun", "plan", "Open MPI", "MPICH", "Gloo", "ratio", "Alloc", "ratio of Alloc"}}
	var all, alloc, large ratios
	k := key{Part: "sweep", Op: op, NP: np}
	for _, bytes := range p.sizes(k) {
		k.Bytes = bytes
		get := func(who string) float64 { return p.get(k, who) }
		best, _ := p.bestPeer(k)
		over, of := best/get("treerun"), best/get("treerun-alloc")
		all.add(over, 1, numbers.Bytes(bytes))
		alloc.add(of, 1, "")
		if bytes >= mib {
			large.add(over, 1, "")
		}
		mine := k
		mine.Who = "treerun"
		t.line(numbers.Bytes(bytes), get("treerun"), strings.Join(p.of(mine).plans(), ", "), get("openmpi"), get("mpich"),
			get("gloo"), below(over, 1), get("treerun-alloc"), below(of, 1))
	}
	least := math.NaN()
	if len(large.list) > 0 {
		least = slices.Min(large.list)
	}
	return fmt.Sprintf("%s\n\nGeometric mean of the ratios: %s; of Alloc: %s; from 1 MiB up: %s, least %s. "+
		"Slower than the best peer at: %s.", t, all.mean(), alloc.mean(), large.mean(), ratio(least), all.where())
}

// Ranks are the numbers of ranks of a part.
func (p oneHost) Ranks(part string) []int { return p.ranks(part) }

// Settings compares with the best of all settings.
func (p oneHost) Settings(op string, np int) string {
	t := table{{op + ", np = " + fmt.Sprint(np), "treerun", "best peer", "which", "ratio"}}
	var all ratios
	k, defaults := key{Part: "settings", Op: op, NP: np}, key{Part: "sweep", Op: op, NP: np}
	for _, bytes := range p.sizes(k) {
		k.Bytes, defaults.Bytes = bytes, bytes
		best, who := p.bestPeer(k)
		if v, other := p.bestPeer(defaults); v < best || math.IsNaN(best) {
			best, who = v, other
		}
		mine := p.get(k, "treerun")
		all.add(best/mine, 0.9, numbers.Bytes(bytes))
		t.line(numbers.Bytes(bytes), mine, best, who, below(best/mine, 1))
	}
	return fmt.Sprintf("%s\n\nGeometric mean of the ratios: %s. Below 0.9 at: %s.", t, all.mean(), all.where())
}

// against adds a row with treerun, both MPIs and the ratio, after some first cells, and
// returns the ratio.
func (p oneHost) against(t *table, k key, first ...any) float64 {
	best, _ := p.bestPeer(k)
	mine := p.get(k, "treerun")
	t.line(append(first, mine, p.get(k, "openmpi"), p.get(k, "mpich"), below(best/mine, 1))...)
	return best / mine
}

// Latency is the table of AllReduce of 8 bytes and Barrier.
func (p oneHost) Latency() table {
	t := table{{"what", "np", "treerun", "Open MPI", "MPICH", "ratio"}}
	for _, np := range p.ranks("latency") {
		for _, what := range []struct{ part, op, title string }{
			{"latency", "allreduce", "AllReduce of 8 B, from a barrier"},
			{"stream", "allreduce", "AllReduce of 8 B, back to back"},
			{"latency", "barrier", "Barrier, from a barrier"}, {"stream", "barrier", "Barrier, back to back"},
		} {
			if k := (key{Part: what.part, Op: what.op, NP: np}); len(p.of(k)) > 0 {
				p.against(&t, k, what.title, np)
			}
		}
	}
	return t
}

// Others writes the tables of the other collectives.
func (p oneHost) Others(np int) string {
	t := table{{fmt.Sprintf("np = %d", np), "size", "treerun", "Open MPI", "MPICH", "ratio"}}
	var all ratios
	for _, op := range []string{"reduce", "allgather", "reducescatter", "alltoall", "gather", "scatter", "sendrecv"} {
		k := key{Part: "others", Op: op, NP: np}
		for _, bytes := range p.sizes(k) {
			k.Bytes = bytes
			all.add(p.against(&t, k, op, numbers.Bytes(bytes)), 1, op+" "+numbers.Bytes(bytes))
		}
	}
	return fmt.Sprintf("%s\n\nGeometric mean of the ratios: %s. Slower at: %s.", t, all.mean(), all.where())
}

// Flight is the table of many calls at once and one after the other.
func (p oneHost) Flight() table {
	t := table{{"np", "treerun in flight", "treerun serial", "serial / in flight", "Open MPI in flight", "Open MPI serial",
		"Open MPI in flight / treerun", "MPICH in flight", "MPICH serial"}}
	for _, np := range p.ranks("flight") {
		get := func(op, who string) float64 { return p.value(key{"flight", who, op, np, 0}) }
		mine := get("inflight", "treerun")
		t.line(np, mine, get("serial", "treerun"), ratio(get("serial", "treerun")/mine),
			get("inflight", "openmpi"), get("serial", "openmpi"), ratio(get("inflight", "openmpi")/mine),
			get("inflight", "mpich"), get("serial", "mpich"))
	}
	return t
}

// Start is the table of jobs from start to finish.
func (p oneHost) Start() table {
	t := table{{"np", "treerun (ms)", "Open MPI (ms)", "MPICH (ms)", "ratio"}}
	for _, np := range p.ranks("start") {
		p.against(&t, key{Part: "start", NP: np}, np)
	}
	return t
}

// Memory is the table of what communicators share.
func (p oneHost) Memory() table {
	t := table{{"np", "AllReduces of", "shared memory (MiB)", "per rank (MiB)"}}
	for _, np := range p.ranks("memory") {
		for _, bytes := range p.sizes(key{Part: "memory", NP: np}) {
			shared := p.value(key{Part: "memory", NP: np, Bytes: bytes}) / 1024
			t.line(np, numbers.Bytes(bytes), shared, shared/float64(np))
		}
	}
	return t
}

// Rates is the table of what memory allows.
func (p oneHost) Rates() table {
	t := table{{"bytes per thread", "copy", "sum c=a+b"}}
	for _, bytes := range p.sizes(key{Part: "membw"}) {
		t.line(numbers.Bytes(bytes), p.memory("memcpy", bytes), p.memory("sum_c=a+b", bytes))
	}
	return t
}

// memory returns what membw measured of two threads, NaN where it did not.
func (p oneHost) memory(kind string, bytes int64) float64 {
	return p.value(key{Part: "membw", Op: kind, Bytes: bytes})
}

// Limits compares the large messages with what memory allows.
func (p oneHost) Limits(op string) table {
	const ms = 1e-3 // of a microsecond
	t := table{{op, "np", "treerun (ms)", "least (ms)", "share", "mix (ms)", "share", "bench", "Alloc (ms)",
		"share of mix",
		"best peer (ms)", "share of mix"}}
	for _, np := range p.ranks("sweep") {
		k := key{Part: "sweep", Op: op, NP: np}
		for _, bytes := range p.sizes(k) {
			if bytes < 16*mib {
				continue
			}
			k.Bytes = bytes
			mine, alloc := p.get(k, "treerun")*ms, p.get(k, "treerun-alloc")*ms
			best, _ := p.bestPeer(k)
			least, mix := bounds(op, np, float64(bytes), p.rate("memcpy", bytes), p.rate("sum_c=a+b", bytes))
			t.line(numbers.Bytes(bytes), np, mine, least, ratio(least/mine), mix, ratio(mix/mine), ratio(p.ownShare(k)),
				alloc, ratio(mix/alloc), best*ms, ratio(mix/(best*ms)))
		}
	}
	return t
}

// ownShare is the median of treerun bench's own share.
func (p oneHost) ownShare(k key) float64 {
	k.Who = "treerun"
	return p.of(k, func(v *row) bool { return v.Share != nil }).median(func(v *row) float64 { return *v.Share })
}

// bounds returns the milliseconds of both limits; rates are GB/s of payload.
func bounds(op string, np int, bytes, copying, sum float64) (least, mix float64) {
	const perGB = 1e-6 // ms for a byte at 1 GB/s
	n := float64(np)
	if op == "broadcast" {
		return n * bytes / (2 * copying) * perGB, (n - 1) * bytes / copying * perGB
	}
	return n * bytes / copying * perGB, ((n+1)*bytes/(3*sum) + (n-1)*bytes/copying) * perGB
}

// rate returns what membw found, on a straight line between sizes in
// logarithms; beyond them the nearest.
func (p oneHost) rate(kind string, bytes int64) float64 {
	all := p.sizes(key{Part: "membw", Op: kind})
	if len(all) == 0 {
		return math.NaN()
	}
	i, found := slices.BinarySearch(all, bytes)
	switch {
	case found || i == 0:
		return p.memory(kind, all[i])
	case i == len(all):
		return p.memory(kind, all[i-1])
	}
	part := math.Log(float64(bytes)/float64(all[i-1])) / math.Log(float64(all[i])/float64(all[i-1]))
	return math.Pow(p.memory(kind, all[i-1]), 1-part) * math.Pow(p.memory(kind, all[i]), part)
}
