package collective

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/treerun/treerun/collective/internal/exec"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/sim"
	"github.com/treerun/treerun/topo"
)

// planHosts is newPlanner for several hosts: the trees over hosts, the lanes for
// all shapes that are offered, and the first choices.
func (p *planner) planHosts(cfg *config, d *decision) error {
	h := p.hosts
	p.only = cfg.shape
	p.offered = h.offered(p.size)
	if s := cfg.shape; s != nil && h.reaches(*s, p.size) && !slices.Contains(p.offered, *s) {
		p.offered = append(p.offered, *s)
	}
	if d != nil {
		if err := h.take(d.Sets); err != nil {
			return err
		}
	} else if err := h.find(p.offered); err != nil {
		return err
	}
	if err := h.open(&p.lanes, p.offered); err != nil {
		return err
	}
	p.openPairs()
	if p.slots == 0 {
		p.slots, p.slotBytes = hostSlots(p.size, len(p.lanes.links), h.between)
	}
	p.machine = p.machineOf(cfg)
	p.machine.SocketUs, p.machine.SocketGBs = socketCosts(h.between)
	if len(cfg.boxes) == p.size {
		p.machine.Boxes = cfg.boxes
	}
	if err := p.slenderize(); err != nil {
		return err
	}
	if d != nil {
		return p.follow(d)
	}
	return p.chooseFirst()
}

// slimRanks is up to how many ranks plans are priced and proved as they are.
const slimRanks = 64

// slenderize makes p.slim where there are many ranks. What the others of a host
// do is little beside the network, and would take as many times longer to
// simulate.
func (p *planner) slenderize() error {
	h := p.hosts
	if p.size <= slimRanks || h.most == 1 {
		return nil
	}
	g := *h.between
	n := len(h.ranks)
	g.Hosts = make([]int, n)
	one := &hosts{between: h.between, even: h.even, most: 1, carriers: 1, sets: h.sets, place: make([]int, n)}
	for a := range n {
		g.Hosts[a] = a
		one.ranks, one.host = append(one.ranks, []int{a}), append(one.host, a)
	}
	x, err := sim.NewPricer(&g)
	machine := p.machine
	if machine.Boxes != nil {
		machine.Boxes = make([]int, n)
		for a, ranks := range h.ranks {
			machine.Boxes[a] = p.machine.Boxes[ranks[0]]
		}
	}
	p.slim = &planner{rank: p.rank, size: n, graph: &g, hosts: one, machine: machine, pricer: x, slots: p.slots, slotBytes: p.slotBytes}
	return err
}

// hostSlots is slotShape for several hosts, where links are sockets: there a
// chunk costs system calls at both ends, and what is under way must fill the
// network while the word of it comes back. So slots grow, and become more, where
// the quickest link holds more than they do, and where it takes no longer for one
// than those calls: 20 us.
func hostSlots(size, links int, between *topo.Graph) (slots, bytes int) {
	const (
		budget, ample    = 12 << 20, 48 << 20 // bytes of slots per rank; ample for networks that need it
		least, few, many = 4 << 10, 64 << 10, 256 << 10
		mostSlots        = 32
		slotUs           = 20
	)
	slots = 8
	if links == 0 {
		return slots, least
	}
	bytes = budget * size / (links * slots)
	bytes = min(max(bytes&^(least-1), least), few)
	hold, quick := 0.0, 0.0 // bytes on the way there and back, and in slotUs
	for _, l := range between.Links {
		hold = max(hold, l.GBytesPerSecond*1e3*2*l.LatencyUs)
		quick = max(quick, l.GBytesPerSecond*1e3*slotUs)
	}
	more := func(to *int, most int) {
		for *to < most && (float64(slots*bytes) < hold || to == &bytes && float64(bytes) < quick) && 2*slots*bytes*links <= ample*size {
			*to *= 2
		}
	}
	more(&bytes, many)
	more(&slots, mostSlots)
	return slots, bytes
}

// socketCosts estimates what a message costs the ranks at the ends of a socket,
// which nobody measures by itself. Between containers of one machine the time of a
// small message is all system calls and waking up; over a real network those are
// some microseconds of it: half of the quickest link's for either end, but no more
// than 5 us. Bytes are copied as quickly as they went over the quickest link, or at
// 2 GB/s where links are slower.
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

// reaches reports whether shape s can be had on these hosts of so many ranks in
// all, though it may not be worth its while.
func (h *hosts) reaches(s shape, size int) bool {
	n := len(h.ranks)
	switch s {
	case flat, directOne, directMany:
		return size <= pairRanks
	case leaders:
		return n <= pairRanks
	case hostsDirect:
		return n <= directHosts
	case hostsPacked:
		return n <= packedHosts
	}
	return s >= shapes
}

// fittingHosts returns the shapes in which kind can run on several hosts: the one
// that a setting says, or all that are offered.
func (p *planner) fittingHosts(kind plan.Kind) []shape {
	if p.only != nil && slices.Contains(p.offered, *p.only) && p.hosts.fits(kind, *p.only) {
		return []shape{*p.only}
	}
	var list []shape
	for _, s := range p.offered {
		if p.hosts.fits(kind, s) {
			list = append(list, s)
		}
	}
	return list
}

// chunkings are what plans between hosts are priced with; the best counts, from
// one chunk of a small message to many. Small chunks fill deep trees sooner, large
// ones cost fewer system calls: with 8 KiB ranks on two cores took 1.5 times the
// processor time of 32 KiB, and that was the limit. Four hosts on those cores,
// without limits between them, took 117 us for a Broadcast of 32 KiB in four
// chunks, and 30 in one; an AllReduce of 256 KiB 450 and 250.
var chunkings = [...]exec.Chunks{{Most: 128 << 10, Least: 128 << 10}, {Most: 128 << 10}, {Most: 32 << 10}}

// worthSmaller is the part of the time that smaller chunks must save: they take
// more of the processors, which others may want.
const worthSmaller = 0.015

// priced bounds what a price may cost: a few milliseconds.
var priced = sim.Limits{Steps: 4000, Chunks: 32}

// priceHosts returns what a message takes with plan m, and the chunks it takes
// that with.
func (p *planner) priceHosts(m *plan.Plan, bytes int64, worse float64) (us float64, chunks exec.Chunks, err error) {
	us = math.Inf(1)
	least, err := p.pricer.LeastUs(m, bytes, p.machine)
	if err != nil || least > worse {
		return us, chunks, err
	}
	share, before := widestShare(m, bytes), 0
	for _, c := range chunkings {
		c.Most, c.Least = min(c.Most, p.slotBytes), min(c.Least, p.slotBytes)
		size := min(c.Of(share, p.slotBytes), max(share, 1))
		if size == before {
			continue // the same chunks
		}
		before = size
		machine, most := p.machine, priced
		machine.SlotBytes, machine.MinChunk = c.Most, max(c.Least, machine.MinChunk)
		if most.Us = us; math.IsInf(us, 1) && !math.IsInf(worse, 1) {
			most.Us = 2 * worse // smaller chunks may yet be better
		}
		v, err := p.pricer.Us([]sim.Operation{{Plan: m, Bytes: bytes}}, machine, most)
		if err != nil {
			return 0, chunks, fmt.Errorf("price of plan %s: %w", m.Name, err)
		}
		if v > us*(1-worthSmaller) {
			break // nor would even smaller ones be worth it
		}
		us, chunks = v, c
	}
	return us, chunks, nil
}

// chooseHosts is choose for several hosts. It tries few sizes, and those between
// two of them only where they choose differently.
func (p *planner) chooseHosts(kind plan.Kind, fitting []shape) ([]choice, error) {
	switch {
	case kind == plan.Barrier && slices.Contains(fitting, starShape) && (len(fitting) == 1 || p.sharesBox()):
		return []choice{{below: math.MaxInt, shape: starShape}}, nil
	case kind == plan.Barrier:
		fitting = slices.DeleteFunc(slices.Clone(fitting), func(s shape) bool { return s == starShape }) // only for what follows it
		best, err := p.cheapest(kind, fitting, 0)
		return []choice{best}, err
	case slices.Contains(fitting, directOne):
		return pairwise(kind, p.size, fitting), nil
	}
	const steps, apart = 11, 4 // from 8 bytes to 32 MiB, by four times each
	at := func(i int) int64 { return leastPriced << (2 * i) }
	best := make([]*choice, steps+1)
	try := func(i int) error {
		order := fitting
		if i >= apart && best[i-apart] != nil { // that one first: it may spare the others
			order = slices.Clone(fitting)
			slices.SortStableFunc(order, func(a, b shape) int {
				if (a == best[i-apart].shape) == (b == best[i-apart].shape) {
					return 0
				} else if a == best[i-apart].shape {
					return -1
				}
				return 1
			})
		}
		c, err := p.cheapest(kind, order, at(i))
		best[i] = &c
		return err
	}
	var between func(i, k int) error
	between = func(i, k int) error {
		if k-i < 2 {
			return nil
		}
		if best[i].shape == best[k].shape && best[i].chunks == best[k].chunks {
			for m := i + 1; m < k; m++ {
				best[m] = best[i]
			}
			return nil
		}
		m := (i + k) / 2
		return cmp.Or(try(m), between(i, m), between(m, k))
	}
	for i := 0; i <= steps; i = min(i+apart, steps) {
		if err := try(i); err != nil {
			return nil, err
		}
		if i > 0 {
			if err := between(max(0, (i-1)/apart*apart), i); err != nil {
				return nil, err
			}
		}
		if i == steps {
			break
		}
	}
	for i := steps - 1; i >= 0; i-- { // a size stands for those up to the next one, too
		if same, err := p.sameChunks(kind, best[i], best[i+1], at(i)); err != nil {
			return nil, err
		} else if same {
			c := *best[i]
			c.chunks = best[i+1].chunks
			best[i] = &c
		}
	}
	var all []choice
	for i, c := range best {
		all = chosenFrom(all, at(i), *c)
	}
	return all, nil
}

// sameChunks reports whether messages of this size have chunks of one size by both
// choices, which may allow larger ones of larger messages: then the price of this
// size says nothing for the one and against the other. On four hosts of 500 Mbit/s
// an AllReduce of 1 MiB took 27.7 ms in the chunks of 64 KiB that 512 KiB allowed,
// and 27.1 in those of 32 KiB that paid from 2 MiB on.
func (p *planner) sameChunks(kind plan.Kind, a, b *choice, bytes int64) (bool, error) {
	if a.shape != b.shape || a.chunks == b.chunks || a.chunks.Least != b.chunks.Least {
		return false, nil
	}
	of, root := p, 0
	if p.slim != nil && a.shape >= shapes {
		of, root = p.slim, p.hosts.host[0]
	}
	m, err := of.planFor(kind, root, a.shape)
	if err != nil {
		return false, err
	}
	share := widestShare(m.plan, bytes)
	return a.chunks.Of(share, p.slotBytes) == b.chunks.Of(share, p.slotBytes), nil
}

// widestShare is what the widest lane of a plan carries of a message, in bytes.
func widestShare(m *plan.Plan, bytes int64) int {
	_, widest := sim.Weigh(m)
	return int(float64(bytes) * widest)
}

// sharesBox is sharesCores where all hosts are one machine: see there. On four hosts
// on two cores a Broadcast of 8 bytes takes 14 us after a star and 92 after a Barrier
// at rising distances, and an AllReduce 31 and 88.
func (p *planner) sharesBox() bool {
	boxes := p.machine.Boxes
	return p.sharesCores() && len(boxes) == p.size && !slices.ContainsFunc(boxes, func(b int) bool { return b != boxes[0] })
}

// pairwise chooses for what goes from rank to rank, which takes long to price and
// has little to choose: in an AllToAll of parts that take several chunks nobody is
// to wait for the slowest of the others.
func pairwise(kind plan.Kind, size int, fitting []shape) []choice {
	const chunk = 8 << 10
	all := []choice{{below: math.MaxInt, shape: directOne, us: math.NaN()}}
	if kind == plan.AllToAll && slices.Contains(fitting, directMany) {
		all[0].below = chunk * size
		all = append(all, choice{below: math.MaxInt, shape: directMany, us: math.NaN()})
	}
	return all
}
