package topo

import (
	"fmt"
	"testing"
)

// Two trees on the graph of two hosts: their loads on links and ports.
func TestLoads(t *testing.T) {
	g := valid() // links 0-1 and 2-3 of 20, 0-2 of 1.25; a card of 1.25 for {2,3}
	trees := []Tree{
		{Root: 0, Parent: []int{-1, 0, 0, 2}},
		{Root: 3, Parent: []int{2, 0, 3, -1}},
		{Root: 1, Parent: []int{1, -1, 0, 1}}, // 3-1 is no link of g
	}
	links, ports := g.Loads(trees, []float64{0.5, 0.25, 2})
	if got, want := fmt.Sprint(links), "[{3 2.75 20} {2 0.75 20} {3 2.75 1.25}]"; got != want {
		t.Errorf("links %v, want %v", got, want)
	}
	if got, want := fmt.Sprint(ports), "[{3 2.75 1.25}]"; got != want {
		t.Errorf("ports %v, want %v", got, want)
	}
	if links[2].Share() != 2.2 {
		t.Errorf("share %v, want 2.2", links[2].Share())
	}
	g.Links[2].PortCost = 1.5
	links, ports = g.Loads(trees, []float64{0.5, 0.25, 2})
	if got, want := fmt.Sprint(links[2], ports[0]), "{3 2.75 1.25} {3 4.125 1.25}"; got != want {
		t.Errorf("with a port cost: %v, want %v", got, want)
	}
	links, _ = g.Loads(trees[:2], nil)
	if got, want := fmt.Sprint(links), "[{2 0 20} {2 0 20} {2 0 1.25}]"; got != want {
		t.Errorf("without rates: %v, want %v", got, want)
	}
}

// A link crosses the ports whose set holds one of its ends, not both.
func TestCrossed(t *testing.T) {
	g := UniformGraph(4) // 01 02 03 12 13 23
	g.Ports = []Port{{Name: "a", Ranks: []int{0}, GBytesPerSecond: 1}, {Name: "b", Ranks: []int{1, 0}, GBytesPerSecond: 1}}
	if got, want := fmt.Sprint(g.Crossed()), "[[0] [0 1] [0 1] [1] [1] []]"; got != want {
		t.Errorf("crossed %v, want %v", got, want)
	}
}

// The rows of flows are the links that are narrower than all their ports, and then the ports.
func TestFlows(t *testing.T) {
	g := valid() // links 0-1 and 2-3 of 20, 0-2 of 1.25; a card of 1.25 for {2,3}
	g.Links[2].PortCost = 1.5
	f := g.Flows(true)
	if got, want := fmt.Sprint(f.Rows, f.Caps), "[{0 -1 false} {0 -1 true} {1 -1 false} {1 -1 true} {-1 0 false} "+
		"{-1 0 true}] [20 20 20 20 1.25 1.25]"; got != want {
		t.Errorf("directed: rows %v, want %v", got, want)
	}
	if got, want := fmt.Sprint(f.Takes), "[[{0 1}] [{1 1}] [{2 1}] [{3 1}] [{5 1.5}] [{4 1.5}]]"; got != want {
		t.Errorf("directed: arcs take %v, want %v", got, want)
	}
	if got, want := fmt.Sprint(f.Near), "[[{1 0} {2 4}] [{0 1}] [{0 5} {3 2}] [{2 3}]]"; got != want {
		t.Errorf("arcs %v, want %v", got, want)
	}
	f = g.Flows(false)
	want := "[[{0 1}] [{0 1}] [{1 1}] [{1 1}] [{2 1.5}] [{2 1.5}]] [20 20 1.25]"
	if got := fmt.Sprint(f.Takes, f.Caps); got != want {
		t.Errorf("both ways: %v, want %v", got, want)
	}
}
