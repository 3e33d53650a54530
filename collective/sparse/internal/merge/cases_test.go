package merge

import (
	"fmt"
	"math/rand/v2"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
)

// Case is one AllReduce.
type Case struct {
	Name string
	*Tensors
}

// Cases returns cases for the given number of ranks, with blocks of size elements and tensors of about the given number
// of blocks: all in float32 except those about types.
func Cases(ranks, size, blocks int) []Case {
	r := rand.New(rand.NewPCG(uint64(ranks), uint64(blocks)))
	var all []Case
	zeros := func(elements int) *Tensors {
		return New(ranks, block.Grid{Elements: elements, Size: size}, kernel.Sum, kernel.Float32)
	}
	add := func(name string, x *Tensors) { all = append(all, Case{name, x}) }
	whole := size * blocks
	steps := block.NewSet(blocks)
	for b := 2; b < blocks; b += 3 + b%7 {
		steps.Add(b)
	}
	last := blocks - 1
	for _, c := range []struct {
		name     string
		elements int
		has      func(v, b int) bool // whether block b of rank v is not zero
	}{
		{"all zero on all", whole, func(int, int) bool { return false }},
		{"all zero on one", whole, func(v, _ int) bool { return v < ranks-1 && r.Float64() < 0.3 }},
		{"one block at the end, on one", whole, func(v, b int) bool { return v == ranks/2 && b == last }},
		{"one element at the end, on all", whole - size + 1, func(_, b int) bool { return b == last }},
		{"first block zero, the rest full", whole, func(_, b int) bool { return b > 0 }},
		{"all full", whole, func(int, int) bool { return true }},
		{"full on one, zero on the others", whole, func(v, _ int) bool { return v == 0 }},
		{"disjoint", whole, func(v, b int) bool { return v == b%ranks }},
		{"identical", whole, func(_, b int) bool { return steps.Has(b) }},
		{"a cluster", whole, func(v, b int) bool {
			return v == b%2%ranks && b >= blocks/2 && b < blocks/2+blocks/5
		}},
		{"columns that end long before others", whole, func(v, b int) bool {
			return v == b%ranks && (b < blocks/10 || b%8 == 1)
		}},
	} {
		x := zeros(c.elements)
		for v := range ranks {
			for b := range blocks {
				if c.has(v, b) {
					x.Put(v, b, r)
				}
			}
		}
		add(c.name, x)
	}
	add("unequal density", zeros(whole).Random(r, 0.01, 0.5, 0.1, 0.9))
	add("random", zeros(whole).Random(r, 0.1))
	for _, n := range []int{0, 1, size - 1, size, size + 1, whole - 1, whole + 1, whole/2 + size/2} {
		if n >= 0 {
			add(fmt.Sprintf("%d elements", n), zeros(n).Random(r, 0.4))
		}
	}
	for _, dt := range Types {
		for _, op := range Ops {
			g := block.Grid{Elements: whole - 1, Size: size}
			add(fmt.Sprintf("%v %v", op, dt), New(ranks, g, op, dt).Random(r, 0.3))
			add(fmt.Sprintf("odd numbers, %v %v", op, dt), New(ranks, g, op, dt).odd(r))
		}
	}
	return all
}

// odd fills blocks with Odd numbers, of one kind or mixed, and others with -0.
func (x *Tensors) odd(r *rand.Rand) *Tensors {
	counting, minus := Odd(x.DType)
	for v := range x.Sets {
		for b := range x.Grid.Blocks() {
			switch r.IntN(5) {
			case 0:
				x.PutBits(v, b, true, counting[r.IntN(len(counting))])
			case 1:
				x.PutBits(v, b, true, append([]uint64{counting[r.IntN(len(counting))], minus, 0}, counting...)...)
			case 2:
				x.PutBits(v, b, false, minus)
			}
		}
	}
	return x
}

// TwoOnOneSlot returns tensors of other lengths, types and operations, one after the other: the contents of slots must
// not reach the next one.
func TwoOnOneSlot(ranks int) []Case {
	r := rand.New(rand.NewPCG(uint64(ranks), 3))
	var all []Case
	for i, elements := range []int{1000, 7, 501, 0, 1000, 64, 333} {
		dt, op := Types[i%len(Types)], Ops[i%len(Ops)]
		x := New(ranks, block.Grid{Elements: elements, Size: 1 + i*5%9}, op, dt).Random(r, 0.3, 0.05)
		all = append(all, Case{fmt.Sprintf("%d elements, %v %v, blocks of %d", elements, op, dt, x.Grid.Size), x})
	}
	return all
}
