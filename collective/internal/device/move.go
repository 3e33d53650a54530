package device

import (
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/kernel"
)

// Kernels are the kernels of one device, enqueued on a stream of it. *kernels.Set has them.
type Kernels interface {
	Run(s *cuda.Stream, w *kernel.Work, parts []kernels.Part) error
	Divide(s *cuda.Stream, dtype kernel.DType, dst, src cuda.Addr, n, divisor int64) error
}

// most is the largest number of arrays that one launch combines, and of those to which it stores the values.
const most = 16 // launches of up to kernels.MaxArrays have room for both

// move enqueues the kernels of some steps: mostly one.
func (g *Group) move(s *lineup, c *Call, steps []*todo, j uint32) error {
	g.parts, g.addrs = g.parts[:0], g.addrs[:0]
	for _, do := range steps {
		if p := g.part(c, do, j); p.Bytes > 0 && len(p.To) > 0 {
			if err := g.add(s, c, p, do.track); err != nil {
				return err
			}
		}
	}
	return g.launch(s, c)
}

// part returns the kernel part by which a step processes chunk j.
func (g *Group) part(c *Call, do *todo, j uint32) (p kernels.Part) {
	at, n := g.spans[do.lane].Chunk(int(j))
	first := len(g.addrs)
	for i, a := range do.Args {
		if a.Received() {
			g.addrs = append(g.addrs, g.payload(&do.ins[i], j))
			p.Where = max(p.Where, g.links[do.ins[i].lender].where)
			continue
		}
		if g.addrs = append(g.addrs, g.buffer(c, do, a.Buf, a.Part, at)); c.Scale && a.Buf == plan.In {
			p.Scaled = i + 1
		}
	}
	args := len(g.addrs)
	if do.Dst != plan.None {
		g.addrs = append(g.addrs, g.buffer(c, do, do.Dst, do.DstPart, at))
	}
	for i := range do.outs {
		g.addrs = append(g.addrs, g.payload(&do.outs[i].use, j))
		p.Where = max(p.Where, g.links[do.outs[i].lender].where)
	}
	p.From, p.To, p.Bytes = g.addrs[first:args:args], g.addrs[args:], int64(n)
	if len(p.From) == 1 && p.Scaled == 0 {
		p.To = slices.DeleteFunc(p.To, func(a cuda.Addr) bool { return a == p.From[0] })
	}
	return p
}

// add lets a part be in the next launch, or in several where it has too many arrays for one: each carries the farthest
// array of all.
func (g *Group) add(s *lineup, c *Call, p kernels.Part, track int) error {
	after := false
	for len(p.From) > most {
		acc := p.To[0]
		if slices.Contains(p.From[most:], acc) {
			acc = g.scratch.at(track, scratchSum) // it would be lost before its turn
		}
		one := kernels.Part{To: []cuda.Addr{acc}, From: p.From[:most], Bytes: p.Bytes, Where: p.Where}
		if p.Scaled <= most {
			one.Scaled, p.Scaled = p.Scaled, 0
		} else {
			p.Scaled -= most - 1
		}
		if err := g.put(s, c, one, after); err != nil {
			return err
		}
		p.From, after = append([]cuda.Addr{acc}, p.From[most:]...), true
	}
	for to := range slices.Chunk(p.To, most) {
		p.To = to
		if err := g.put(s, c, p, after); err != nil {
			return err
		}
		p.From, p.Scaled, after = to[:1], 0, true // which the others get
	}
	return nil
}

// put lets a part be in the next launch, after all before where it needs their results.
func (g *Group) put(s *lineup, c *Call, p kernels.Part, after bool) (err error) {
	if after || !kernels.Fit(append(g.parts, p)) {
		err = g.launch(s, c)
	}
	g.parts = append(g.parts, p)
	return err
}

// launch enqueues the parts that were added.
func (g *Group) launch(s *lineup, c *Call) error {
	if len(g.parts) == 0 {
		return nil
	}
	err := g.cfg.Kernels.Run(s.Stream, &c.Work, g.parts)
	g.parts = g.parts[:0]
	return err
}
