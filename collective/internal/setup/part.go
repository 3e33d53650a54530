package setup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/probe"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/shm"
	"github.com/treerun/treerun/transport/tcp"
)

// Part is a communicator that ranks of another one are about to make in the memory of that one, and on its connections
// between hosts: its ranks inherit what they have agreed on and measured. Every rank sends its Terms to the others, and
// then whether it has opened its links. If any rank has not, all make the communicator by New.
type Part struct {
	of     *Setup
	config *Config
	offer  *shm.Offer // nil: this rank cannot make it
	digest [16]byte   // of its settings
}

// spare has the plans and graphs of a closed Part, for the next one of the same ranks and settings.
type spare struct {
	members            []int
	digest             [16]byte
	graph, deviceGraph *topo.Graph
	plans              *Plans
}

// spares are those of the latest closed Parts of a communicator.
type spares struct {
	mu   sync.Mutex
	list []spare
}

const maxSpares = 4

// take returns the spare for such a Part, if there is one, which then is no longer one.
func (s *spares) take(members []int, digest [16]byte) (of spare, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.list, func(k spare) bool { return k.digest == digest && slices.Equal(k.members, members) })
	if i < 0 {
		return of, false
	}
	of = s.list[i]
	s.list = slices.Delete(s.list, i, i+1)
	return of, true
}

// Retire gives the plans of a closed communicator to the one that it was a Part of, if any, and else its choices to the
// next epoch. No call may run by the plans then.
func (s *Setup) Retire() {
	if s.home == nil {
		s.rememberChoices()
		return
	}
	s.retired.Store(true)
	s.Plans.mu.Lock()
	s.Plans.Planner.Detach()
	s.Plans.ordered = nil
	s.Plans.mu.Unlock()
	s.home.mu.Lock()
	defer s.home.mu.Unlock()
	s.home.list = append(s.home.list, s.spare)
	s.home.list = slices.Delete(s.home.list, 0, max(0, len(s.home.list)-maxSpares))
}

// TermsBytes is the length of the Terms of a rank: its room, and a digest of its settings.
const TermsBytes = 24

// inherit takes over the settings that a communicator of ranks of s has unless it gets others. The graphs are still
// those of all ranks.
func (s *Setup) inherit(c *Config) {
	of := s.Config
	c.Connect, c.HeapBytes = of.Connect, s.HeapBytes
	c.Stall, c.StallTimeout, c.Logger = of.Stall, of.StallTimeout, of.Logger
	c.Observe = of.Observe
	c.Graph, c.DeviceGraph = s.Plans.Graph(), of.DeviceGraph
}

// narrow makes the graphs those of some of the ranks, where they are valid.
func (c *Config) narrow(members []int) {
	for _, g := range []**topo.Graph{&c.Graph, &c.DeviceGraph} {
		if *g == nil {
			continue
		}
		if *g = (*g).Among(members); (*g).Validate() != nil {
			*g = nil
		}
	}
}

// Inherited is the Option of the settings that a communicator of w, ranks of s, has unless it gets others.
func (s *Setup) Inherited(w *SubWorld) Option {
	return func(c *Config) {
		s.inherit(c)
		c.narrow(w.Members)
		if w.Call == "Sub" { // a Split gives the same members to all
			c.Members = w.Members
		}
	}
}

// NewPart begins a communicator of ranks of s with these options. members are as this rank has given them for a Sub;
// nil: none were. Drop or Make ends it.
func (s *Setup) NewPart(members []int, opts []Option) *Part {
	p := &Part{of: s}
	ep, is := s.Endpoint.(interface{ Offer() *shm.Offer })
	if !is {
		return p
	}
	c, refused := newConfig(s.World, append([]Option{s.inherit}, opts...))
	c.Members = members
	graphs := c.Graph == s.Plans.Graph() && c.DeviceGraph == s.Config.DeviceGraph
	if refused == nil && graphs && c.Given == nil && c.File == nil {
		p.config, p.offer = c, ep.Offer()
	}
	return p
}

// Drop ends p before Make. unused means that no rank can have made the communicator.
func (p *Part) Drop(unused bool) {
	if p.offer != nil {
		p.offer.Drop(unused)
	}
}

// Terms returns this rank's Terms.
func (p *Part) Terms() []byte {
	terms := make([]byte, TermsBytes)
	if p.offer != nil {
		c := *p.config
		c.Graph, c.DeviceGraph = nil, nil // those of all ranks
		digest := sha256.Sum256(fmt.Append(nil, c.values(), c.HeapBytes))
		p.digest = [16]byte(digest[:16])
		copy(terms[8:], p.digest[:])
		binary.LittleEndian.PutUint64(terms, uint64(p.offer.Room))
	}
	return terms
}

// Make makes the communicator of w, whose members have sent these terms, or send them now if terms is nil. It returns
// nil, without an error, on all ranks if any of them cannot.
func (p *Part) Make(ctx context.Context, w *SubWorld, terms []byte) (*Setup, error) {
	if terms == nil {
		terms = make([]byte, TermsBytes*w.Size())
		if err := w.Gather(ctx, p.Terms(), terms); err != nil {
			p.Drop(false)
			return nil, err
		}
	}
	digest := func(r int) []byte { return terms[r*TermsBytes:][8:TermsBytes] }
	for r := range w.Members {
		if p.offer == nil || !bytes.Equal(digest(r), digest(w.rank)) {
			p.Drop(true)
			return nil, nil
		}
	}
	joined, all := []byte{0}, make([]byte, w.Size())
	host := neighbors(w.hosts, w.rank)
	made, opened := p.join(w, int(binary.LittleEndian.Uint64(terms[host[0]*TermsBytes:])))
	if opened {
		joined[0]++
	}
	if made != nil {
		joined[0]++
	}
	err := w.Gather(ctx, joined, all)
	if err == nil && !slices.ContainsFunc(all, func(b byte) bool { return b != 2 }) {
		return made, nil
	}
	if !opened { // a rank that has used the room leaves it with its end of the links
		used := slices.ContainsFunc(host, func(r int) bool { return all[r] > 0 })
		p.Drop(err == nil && (w.rank > host[0] || !used))
	}
	if made == nil {
		return nil, err
	}
	made.Waiter.Watch.Close()
	if err != nil { // other ranks may have returned from their Gather
		return nil, closeFailed(ctx, w, made.Endpoint, err)
	}
	return nil, made.Endpoint.Close()
}

// join opens this rank's links of w, which are in a room; nil: it cannot. opened means that it has used its offer.
func (p *Part) join(w *SubWorld, room int) (made *Setup, opened bool) {
	c, cores := p.config, p.of.Plans.machine.Cores
	kept, ok := p.of.spares.take(w.Members, p.digest)
	if ok {
		c.Graph, c.DeviceGraph = kept.graph, kept.deviceGraph
	} else {
		if c.narrow(w.Members); c.Graph == nil {
			return nil, false
		}
		m := planner.Machine{Cores: cores, Slots: c.Slots, SlotBytes: c.SlotBytes}
		m.CoreHosts = among(p.of.Plans.machine.CoreHosts, w.Members)
		plans := newPlans(whole(c.Graph), w.rank, m, c.Planning)
		if plans.err != nil {
			return nil, false
		}
		kept = spare{w.Members, p.digest, c.Graph, c.DeviceGraph, plans}
	}
	of := planned{plans: kept.plans}
	l := links{layout: transport.Layout{Size: w.Size(), HeapBytes: c.HeapBytes}}
	l.layout.Slots, l.layout.SlotBytes = of.plans.Planner.Site.Slots()
	if opened = p.open(w, &l, room); l.ep == nil {
		return nil, opened
	}
	coreHosts := among(p.of.coreHosts, w.Members)
	s := &setup{world: w, rank: w.rank, size: w.Size(), hosts: w.hosts, config: c}
	var name string
	s.wait, name = c.watchFor(w)
	made = s.made(name, of, l, slices.Max(RanksOnCores(coreHosts, w.hosts)) > cores, probe.Gains{}, p.of.lending)
	made.coreHosts, made.home, made.spare = coreHosts, p.of.spares, kept
	return made, true
}

// among returns the numbers of some ranks, of those of all; nil where these are nil.
func among(all, members []int) (some []int) {
	if all != nil {
		for _, r := range members {
			some = append(some, all[r])
		}
	}
	return some
}

// open opens the links l of w: within this rank's host in a room, between hosts with the connections of the
// communicator that w is made of. It reports whether the former are opened, or have been.
func (p *Part) open(w *SubWorld, l *links, room int) (opened bool) {
	within, members := l.layout, w.Members
	if !OneHost(w.hosts) {
		within.Members = neighbors(w.hosts, w.rank)
		members = among(w.Members, within.Members)
	}
	local, err := p.offer.Join(room, members, within, w.rank, w.id)
	if err != nil {
		return false
	}
	lookForLosses(local, w)
	if within.Members == nil {
		l.ep = local
		return true
	}
	of := p.of.Endpoint.(*tcp.Endpoint)
	if ep, err := of.Child(w.number(), w.Members, w.rank, l.layout, local); err == nil {
		l.ep = ep
	}
	return true
}
