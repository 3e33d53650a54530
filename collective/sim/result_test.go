package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// Load is the traffic over one way of a link or a port.
type Load struct {
	Name   string  // "0 -> 3", "out of card of host 1"
	BusyUs float64 // how long it was held
	Bytes  int64
}

// Result is the cost of a run.
type Result struct {
	Us    float64 // from the issue of the first operation until every rank has done its part of every one
	Bytes int64   // of all operations
	Loads []Load  // of the resources used, the busiest first
}

// AlgGBs is the algorithm bandwidth of the run in GB/s: message bytes per time.
func (r *Result) AlgGBs() float64 {
	if r.Us == 0 {
		return 0
	}
	return float64(r.Bytes) / r.Us / 1e3
}

// String writes the price and the five busiest resources.
func (r *Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%.6g us for %d bytes, %.4g GB/s\n", r.Us, r.Bytes, r.AlgGBs())
	for i, l := range r.Loads {
		if i == 5 {
			fmt.Fprintf(&b, "and %d more\n", len(r.Loads)-i)
			break
		}
		fmt.Fprintf(&b, "%-24s %7.6g us, %3.0f %%, %d bytes\n", l.Name, l.BusyUs, 100*l.BusyUs/max(r.Us, l.BusyUs), l.Bytes)
	}
	return b.String()
}

// Price returns the cost of one call of p with a message of the given number of bytes on g. p and g must have the same
// ranks, and g every link of p; the error names the mismatch, or the rank that never ends.
func Price(p *plan.Plan, g *topo.Graph, bytes int64, m machine) (Result, error) {
	return Run([]Operation{{Plan: p, Bytes: bytes}}, g, m)
}

// machine is a Machine, or a Paper's.
type machine interface {
	network(g *topo.Graph) (*network, error)
}

func (m Machine) network(g *topo.Graph) (*network, error) {
	return newNetwork(g, topo.NewWays(g), &m), nil
}

// Run returns the cost of several operations that are issued one after the other and may be under way at the same time.
func Run(ops []Operation, g *topo.Graph, m machine) (Result, error) {
	w, err := m.network(g)
	if err != nil {
		return Result{}, err
	}
	r, err := newRunner(ops, w)
	if err == nil {
		err = r.run()
	}
	if err != nil {
		return Result{}, err
	}
	res := Result{Us: r.end, Loads: r.loads()}
	for _, op := range ops {
		res.Bytes += op.Bytes
	}
	return res, nil
}

// loads returns the load that the run put on every resource it used.
func (w *network) loads() []Load {
	var all []Load
	add := func(i int32, name func() string) {
		if r := &w.resources[i]; r.bytes > 0 || r.busy > 0 {
			all = append(all, Load{name(), r.busy, r.bytes})
		}
	}
	shared := make(map[int32]bool, len(w.wires))
	for _, i := range w.wires {
		shared[i] = true
	}
	for _, r := range w.all {
		if !shared[r.via[0]] {
			add(r.via[0], func() string { return fmt.Sprintf("%d -> %d", r.src, r.dst) })
		}
	}
	for _, hop := range sorted(w.wires) {
		add(w.wires[hop], func() string {
			l := w.g.Links[hop.Link]
			if hop.Back {
				l.A, l.B = l.B, l.A
			}
			return fmt.Sprintf("%d -> %d", l.A, l.B)
		})
	}
	for i, p := range w.ports {
		add(p[0], func() string { return "out of " + w.g.Ports[i].Name })
		add(p[1], func() string { return "into " + w.g.Ports[i].Name })
	}
	slices.SortStableFunc(all, func(a, b Load) int { return cmp.Compare(b.BusyUs, a.BusyUs) })
	return all
}

// sorted returns the keys of resources in the order of the resources' numbers.
func sorted[K comparable](resources map[K]int32) []K {
	return slices.SortedFunc(maps.Keys(resources), func(a, b K) int { return cmp.Compare(resources[a], resources[b]) })
}
