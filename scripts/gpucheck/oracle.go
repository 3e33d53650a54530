package main

import (
	"fmt"
	"math"

	"github.com/treerun/treerun/collective"
)

// The oracle: what every element must be, computed rank by rank in integers. Inputs
// are small and such that every type holds every partial result exactly, so that
// the order of the additions does not matter, and what integers wrap wraps once, at
// the end.

// value is element i of what rank r of n gives, for an operation.
func value(op string, r, i, n int) int64 {
	switch op {
	case "prod":
		if (i+r)%5 == 0 {
			return 2
		}
		return 1
	case "avg": // n divides the sum
		if r == 0 {
			return int64(i%5 + n)
		}
		return int64(i % 5)
	case "min", "max":
		return int64((7*r + i) % 11)
	}
	return int64((r+i)%5 + 1)
}

// factor is what rank r multiplies its input by, beforehand.
func factor(r int) int64 { return int64(r%3 + 1) }

// combined is element i of the result of an operation over n ranks.
func combined(op string, i, n int) int64 {
	total := value(op, 0, i, n)
	if op == "premul" {
		total *= factor(0)
	}
	for r := 1; r < n; r++ {
		v := value(op, r, i, n)
		switch op {
		case "prod":
			total *= v
		case "min":
			total = min(total, v)
		case "max":
			total = max(total, v)
		case "premul":
			total += v * factor(r)
		default:
			total += v
		}
	}
	if op == "avg" {
		total /= int64(n)
	}
	return total
}

// number is the T of an integer: exact in floats, wrapped in integers.
func number[T collective.Number](v int64) T {
	var zero T
	switch any(zero).(type) {
	case collective.Float16:
		return T(half(float32(v)))
	case collective.BFloat16:
		return T(math.Float32bits(float32(v)) >> 16)
	}
	return T(v)
}

// half returns the binary16 of a number that it has exactly, in its normal range or
// 0.
func half(f float32) uint16 {
	x := math.Float32bits(f)
	if x<<1 == 0 {
		return 0
	}
	const bias, dropped = 127 - 15, 13
	return uint16(x>>31<<15 | (x&^(1<<31)-bias<<23)>>dropped)
}

// block is a part of a result: count elements of it, from element at on, are those
// from element offset on of what rank from gave, or of what all gave combined, for
// -1.
type block struct{ at, count, from, offset int }

// lengths returns how many elements a rank gives and gets.
func (c *testCase) lengths(rank, n int) (send, recv int) {
	switch c.Kind {
	case "allgather":
		return c.Count, c.Count * n
	case "reducescatter":
		return c.Count * n, c.Count
	}
	return c.Count, c.Count
}

// blocks returns what the result on a rank consists of; nothing where it gets none.
func (c *testCase) blocks(rank, n int) []block {
	switch {
	case c.Kind == "allreduce", c.Kind == "reduce" && rank == c.Root:
		return []block{{0, c.Count, -1, 0}}
	case c.Kind == "broadcast":
		return []block{{0, c.Count, c.Root, 0}}
	case c.Kind == "reducescatter":
		return []block{{0, c.Count, -1, rank * c.Count}}
	case c.Kind == "allgather":
		var all []block
		for r := range n {
			all = append(all, block{r * c.Count, c.Count, r, 0})
		}
		return all
	}
	return nil
}

// testCase is a device call, the same on all ranks.
type testCase struct {
	Kind, Type, Op string
	Count          int // elements, of one part where there are parts
	Root           int
	InPlace        bool
	Registered     bool // the memory is, where that changes anything
}

func (c *testCase) String() string {
	s := fmt.Sprintf("%s of %d %s", c.Kind, c.Count, c.Type)
	if c.Op != "" {
		s += ", " + c.Op
	}
	if c.Kind == "reduce" || c.Kind == "broadcast" {
		s += fmt.Sprintf(", root %d", c.Root)
	}
	if c.InPlace {
		s += ", in place"
	}
	if c.Registered {
		s += ", registered"
	}
	return s
}

var (
	kinds  = []string{"allreduce", "reduce", "broadcast", "allgather", "reducescatter"}
	types  = []string{"int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64"}
	ops    = []string{"sum", "prod", "min", "max", "avg", "premul"}
	counts = []int{0, 1, 7, 1000, 100003}
)

// allCases lists every call on n ranks: kinds, types, operations and counts, in place
// and not, from one root after the other; long ones once more in registered memory,
// where others read it.
func allCases(n int) []testCase {
	var all []testCase
	for _, kind := range kinds {
		of := ops
		if kind == "broadcast" || kind == "allgather" {
			of = []string{""}
		}
		for _, op := range of {
			for _, typ := range types {
				for _, count := range counts {
					for _, inPlace := range []bool{false, true} {
						k := testCase{Kind: kind, Type: typ, Op: op, Count: count, Root: len(all) % n, InPlace: inPlace}
						all = append(all, k)
						if k.Registered = count >= 100_000 && kind != "reduce" && kind != "broadcast"; k.Registered {
							all = append(all, k)
						}
					}
				}
			}
		}
	}
	return all
}
