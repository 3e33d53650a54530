package planner

import (
	"cmp"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/sim"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// Machine describes the hardware that runs the plans.
type Machine struct {
	Cores        int   // that the ranks of a host share; 0: one each
	CoreHosts    []int // by rank: those with the same number share Cores, in place of those of a host; nil: hosts
	Device       bool  // plans run on CUDA streams
	StagingBytes int64 // of device memory that a rank gives to links; 0: DefaultStagingBytes
	Slots        int   // of every link; 0: by the number of ranks
	SlotBytes    int
}

// DefaultStagingBytes is the most device memory that a rank gives to its links.
const DefaultStagingBytes = 512 << 20

// minSlots is the number of slots per link with which plans are verified. A plan that
// cannot get stuck with so few cannot with more.
const minSlots = 2

// shapeOfSlots spreads the memory that a rank gives to its links over their slots. It counts the links that plans of
// this number of ranks have at most as a rule, not those that some plans really have, so that the slots of a job are
// known before its plans are.
func (s *Site) shapeOfSlots() (slots, bytes int) {
	n := s.graph.Ranks
	switch {
	case s.machine.Slots == 0 && s.machine.Device:
		return deviceSlots(n, s.hosts, cmp.Or(s.machine.StagingBytes, DefaultStagingBytes))
	case s.machine.Slots == 0 && s.hosts != nil:
		return hostSlots(n, s.hosts)
	}
	return s.machine.LocalSlots(n)
}

const (
	linkBudget   = 4 << 20 // bytes of slots per rank
	minSlotBytes = 1 << 10
	maxSlotBytes = 32 << 10 // a chunk, its source and its destination stay in a core's cache
)

// LocalSlots returns the slots of every link between n ranks of one host, for any graph: of shared memory, where a lane
// joins all pairs, one is of messages, and a link both ways is between every rank and the owner of every slice.
func (m *Machine) LocalSlots(n int) (slots, bytes int) {
	if m.Slots > 0 {
		return m.Slots, m.SlotBytes
	}
	slots = 8
	if n == 1 {
		return slots, plan.Quantum
	}
	links := 4 * n * (n - 1)
	bytes = linkBudget * n / (links * slots)
	return slots, min(max(bytes&^(plan.Quantum-1), minSlotBytes), maxSlotBytes)
}

// deviceSlots is for staging memory of devices. Large slots are few steps: at some
// hundred GB/s a device takes as long for a megabyte as for beginning with it. Only links within
// a host have such memory. Those between hosts have as large slots in pinned memory, which is dear.
func deviceSlots(n int, h *hosts, budget int64) (slots, bytes int) {
	const least, pinned, most, grain = 4 << 10, 1 << 20, 4 << 20, 4 << 10
	slots, bytes = 4, most
	switch {
	case n == 1:
		return slots, least
	case h != nil:
		n, bytes = h.most, pinned
	}
	links := 4 * max(int64(n-1), 1)
	return slots, min(max(int(budget/(links*int64(slots)))&^(grain-1), least), bytes)
}

// hostSlots is for several hosts, where links are sockets: there a chunk costs system calls at both ends, and the bytes
// under way must fill the network until the acknowledgement comes back. So slots grow, and become more, where the
// quickest link holds more than they do, and where it takes no longer for one than those calls: 20 us. They shrink, and
// become fewer where they would be small, if the quickest link takes longer than windowUs for them: connections that
// share a card do not share it evenly, and the lead of some is work that the others still have to do when those are
// done. On eight hosts with cards of 200 Mbit/s an AllReduce took 1.07 times as long as the network allows with 416 KiB
// under way on every link, and takes 1.02 times with 96 KiB (docs/lab/slow-card.md).
func hostSlots(size int, h *hosts) (slots, bytes int) {
	const (
		budget, ample    = 12 << 20, 48 << 20 // bytes of slots per rank; ample for networks that need it
		least, few, many = 4 << 10, 64 << 10, 256 << 10
		small            = 16 << 10
		maxSlots         = 32
		slotUs           = 20
		windowUs         = 4000
	)
	slots = 8
	n := len(h.ranks)
	pairs, trees := 2*size*(size-1), 2*(size-1)*min(n, directHosts)*h.leaders()
	if size > PairRanks {
		pairs = 0
	}
	links := pairs + trees
	bytes = budget * size / (links * slots)
	bytes = min(max(bytes&^(least-1), least), few)
	hold, quick := 0.0, 0.0 // bytes on the way there and back, and in slotUs
	for _, l := range h.between.Links {
		hold = max(hold, l.GBytesPerSecond*2e3*l.LatencyUs)
		quick = max(quick, l.GBytesPerSecond*1e3*slotUs)
	}
	if window := int(quick / slotUs * windowUs); slots*bytes > window {
		if window/slots < small {
			slots = 4
		}
		bytes = max(window/slots&^(least-1), least)
	}
	more := func(to *int, most int) {
		for *to < most && (float64(slots*bytes) < hold || to == &bytes && float64(bytes) < quick) &&
			2*slots*bytes*links <= ample*size {
			*to *= 2
		}
	}
	more(&bytes, many)
	more(&slots, maxSlots)
	return slots, bytes
}

// simMachine returns the constants of the machine that will run the plans.
func (s *Site) simMachine() sim.Machine {
	if s.machine.Device {
		return sim.Device(s.slots, s.slotBytes)
	}
	m := sim.Executor(s.slots, s.slotBytes, s.machine.Cores)
	if s.hosts != nil {
		m.SocketUs, m.SocketGBs = socketCosts(s.hosts.between)
		if len(s.machine.CoreHosts) == s.graph.Ranks {
			m.CoreHosts = s.machine.CoreHosts
		}
	}
	return m
}

// socketCosts estimates the cost of a message for the ranks at the ends of a socket, which is not measured separately.
// Between containers of one machine the time of a small message is all system calls and waking up; over a real network
// those are some microseconds of it: half of the quickest link's for either end, but no more than 5 us. Bytes are
// copied as quickly as they went over the quickest link, or at 2 GB/s where links are slower.
func socketCosts(between *topo.Graph) (us, gbs float64) {
	us, gbs = 5, 2
	for _, l := range between.Links {
		if l.LatencyUs > 0 {
			us = min(us, l.LatencyUs/2)
		}
		gbs = max(gbs, l.GBytesPerSecond)
	}
	return us, gbs
}

// sharesCores reports whether there are more ranks than cores. There a Barrier is a star, regardless of the price of a
// Barrier alone, as the calls after it count too: rank 0 leaves first, and when the others get a core again its
// messages since then are there already. From a flat Barrier any rank may leave first, and it then waits for a core to
// come round once more. Measured on 2 cores, flat and star: Barrier after Barrier 7.2 and 6.4 us with 4 ranks, 25 and
// 16 us with 8; Broadcast of 8 bytes after one 7.7 and 0.31 us, 17 and 0.68 us. On four hosts on two cores a Broadcast
// of 8 bytes takes 14 us after a star and 92 after a Barrier at rising distances.
func (s *Site) sharesCores() bool {
	return s.costs.Cores > 0 && s.graph.Ranks > s.costs.Cores && slices.Min(s.ranksOnCores()) == s.graph.Ranks
}

// ranksOnCores returns how many ranks share the cores of a machine, by rank or for all.
func (s *Site) ranksOnCores() []int {
	switch {
	case s.costs.CoreHosts != nil:
		return numbers.GroupSizes(s.costs.CoreHosts)
	case s.hosts != nil:
		return numbers.GroupSizes(s.graph.Hosts)
	}
	return []int{s.graph.Ranks}
}

// oversubscribedRanks is the number of ranks on a core above which cores are oversubscribed. AllReduce on four
// hosts takes 25 prices for all sizes, and 2 to 5 for one.
const oversubscribedRanks = 4

// Oversubscribed reports whether a machine has more than oversubscribedRanks ranks per core, so that one rank should
// choose for all of them, and for all sizes: a choice by each rank would take longer.
func (s *Site) Oversubscribed() bool {
	return s.costs.Cores > 0 && slices.Max(s.ranksOnCores()) > oversubscribedRanks*s.costs.Cores
}
