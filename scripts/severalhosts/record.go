package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/treerun/treerun/scripts/internal/results"
)

// record is all that was measured. The part of a figure is its network, the operation
// is allreduce, broadcast, start or flow-FROM-TO, and the value is microseconds; those
// of start are milliseconds, those of flows Mbit/s.
type record struct{ *results.Record }

func parse(text []byte) (record, error) {
	r, err := results.Parse(text)
	return record{r}, err
}

// pick returns the figures of an operation on a network.
func (r record) pick(network, op string, keep func(*results.Figure) bool) []*results.Figure {
	return r.Pick(func(f *results.Figure) bool { return f.Part == network && f.Op == op && keep(f) })
}

func everything(*results.Figure) bool { return true }

// cell returns the median over the repetitions, NaN where there is none.
func (r record) cell(network, op string, bytes int64, who string) float64 {
	return results.MedianOf(r.pick(network, op, func(f *results.Figure) bool { return f.Bytes == bytes && f.Who == who }))
}

// best returns the least figure of all peers, and whose it is.
func (r record) best(network, op string, bytes int64) (float64, string) {
	peers := slices.DeleteFunc(r.who(network, op), func(who string) bool { return who == "treerun" })
	return results.Least(peers, func(who string) float64 { return r.cell(network, op, bytes, who) })
}

// who returns the implementations that took part, in the order of columns.
func (r record) who(network, op string) []string {
	there := results.Distinct(r.pick(network, op, everything), func(f *results.Figure) string { return f.Who })
	return slices.DeleteFunc(slices.Clone(order), func(who string) bool { return !slices.Contains(there, who) })
}

// sizes returns the sizes of an operation, ascending.
func (r record) sizes(network, op string) []int64 {
	return results.Distinct(r.pick(network, op, everything), func(f *results.Figure) int64 { return f.Bytes })
}

// plan returns what treerun ran.
func (r record) plan(network, op string, bytes int64) string {
	var all []string
	for _, f := range r.pick(network, op, func(f *results.Figure) bool { return f.Bytes == bytes && f.Who == "treerun" }) {
		if !slices.Contains(all, f.Plan) {
			all = append(all, f.Plan)
		}
	}
	return strings.Join(all, ", ")
}

// flow returns the rate of a plain flow in Mbit/s, NaN where there is none.
func (r record) flow(network string, from, to int) float64 {
	return r.cell(network, fmt.Sprintf("flow-%d-%d", from, to), 0, "tcp")
}

// rates returns those of all pairs.
func (r record) rates(network string) [][]float64 {
	all := make([][]float64, hosts)
	for i := range all {
		all[i] = make([]float64, hosts)
		for j := range all[i] {
			if i != j {
				all[i][j] = r.flow(network, i, j)
			}
		}
	}
	return all
}

// bound returns how fast a message can be done with at most, in Mbit/s, NaN where
// that is not known.
func (r record) bound(network, op string) float64 {
	switch network {
	case "even", "even2":
		b := r.flow(network, 0, 1)
		return cardsBound(op, []float64{b, b, b, b})
	case "uneven": // the root's card is at least as fast as what leaves it for the fastest of the others
		return cardsBound(op, []float64{max(r.flow(network, 1, 0), r.flow(network, 0, 1)), r.flow(network, 0, 1), r.flow(network, 0, 2), r.flow(network, 0, 3)})
	case "mesh":
		if op == "broadcast" {
			return cutBound(r.rates(network))
		}
		return packingBound(r.rates(network))
	}
	return math.NaN()
}
