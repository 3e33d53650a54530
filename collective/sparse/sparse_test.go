package sparse

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/testutil"
)

// pattern defines the filled blocks of a rank's tensor, and their density.
type pattern struct {
	name string
	has  func(rank, ranks, b, blocks int, r *rand.Rand) bool
}

var patterns = []pattern{
	{"all zero", func(int, int, int, int, *rand.Rand) bool { return false }},
	{"all zero on one", func(rank, _, _, _ int, r *rand.Rand) bool { return r.IntN(3) == 0 && rank != 0 }},
	{"last block of one", func(rank, ranks, b, blocks int, _ *rand.Rand) bool { return b == blocks-1 && rank == ranks-1 }},
	{"last block of all", func(_, _, b, blocks int, _ *rand.Rand) bool { return b == blocks-1 }},
	{"all but the first", func(_, _, b, _ int, _ *rand.Rand) bool { return b > 0 }},
	{"one full", func(rank, _, _, _ int, _ *rand.Rand) bool { return rank == 0 }},
	{"disjoint", func(rank, ranks, b, _ int, _ *rand.Rand) bool { return b%ranks == rank }},
	{"identical", func(_, _, b, _ int, _ *rand.Rand) bool { return b%3 == 1 }},
	{"random", func(_, _, _, _ int, r *rand.Rand) bool { return r.IntN(4) == 0 }},
	{"rare", func(_, _, _, _ int, r *rand.Rand) bool { return r.IntN(50) == 0 }},
	{"dense", func(int, int, int, int, *rand.Rand) bool { return true }},
	{"thin", func(_, _, _, _ int, r *rand.Rand) bool { return r.IntN(2) == 0 }},
	{"clustered", func(rank, _, b, blocks int, _ *rand.Rand) bool { return b >= blocks/3 && b < blocks/2+rank }},
}

// input returns the tensor of a rank: the same one on every rank.
func input[T Number](p pattern, rank, ranks, count, size int, seed uint64, one func(r *rand.Rand) T) []T {
	r := rand.New(rand.NewPCG(seed, uint64(rank)))
	out := make([]T, count)
	blocks := (count + size - 1) / size
	for b := range blocks {
		if !p.has(rank, ranks, b, blocks, r) {
			continue
		}
		for i := b * size; i < min((b+1)*size, count); i++ {
			if p.name != "thin" && r.IntN(3) > 0 || r.IntN(40) == 0 {
				out[i] = one(r)
			}
		}
	}
	return out
}

// reduceInOrder is the dense reduction of tensors in this order.
func reduceInOrder[T Number](op collective.Op, order []int, of func(rank int) []T) []T {
	var sum []T
	for i, q := range order {
		if i == 0 {
			sum = slices.Clone(of(q))
		} else if len(sum) > 0 {
			kernel.Reduce(kernel.Op(op), dtypeOf[T](), kernel.BytesOf(sum), kernel.BytesOf(sum), kernel.BytesOf(of(q)))
		}
	}
	return sum
}

// expected returns the result expected: Aggregators and Shared add in the order of the ranks, stars of Trees begin with
// their root.
func expected[T Number](form Form, c *collective.Comm, op collective.Op, size, count int, of func(rank int) []T) []T {
	ranks := make([]int, c.Size())
	for q := range ranks {
		ranks[q] = q
	}
	if form != Trees || c.Size() == 1 {
		return reduceInOrder(op, ranks, of)
	}
	a := comm.Of(c)
	g := block.Grid{Elements: count, Size: size, Width: dtypeOf[T]().Size()}
	d, err := block.NewDeal(a.Shares, max(1, stripeBytes/g.BlockBytes()))
	if err != nil {
		panic(err)
	}
	out := make([]T, count)
	for t, tree := range a.Trees {
		var along func(v int) []T
		along = func(v int) []T {
			sum := slices.Clone(of(v))
			for child, p := range tree.Parent {
				if p == v && len(sum) > 0 {
					kernel.Reduce(kernel.Op(op), dtypeOf[T](), kernel.BytesOf(sum), kernel.BytesOf(sum), kernel.BytesOf(along(child)))
				}
			}
			return sum
		}
		whole := along(tree.Root)
		for b := range g.Blocks() {
			if d.Tree(b) == t {
				copy(out[b*size:min((b+1)*size, count)], whole[b*size:])
			}
		}
	}
	return out
}

// trial makes one call and checks the result, bit by bit, and that send is unchanged.
func trial[T Number](t *testing.T, c *collective.Comm, p pattern, form Form, op collective.Op, count, size int,
	inPlace bool, one func(r *rand.Rand) T, more ...Option) error {
	seed := uint64(count)<<8 | uint64(size)
	of := func(rank int) []T { return input(p, rank, c.Size(), count, size, seed, one) }
	send := of(c.Rank())
	recv := send
	if !inPlace {
		recv = make([]T, count)
		for i := range recv {
			recv[i] = one(rand.New(rand.NewPCG(1, 2))) // old contents
		}
	}
	before := slices.Clone(send)
	stats, err := AllReduce(t.Context(), c, send, recv, op, append(more, Use(form), BlockSize(size))...)
	what := fmt.Sprintf("%v %s, %v of %d %v in blocks of %d, in place %v", form, p.name, op, count, dtypeOf[T](), size,
		inPlace)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	want := expected(form, c, op, size, count, of)
	if got := kernel.BytesOf(recv); !bytes.Equal(got, kernel.BytesOf(want)) {
		for i := range recv {
			if w := dtypeOf[T]().Size(); !bytes.Equal(got[i*w:(i+1)*w], kernel.BytesOf(want)[i*w:(i+1)*w]) {
				return fmt.Errorf("%s: element %d is %v, want %v (%v)", what, i, recv[i], want[i], stats)
			}
		}
	}
	if !inPlace && !bytes.Equal(kernel.BytesOf(send), kernel.BytesOf(before)) {
		return fmt.Errorf("%s: send has changed", what)
	}
	return checkStats(what, c, stats, p, form, count, size)
}

// checkStats compares the counts with those expected of the pattern.
func checkStats(what string, c *collective.Comm, s Stats, p pattern, form Form, count, size int) error {
	blocks := (count + size - 1) / size
	if count == 0 || form == Dense || c.Size() == 1 {
		return nil
	}
	if s.Blocks != blocks || s.Form != form || s.NonZero < 0 || s.Union < s.NonZero || s.Union > blocks {
		return fmt.Errorf("%s: %+v", what, s)
	}
	switch p.name {
	case "all zero":
		if s.NonZero != 0 || s.Union != 0 || s.SentBlocks != 0 {
			return fmt.Errorf("%s: counted %+v", what, s)
		}
	case "last block of all":
		if s.NonZero > 1 || s.Union > 1 {
			return fmt.Errorf("%s: counted %+v", what, s)
		}
	}
	if form == Aggregators && s.WorkerBlocks > int64(s.NonZero) {
		return fmt.Errorf("%s: the worker sent %d blocks of %d", what, s.WorkerBlocks, s.NonZero)
	}
	return nil
}

func int32s(r *rand.Rand) int32     { return int32(r.Uint32()) }
func int64s(r *rand.Rand) int64     { return int64(r.Uint64()) }
func float32s(r *rand.Rand) float32 { return float32(r.NormFloat64()) }
func float64s(r *rand.Rand) float64 { return r.NormFloat64() * 1e100 }
func float16s(r *rand.Rand) collective.Float16 {
	return collective.Float16(r.IntN(0x7C00) | r.IntN(2)<<15) // finite
}
func bfloat16s(r *rand.Rand) collective.BFloat16 {
	return collective.BFloat16(math.Float32bits(float32(r.NormFloat64())) >> 16)
}

// typed makes a trial of one element type.
func typed(t *testing.T, i int, c *collective.Comm, p pattern, form Form, op collective.Op, count, size int,
	inPlace bool, more ...Option) error {
	switch i % 6 {
	case 0:
		return trial(t, c, p, form, op, count, size, inPlace, float32s, more...)
	case 1:
		return trial(t, c, p, form, op, count, size, inPlace, int32s, more...)
	case 2:
		return trial(t, c, p, form, op, count, size, inPlace, float64s, more...)
	case 3:
		return trial(t, c, p, form, op, count, size, inPlace, int64s, more...)
	case 4:
		return trial(t, c, p, form, op, count, size, inPlace, float16s, more...)
	}
	return trial(t, c, p, form, op, count, size, inPlace, bfloat16s, more...)
}

// formsOn returns the given forms, and in addition Shared if all ranks are on one host.
func formsOn(hosts []int, forms ...Form) []Form {
	if slices.Max(hosts) == 0 {
		return append(forms, Shared)
	}
	return forms
}

var operations = []collective.Op{collective.Sum, collective.Min, collective.Max}

// Whatever the blocks, the hosts, the type and the form, the results are those of a
// dense reduction, bit by bit, one call after the other on the same links.
func TestAllReduce(t *testing.T) {
	layouts := [][]int{oneHost(1), oneHost(2), oneHost(3), oneHost(5), oneHost(8), {0, 1}, {0, 0, 1, 1}, {0, 1, 0, 2, 1}}
	if !testutil.Thorough() {
		layouts = [][]int{oneHost(3), {0, 0, 1, 1}}
	}
	for _, hosts := range layouts {
		t.Run(fmt.Sprint(hosts), func(t *testing.T) {
			mustRun(t, hosts, func(_ *world, c *collective.Comm) error {
				i := 0
				for _, form := range formsOn(hosts, Aggregators, Trees, Dense) {
					for _, p := range patterns {
						for _, count := range []int{0, 1, 255, 256, 257, 5000, 70001} {
							size := []int{1, 16, 256, 300}[i%4]
							if count > 6000 {
								size = max(size, 16)
							}
							long := count > 6000 && (testutil.Race || i%3 > 0 && !testutil.Thorough())
							if form == Dense && (i%7 > 0 || i%6 != 1 && i%6 != 3) || long {
								i++
								continue // of the dense plan, whose order is its own, integers
							}
							if err := typed(t, i, c, p, form, operations[i/6%3], count, size, i/18%2 == 0); err != nil {
								return err
							}
							i++
						}
					}
				}
				return nil
			})
		})
	}
}
