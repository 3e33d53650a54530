package setup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/probe"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/shm"
)

// Part is a communicator that ranks of another one are about to make in the memory of that one, where all are on one
// host: its ranks inherit what they have agreed on and measured. Every rank sends its Terms to the others, and then
// whether it has opened its links. If any rank has not, all make the communicator by New.
type Part struct {
	of     *Setup
	config *Config
	offer  *shm.Offer // nil: this rank cannot make it
}

// TermsBytes is the length of the Terms of a rank: its room, and a digest of its settings.
const TermsBytes = 24

// inherit takes over the settings that a communicator of ranks of s has unless it gets others. The graphs are still
// those of all ranks.
func (s *Setup) inherit(c *Config) {
	of := s.Config
	c.Connect, c.HeapBytes = of.Connect, s.HeapBytes
	c.Stall, c.StallTimeout, c.Logger = of.Stall, of.StallTimeout, of.Logger
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
	ep, is := s.Endpoint.(*shm.Endpoint)
	if !is || !OneHost(HostsOf(s.World)) {
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
		copy(terms[8:], digest[:])
		binary.LittleEndian.PutUint64(terms, uint64(p.offer.Room))
	}
	return terms
}

// Make makes the communicator of w, whose members have sent these terms, or send them now if terms is nil. It returns
// nil, without an error, on all ranks if any of them cannot.
func (p *Part) Make(ctx context.Context, w *SubWorld, terms []byte) (*Setup, error) {
	if !OneHost(HostsOf(p.of.World)) { // on all ranks
		return nil, nil
	}
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
	made := p.join(w, int(binary.LittleEndian.Uint64(terms)))
	if made != nil {
		joined[0] = 1
	}
	err := w.Gather(ctx, joined, all)
	if err == nil && !bytes.Contains(all, []byte{0}) {
		return made, nil
	}
	if made == nil { // a rank that has used the room leaves it with its end of the links
		p.Drop(err == nil && (w.rank > 0 || !bytes.Contains(all, []byte{1})))
		return nil, err
	}
	made.Waiter.Watch.Close()
	if err != nil { // other ranks may have returned from their Gather
		return nil, closeFailed(ctx, w, made.Endpoint, err)
	}
	return nil, made.Endpoint.Close()
}

// join opens this rank's links of w, which are in a room; nil: it cannot.
func (p *Part) join(w *SubWorld, room int) *Setup {
	c, cores := p.config, p.of.Plans.machine.Cores
	if c.narrow(w.Members); c.Graph == nil {
		return nil
	}
	m := planner.Machine{Cores: cores, Slots: c.Slots, SlotBytes: c.SlotBytes}
	of := planned{plans: newPlans(whole(c.Graph), w.rank, m, c.Planning)}
	if of.plans.err != nil {
		return nil
	}
	l := links{layout: transport.Layout{Size: w.Size(), HeapBytes: c.HeapBytes}}
	l.layout.Slots, l.layout.SlotBytes = of.plans.Planner.Site.Slots()
	ep, err := p.offer.Join(room, w.Members, l.layout, w.rank)
	if err != nil {
		return nil
	}
	l.ep = ep
	s := &setup{world: w, rank: w.rank, size: w.Size(), hosts: w.hosts, config: c}
	var name string
	s.wait, name = c.watchFor(w)
	return s.made(name, of, l, w.Size() > cores, probe.Gains{}, p.of.lending)
}
