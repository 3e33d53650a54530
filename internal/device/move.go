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

// most is how many arrays one launch combines, and to how many it stores the values.
const most = 16

// move enqueues the kernels of a step: mostly one.
func (g *Group) move(s *lineup, c *Call, do *todo, sp *span, j uint32) error {
	at, n := sp.chunk(j)
	if n <= 0 {
		return nil
	}
	p := kernels.Part{To: g.targets[:0], From: g.addrs[:0], Bytes: n}
	for i, a := range do.Args {
		if a.Received() {
			p.From = append(p.From, g.payload(&do.ins[i], j))
			continue
		}
		if p.From = append(p.From, g.buffer(c, do, a.Buf, a.Part, at)); c.Scale && a.Buf == plan.In {
			p.Scaled = i + 1
		}
	}
	if do.Dst != plan.None {
		p.To = append(p.To, g.buffer(c, do, do.Dst, do.DstPart, at))
	}
	for i := range do.outs {
		p.To = append(p.To, g.payload(&do.outs[i].use, j))
	}
	g.addrs, g.targets = p.From, p.To
	if len(p.To) == 0 {
		return nil
	}
	return g.combine(s, c, p, do.track)
}

// combine does a part, in more than one launch where it has too many arrays for one.
func (g *Group) combine(s *lineup, c *Call, p kernels.Part, track int) error {
	for len(p.From) > most {
		acc := p.To[0]
		if slices.Contains(p.From[most:], acc) {
			acc = g.scratch.at(track, scratchSum) // it would be lost before its turn
		}
		one := kernels.Part{To: []cuda.Addr{acc}, From: p.From[:most], Bytes: p.Bytes}
		if p.Scaled <= most {
			one.Scaled, p.Scaled = p.Scaled, 0
		} else {
			p.Scaled -= most - 1
		}
		if err := g.launch(s, c, one); err != nil {
			return err
		}
		p.From = append([]cuda.Addr{acc}, p.From[most:]...)
	}
	if len(p.From) == 1 && p.Scaled == 0 {
		p.To = slices.DeleteFunc(p.To, func(a cuda.Addr) bool { return a == p.From[0] })
	}
	for to := range slices.Chunk(p.To, most) {
		p.To = to
		if err := g.launch(s, c, p); err != nil {
			return err
		}
		p.From, p.Scaled = to[:1], 0 // which the others get
	}
	return nil
}

func (g *Group) launch(s *lineup, c *Call, p kernels.Part) error {
	g.parts = append(g.parts[:0], p)
	return g.cfg.Kernels.Run(s.Stream, &c.Work, g.parts)
}
