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

// maxArrays is the largest number of arrays that one launch combines, and of those to which it stores the values.
const maxArrays = 16 // launches of up to kernels.MaxArrays have room for both

// move enqueues the kernels of the steps: mostly one.
func (x *executor) move(s *stream, j uint32) error {
	x.parts, x.addrs = x.parts[:0], x.addrs[:0]
	for _, st := range x.active {
		if p := x.part(st, j); p.Bytes > 0 && len(p.To) > 0 {
			if err := x.add(s, p, st.track); err != nil {
				return err
			}
		}
	}
	return x.launch(s)
}

// part returns the kernel part by which a step processes chunk j.
func (x *executor) part(st *step, j uint32) (p kernels.Part) {
	at, n := x.spans[st.lane].Chunk(int(j))
	first := len(x.addrs)
	for i, a := range st.Args {
		if a.Received() {
			x.addrs = append(x.addrs, x.links.payload(&st.ins[i], j))
			p.Where = max(p.Where, x.links.states[st.ins[i].lender].where)
			continue
		}
		if x.addrs = append(x.addrs, x.buffer(st, a.Buf, a.Part, at)); x.call.Scale && a.Buf == plan.In {
			p.Scaled = i + 1
		}
	}
	args := len(x.addrs)
	if st.Dst != plan.None {
		x.addrs = append(x.addrs, x.buffer(st, st.Dst, st.DstPart, at))
	}
	for i := range st.outs {
		x.addrs = append(x.addrs, x.links.payload(&st.outs[i].use, j))
		p.Where = max(p.Where, x.links.states[st.outs[i].lender].where)
	}
	p.From, p.To, p.Bytes = x.addrs[first:args:args], x.addrs[args:], int64(n)
	if len(p.From) == 1 && p.Scaled == 0 {
		p.To = slices.DeleteFunc(p.To, func(a cuda.Addr) bool { return a == p.From[0] })
	}
	return p
}

// add lets a part be in the next launch, or in several where it has too many arrays for one: each carries the farthest
// array of all.
func (x *executor) add(s *stream, p kernels.Part, track int) error {
	after := false
	for len(p.From) > maxArrays {
		acc := p.To[0]
		if slices.Contains(p.From[maxArrays:], acc) {
			acc = x.scratch.at(track, scratchSum) // it would be lost before its turn
		}
		one := kernels.Part{To: []cuda.Addr{acc}, From: p.From[:maxArrays], Bytes: p.Bytes, Where: p.Where}
		if p.Scaled <= maxArrays {
			one.Scaled, p.Scaled = p.Scaled, 0
		} else {
			p.Scaled -= maxArrays - 1
		}
		if err := x.put(s, one, after); err != nil {
			return err
		}
		p.From, after = append([]cuda.Addr{acc}, p.From[maxArrays:]...), true
	}
	for to := range slices.Chunk(p.To, maxArrays) {
		p.To = to
		if err := x.put(s, p, after); err != nil {
			return err
		}
		p.From, p.Scaled, after = to[:1], 0, true // which the others get
	}
	return nil
}

// put lets a part be in the next launch, after all before where it needs their results.
func (x *executor) put(s *stream, p kernels.Part, after bool) (err error) {
	if after || !kernels.Fit(append(x.parts, p)) {
		err = x.launch(s)
	}
	x.parts = append(x.parts, p)
	return err
}

// launch enqueues the parts that were added.
func (x *executor) launch(s *stream) error {
	if len(x.parts) == 0 {
		return nil
	}
	err := x.kernels.Run(s.Stream, &x.call.Work, x.parts)
	x.parts = x.parts[:0]
	return err
}
