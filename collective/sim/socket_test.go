package sim

import (
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// twoHosts is two hosts of two ranks each with one wire of 1 GB/s and 20 us.
func twoHosts() *topo.Graph {
	return &topo.Graph{Ranks: 4, Hosts: []int{0, 0, 1, 1}, Links: []topo.Link{
		{A: 0, B: 1, GBytesPerSecond: 100, LatencyUs: 1, Kind: "shm"},
		{A: 2, B: 3, GBytesPerSecond: 100, LatencyUs: 1, Kind: "shm"},
		{A: 0, B: 2, GBytesPerSecond: 1, LatencyUs: 20, Kind: topo.TCP},
	}}
}

// All ranks of two hosts share the wire between them, each way by itself.
func TestOneWireForAllRanks(t *testing.T) {
	g := twoHosts()
	swap := mustDirect(t, plan.AllToAll, 4, -1, plan.Split)
	const part = 1 << 20
	// Two ranks send two parts each over the wire, both ways at the same time.
	r := price(t, swap, g, 4*part, Machine{})
	if want := 4*part/1e3 + 20.0; !near(r.Us, want) {
		t.Errorf("an alltoall takes %v us, want %v\n%v", r.Us, want, &r)
	}
	wires := 0
	for _, l := range r.Loads {
		if l.Bytes == 4*part {
			wires++
		}
	}
	if wires != 2 || len(r.Loads) != 2+4 {
		t.Errorf("%d loads have all that passes between the hosts, want 2 of 6:\n%v", wires, &r)
	}
}

// A message over a socket costs both ends their system calls, which the latency
// has in it, and their copies; the sender does not wait for the wire.
func TestSocket(t *testing.T) {
	g := twoHosts()
	g.Ranks, g.Hosts = 2, []int{0, 1}
	g.Links = []topo.Link{{A: 0, B: 1, GBytesPerSecond: 1, LatencyUs: 20, Kind: topo.TCP}}
	p := mustDirect(t, plan.Broadcast, 2, 0, plan.Single)
	m := Machine{StepUs: 1, SocketUs: 5, SocketGBs: 4, Cores: 1, Inline: true, InPlace: true}
	const size = 4000
	// A step and a system call, the copy, the wire, the way, and the other end.
	if got, want := price(t, p, g, size, m).Us, (1+5)+size/4e3+size/1e3+(20-2*5)+(1+5)+size/4e3; !near(got, want) {
		t.Errorf("a message takes %v us, want %v", got, want)
	}
	m.SocketUs = 15
	if got, want := price(t, p, g, 0, m).Us, 2*(1+15.0); !near(got, want) {
		t.Errorf("a message whose latency is all system calls takes %v us, want %v", got, want)
	}
	// Inside a host nothing changes.
	g.Hosts = nil
	with := price(t, p, g, size, m).Us
	m.SocketUs, m.SocketGBs = 0, 0
	if without := price(t, p, g, size, m).Us; with != without {
		t.Errorf("on one host %v us with sockets, %v without", with, without)
	}
}

// Hosts that are one machine share its cores.
func TestSharedBox(t *testing.T) {
	const n = 4
	g := topo.UniformGraph(n)
	for r := range n {
		g.Hosts = append(g.Hosts, r)
	}
	for i := range g.Links {
		g.Links[i].LatencyUs, g.Links[i].Kind = 10, topo.TCP
	}
	m := Machine{StepUs: 1, SocketUs: 4, Cores: 1, Inline: true, InPlace: true}
	p := mustFlat(t, n)
	alone := price(t, p, g, 8, m).Us
	m.CoreHosts = []int{7, 7, 7, 7}
	// Every rank sends to all others and receives from them.
	if together, least := price(t, p, g, 8, m).Us, n*2*(n-1)*4.0; together < least || alone > least/2 {
		t.Errorf("on one core %v us, want %v or more; on one each %v, want half of it at most", together, least, alone)
	}
}
