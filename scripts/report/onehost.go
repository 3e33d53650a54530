package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/treerun/treerun/internal/chart"
)

const (
	kib = 1 << 10
	mib = 1 << 20

	self = "treerun" // by its own choice, where other names are algorithms
)

// implementation has the name by which people call it.
type implementation struct{ Name, Title string }

// implementations are in the order of columns and legends; the number of one is its
// look in charts.
var implementations = []implementation{
	{self, "treerun"}, {"openmpi", "Open MPI"}, {"openmpi:ring", "Open MPI, ring"}, {"mpich", "MPICH"},
	{"gloo", "Gloo"}, {"gloo:hd", "Gloo, hd"}, {"treerun-alloc", "treerun, Alloc"},
}

// panel is a chart of the times of all implementations over size.
func (v view) panel(title string) chart.Panel {
	p := chart.Panel{Title: title, X: "message (bytes)", Y: "time (µs)", Sizes: true}
	for look, x := range implementations {
		c := chart.Curve{Name: x.Title, Look: look}
		for _, s := range v.By(x.Name).Sizes() {
			c.Points = append(c.Points, chart.Point{X: float64(s.Bytes), Y: s.Us()})
		}
		p.Curves = append(p.Curves, c)
	}
	return p
}

func oneHostFiles(r *record, charts pictures) (any, error) {
	v := view{record: r}
	for op, title := range map[string]string{"allreduce": "AllReduce", "broadcast": "Broadcast"} {
		var panels []chart.Panel
		for _, np := range v.In("sweep").Ranks() {
			panels = append(panels, np.For(op).panel(fmt.Sprintf("%d ranks", np.NP)))
		}
		if len(panels) == 0 {
			break // a cut-off record
		}
		svg, err := chart.SVG(title+", float32, one host", 400, 370, panels)
		if err != nil {
			return nil, err
		}
		charts["one-host-"+op+".svg"] = svg
	}
	return v, nil
}

// bounds are the least milliseconds that memory allows, and those that ranks can share
// the work in.
type bounds struct{ Least, Mix float64 }

// Bounds finds those of the rows by what membw measured.
func (v view) Bounds() bounds {
	return boundsOf(v.Op, v.NP, float64(v.Bytes), v.rate("memcpy"), v.rate("sum_c=a+b"))
}

// boundsOf takes rates in GB/s of payload.
func boundsOf(op string, np int, bytes, copying, sum float64) bounds {
	const perGB = 1e-6 // ms for a byte at 1 GB/s
	n := float64(np)
	if op == "broadcast" {
		return bounds{n * bytes / (2 * copying) * perGB, (n - 1) * bytes / copying * perGB}
	}
	return bounds{n * bytes / copying * perGB, ((n+1)*bytes/(3*sum) + (n-1)*bytes/copying) * perGB}
}

// rate returns what membw found for the size of the rows, on a straight line between
// sizes in logarithms; beyond them the nearest.
func (v view) rate(kind string) float64 {
	all := view{record: v.record}.In("membw").For(kind).Sizes()
	if len(all) == 0 {
		return math.NaN()
	}
	i := slices.IndexFunc(all, func(s view) bool { return s.Bytes >= v.Bytes })
	switch {
	case i < 0:
		return all[len(all)-1].Us()
	case i == 0 || all[i].Bytes == v.Bytes:
		return all[i].Us()
	}
	a, b := all[i-1], all[i]
	part := math.Log(float64(v.Bytes)/float64(a.Bytes)) / math.Log(float64(b.Bytes)/float64(a.Bytes))
	return math.Pow(a.Us(), 1-part) * math.Pow(b.Us(), part)
}
