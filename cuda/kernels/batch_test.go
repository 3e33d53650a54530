package kernels_test

import (
	"math/rand/v2"
	"slices"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/kernel"
)

// batch is the work of a launch, with its arrays as places in some memory.
type batch struct {
	work    kernel.Work
	n, room int
	each    []batchPart
}

type batchPart struct {
	to, from []int
	n        int
	scaled   int
}

// newBatch makes one or two parts of up to n elements each, at random places.
func newBatch(r *rand.Rand, d kernel.DType, op kernel.Op, n int) (b batch) {
	size := d.Size()
	b.work, b.n = kernel.Work{DType: d, Op: op}, n
	fill(r, d, b.work.Factor[:])
	for range 1 + r.IntN(2) {
		p := batchPart{n: n}
		if len(b.each) > 0 {
			p.n = r.IntN(n + 1)
		}
		most := 5
		if r.IntN(4) == 0 {
			most = 16
		}
		for _, at := range places(r, most+3, p.n*size, size) {
			if at += b.room; len(p.from) < most {
				p.from = append(p.from, at)
			} else {
				p.to = append(p.to, at)
			}
		}
		b.room += room(most+3, p.n*size) + 64
		p.from, p.to = p.from[:1+r.IntN(most)], p.to[:1+r.IntN(3)]
		if r.IntN(3) == 0 {
			p.scaled = 1 + r.IntN(len(p.from))
		}
		if r.IntN(3) == 0 { // into a source
			p.to[r.IntN(len(p.to))] = p.from[r.IntN(len(p.from))]
		}
		b.each = append(b.each, p)
	}
	if most := kernels.MaxArrays; len(b.each) == 2 &&
		len(b.each[0].from)+len(b.each[0].to)+len(b.each[1].from)+len(b.each[1].to) > most {
		b.each = b.each[:1]
	}
	return b
}

// parts returns the parts, given where the memory lies.
func (b *batch) parts(at func(offset int) cuda.Addr) (all []kernels.Part) {
	for _, p := range b.each {
		one := kernels.Part{Bytes: int64(p.n * b.work.DType.Size()), Scaled: p.scaled}
		for _, x := range p.to {
			one.To = append(one.To, at(x))
		}
		for _, x := range p.from {
			one.From = append(one.From, at(x))
		}
		all = append(all, one)
	}
	return all
}

// do does the work of the launch on the host.
func (b *batch) do(memory []byte) {
	d := b.work.DType
	for _, p := range b.each {
		n := p.n * d.Size()
		var value []byte
		for i, from := range p.from {
			x := slices.Clone(memory[from:][:n])
			if i+1 == p.scaled {
				kernel.ScaleCopy(d, x, x, b.work.Factor)
			}
			if i == 0 {
				value = x
			} else {
				kernel.Reduce(b.work.Op, d, value, value, x)
			}
		}
		for _, to := range p.to {
			copy(memory[to:][:n], value)
		}
	}
}
