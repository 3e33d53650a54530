package engine

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
)

// Plans that promise one order of sums give its bits, for all sizes of the message and the chunks, in place and not:
// those of the sums of the hosts' ranks in their order, and of the hosts in theirs, one float after the other.
func TestStableOrderHasTheSameBits(t *testing.T) {
	counts := []int{3, 1000, 40000}
	for _, hosts := range [][][]int{{{0, 1, 2, 3, 4}}, {{0, 1, 2}, {3, 4, 5}}, {{0, 1}, {2, 3}, {4, 5}},
		{{0}, {1, 2, 3}, {4, 5}, {6}}} {
		n := 0
		for _, ranks := range hosts {
			n += len(ranks)
		}
		inputs := randomFloats(n, slices.Max(counts))
		want := sumsInOrder(inputs, hosts)
		for _, form := range []plan.Form{plan.Single, plan.Split} {
			for _, root := range []int{0, n - 1} {
				p, err := plan.DirectHosts(plan.Reduce, hosts, root, form)
				if err != nil {
					t.Fatal(err)
				}
				checkStable(t, p, counts, inputs, want)
			}
			p, err := plan.DirectHosts(plan.AllReduce, hosts, -1, form)
			if err != nil {
				t.Fatal(err)
			}
			checkStable(t, p, counts, inputs, want)
			for _, kind := range []plan.Kind{plan.AllReduce, plan.Reduce} {
				for seed := uint64(0); seed < 4 && len(hosts) == 1; seed++ {
					tree := topo.Tree{Parent: []int{-1}}
					rng := rand.New(rand.NewPCG(seed, 1))
					for r := 1; r < n; r++ {
						tree.Parent = append(tree.Parent, rng.IntN(r))
					}
					p, err := plan.Ordered(kind, []topo.Tree{tree, tree}, nil, hosts, form)
					if err != nil {
						t.Fatal(err)
					}
					checkStable(t, p, counts, inputs, want)
				}
			}
		}
	}
}

// checkStable runs p with messages of counts[i] floats.
func checkStable(t *testing.T, p *plan.Plan, counts []int, inputs [][]byte, want []byte) {
	t.Helper()
	for _, inPlace := range []bool{false, true} {
		eachRank(t, []*plan.Plan{p}, 2, 4096, func(r int, programs []*Program, w *Waiter) error {
			for seq, count := range counts {
				in := slices.Clone(inputs[r][:4*count])
				out := make([]byte, len(in))
				if inPlace {
					out = in
				}
				c := &Call{Args: Args{
					ID: call.ID{Seq: uint64(seq + 1), Count: uint64(count), Kind: call.Kind(p.Kind),
						Op: kernel.Sum, DType: kernel.Float32, Root: int32(p.Root)},
					In: in, Out: out, Work: kernel.Work{DType: kernel.Float32, Op: kernel.Sum},
				}}
				fault, _ := programs[0].Run(context.Background(), c, w)
				if fault != (transport.Fault{}) || (p.Root < 0 || p.Root == r) && !slices.Equal(out, want[:4*count]) {
					t.Errorf("%s, %v, in place %v, %d floats: rank %d has other bits, fault %+v", p.Name, p.Kind, inPlace, count, r,
						fault)
				}
			}
			return nil
		})
	}
}

// randomFloats returns count floats of each rank, of sizes so different that the
// order in which they are added shows.
func randomFloats(n, count int) [][]byte {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	list := make([][]byte, n)
	for r := range list {
		for range count {
			x := rng.Float32() * float32(int(1)<<rng.IntN(20))
			list[r] = binary.NativeEndian.AppendUint32(list[r], math.Float32bits(x))
		}
	}
	return list
}

func sumsInOrder(inputs [][]byte, hosts [][]int) []byte {
	var sums []byte
	for at := 0; at < len(inputs[0]); at += 4 {
		var sum float32
		for h, ranks := range hosts {
			var host float32
			for i, r := range ranks {
				x := math.Float32frombits(binary.NativeEndian.Uint32(inputs[r][at:]))
				if i == 0 {
					host = x
				} else {
					host += x
				}
			}
			if h == 0 {
				sum = host
			} else {
				sum += host
			}
		}
		sums = binary.NativeEndian.AppendUint32(sums, math.Float32bits(sum))
	}
	return sums
}
