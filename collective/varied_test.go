package collective

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// variedCall is a call with parts of different lengths.
type variedCall struct {
	call
	counts []int
	form   int // made and waited for, started, or prepared and started
}

// begin returns the start of the part of a rank, and for rank len(counts) the end of all parts.
func (cl variedCall) begin(rank int) (at int) {
	for _, n := range cl.counts[:rank] {
		at += n
	}
	return at
}

// runVaried makes the call on a rank, and compares all memory with the contents expected.
func runVaried[T Element](t *testing.T, k codec[T], c *Comm, cl variedCall) error {
	rank, size := c.Rank(), c.Size()
	mine, total := cl.counts[rank], cl.begin(size)
	part, whole, at := newMemory[T](mine), newMemory[T](total), cl.begin(rank)
	if cl.inPlace {
		part.body = whole.body[at : at+mine]
	}
	want := make([]T, total)
	gathers := cl.kind == plan.AllGather || cl.kind == plan.Gather
	if gathers {
		k.fill(part.body, cl.call, size, origin{rank, 0})
		for r, n := range cl.counts {
			k.fill(want[cl.begin(r):][:n], cl.call, size, origin{r, 0})
		}
	} else {
		k.fill(whole.body, cl.call, size, origin{rank, 0})
		from := -1
		if cl.kind == plan.Scatter {
			from = cl.root
		}
		k.fill(want, cl.call, size, origin{from, 0})
		want = want[at : at+mine]
	}
	result := part
	if gathers {
		result = whole
	}
	if cl.inPlace {
		part, result = whole, whole
	}
	part.expect(0, nil)
	whole.expect(0, nil)
	onRoot := rank == cl.root
	switch {
	case cl.kind == plan.Gather && !onRoot: // it gets nothing
	case cl.inPlace && !gathers:
		result.expect(at, want)
	default:
		result.expect(0, want)
	}
	own := part.body
	if cl.inPlace {
		own = whole.body[at : at+mine]
	}
	return errors.Join(callVaried(t, c, cl, own, whole.body), part.check(), whole.check())
}

// callVaried makes the call in its form. A Start, or an Init, gets a copy of counts.
func callVaried[T Element](t *testing.T, c *Comm, cl variedCall, own, whole []T) error {
	ctx, counts := t.Context(), slices.Clone(cl.counts)
	if cl.kind.HasRoot() && c.Rank() != cl.root {
		counts = nil // the root has them
	}
	var r Request
	var p *Persistent
	var err error
	switch cl.kind.String() + []string{"", " started", " prepared"}[cl.form] {
	case "allgather":
		return AllGatherV(ctx, c, own, whole, counts)
	case "gather":
		return GatherV(ctx, c, own, whole, counts, cl.root)
	case "scatter":
		return ScatterV(ctx, c, whole, own, counts, cl.root)
	case "reducescatter":
		return ReduceScatterV(ctx, c, whole, own, counts, cl.op)
	case "allgather started":
		r, err = StartAllGatherV(c, own, whole, counts)
	case "gather started":
		r, err = StartGatherV(c, own, whole, counts, cl.root)
	case "scatter started":
		r, err = StartScatterV(c, whole, own, counts, cl.root)
	case "reducescatter started":
		r, err = StartReduceScatterV(c, whole, own, counts, cl.op)
	case "allgather prepared":
		p, err = AllGatherVInit(c, own, whole, counts)
	case "gather prepared":
		p, err = GatherVInit(c, own, whole, counts, cl.root)
	case "scatter prepared":
		p, err = ScatterVInit(c, whole, own, counts, cl.root)
	case "reducescatter prepared":
		p, err = ReduceScatterVInit(c, whole, own, counts, cl.op)
	}
	clear(counts)
	if err == nil && p != nil {
		r, err = p.Start()
	}
	if err != nil {
		return err
	}
	return r.Wait(ctx)
}

// drawCounts draws lengths of parts: none, few, many, each with its own.
func drawCounts(rng *rand.Rand, size int) []int {
	most := []int{0, 1, 40, 3000, 40000}[rng.IntN(5)]
	counts := make([]int, size)
	for r := range counts {
		if rng.IntN(4) > 0 {
			counts[r] = rng.IntN(most + 1)
		}
	}
	return counts
}

// TestVaried makes the calls with parts of different lengths, in place and not, in every algorithm over links of
// several sizes, and compares all memory with the oracle.
func TestVaried(t *testing.T) {
	everyComm(t, harnessSizes(), func(t *testing.T, size int, s string, rng *rand.Rand, opts ...Option) {
		var cases []variedCall
		for range testutil.Count(3, 12) {
			for _, kind := range []plan.Kind{plan.AllGather, plan.Gather, plan.Scatter, plan.ReduceScatter} {
				if !fits(s, kind, topo.UniformGraph(size)) {
					continue
				}
				cl := variedCall{call{kind: kind, inPlace: rng.IntN(2) == 0}, drawCounts(rng, size), rng.IntN(3)}
				if kind.HasRoot() {
					cl.root = rng.IntN(size)
				}
				if reduces(kind) {
					cl.op = operations[rng.IntN(len(operations))]
				}
				cases = append(cases, cl)
			}
		}
		mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
			for i, cl := range cases {
				run := []func() error{
					func() error { return runVaried(t, float32s, c, cl) },
					func() error { return runVaried(t, bfloat16s, c, cl) },
					func() error { return runVaried(t, int64s, c, cl) },
					func() error { return runVaried(t, uint8s, c, cl) },
				}[i%4]
				if err := run(); err != nil {
					return fmt.Errorf("case %d, %v of %v, root %d, op %v, in place %v, form %d: %w", i, cl.kind, cl.counts, cl.root,
						cl.op, cl.inPlace, cl.form, err)
				}
			}
			return nil
		}, opts...)
	})
}

// TestAllToAllV sends the number of elements in a table from each rank to each.
func TestAllToAllV(t *testing.T) {
	for _, size := range []int{1, 2, 3, 5, 8} {
		rng := rand.New(rand.NewPCG(uint64(size), 1))
		for round := range testutil.Count(2, 8) {
			table := make([][]int, size) // by sender and receiver
			for r := range table {
				table[r] = drawCounts(rng, size)
			}
			if round == 0 {
				table[0] = make([]int, size) // a rank that sends nothing
			}
			value := func(from, to, i int) int32 { return int32(from*1000000 + to*100000 + i) }
			mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
				var send []int32
				var want []int32
				recvCounts := make([]int, size)
				for r := range size {
					for i := range table[c.Rank()][r] {
						send = append(send, value(c.Rank(), r, i))
					}
					recvCounts[r] = table[r][c.Rank()]
					for i := range recvCounts[r] {
						want = append(want, value(r, c.Rank(), i))
					}
				}
				recv := newMemory[int32](len(want))
				recv.expect(0, want)
				if err := AllToAllV(t.Context(), c, send, table[c.Rank()], recv.body, recvCounts); err != nil {
					return err
				}
				return recv.check()
			})
		}
	}
}

// TestRootedMismatch: a part of another length than in the root's counts is an error on all ranks, which names the rank
// and both lengths, in every form.
func TestRootedMismatch(t *testing.T) {
	for _, hosts := range [][]int{{0, 0, 0}, {0, 1, 1}, {0, 1, 0}} {
		for _, kind := range []plan.Kind{plan.Gather, plan.Scatter} {
			for _, lengths := range [][2]int{{0, 3}, {3, 0}, {2, 3}, {100000, 99999}, {5, 100000}, {200000, 200001}} {
				for form := range 3 {
					t.Run(fmt.Sprintf("%v/%v/%v/%d", hosts, kind, lengths, form), func(t *testing.T) {
						t.Parallel()
						errs := runHosts(t, hosts, nil, func(_ *testutil.Hosted, c *Comm) error {
							cl := variedCall{call{kind: kind, root: 1}, []int{7, 0, lengths[1]}, form}
							own := cl.counts[c.Rank()]
							if c.Rank() == 2 {
								own = lengths[0]
							}
							err := callVaried(t, c, cl, make([]int16, own), make([]int16, 7+lengths[1]))
							if err == nil {
								err = Barrier(t.Context(), c)
							}
							return err
						}, WithGraph(testutil.GraphOn(hosts)))
						want := fmt.Sprintf("rank 2 has a part of %d elements in %sV #1 (int16, root 1), the counts of rank 1 have %d "+
							"for it", lengths[0], map[plan.Kind]string{plan.Gather: "Gather", plan.Scatter: "Scatter"}[kind], lengths[1])
						for r, err := range errs {
							if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), want) {
								t.Errorf("rank %d: %v, want %q", r, err, want)
							}
						}
					})
				}
			}
		}
	}
}

// TestVariedMismatch: if the counts of ranks differ, all ranks get an error, some of them in the next call, also if the
// sums of the counts are equal, and if one rank calls the function without V.
func TestVariedMismatch(t *testing.T) {
	want := map[string]string{ // part of the error's text on all ranks
		"counts": "AllGatherV #1 (180 float32) with different counts than rank ",
		"kind":   "AllGatherV #1 (180 float32)",
		"parts":  "rank 1 sends 3 elements to rank 2, which receives 4 from it",
		"pair":   "rank 0 sends 5 elements to rank 2, which receives 0 from it",
		"types":  "AllToAllV #1 (uint64)",
		"call":   "AllToAllV #1 (int16)",
		"none":   "AllToAllV #1 (int16)",
	}
	calls := map[string]func(c *Comm, odd bool) error{
		"counts": func(c *Comm, odd bool) error {
			counts := []int{50, 60, 70}
			if odd {
				counts = []int{50, 70, 60}
			}
			recv := make([]float32, 180)
			return AllGatherV(t.Context(), c, make([]float32, counts[c.Rank()]), recv, counts)
		},
		"kind": func(c *Comm, odd bool) error {
			if odd {
				return AllGather(t.Context(), c, make([]float32, 60), make([]float32, 180))
			}
			return AllGatherV(t.Context(), c, make([]float32, 60), make([]float32, 180), []int{60, 60, 60})
		},
		"parts": func(c *Comm, odd bool) error {
			send, recv := []int{1, 2, 3}, make([]int, 3)
			for r := range recv {
				recv[r] = 1 + c.Rank()
			}
			if odd {
				recv[1]++
			}
			return AllToAllV(t.Context(), c, make([]int64, 6), send, make([]int64, recv[0]+recv[1]+recv[2]), recv)
		},
		"pair": func(c *Comm, _ bool) error { // no other rank sends or receives anything
			send := []int{0, 0, 0}
			if c.Rank() == 0 {
				send[2] = 5
			}
			return AllToAllV(t.Context(), c, make([]int8, send[2]), send, nil, []int{0, 0, 0})
		},
		"types": func(c *Comm, odd bool) error {
			if odd {
				return AllToAllV(t.Context(), c, make([]uint64, 3), []int{1, 1, 1}, make([]uint64, 3), []int{1, 1, 1})
			}
			return AllToAllV(t.Context(), c, make([]int64, 3), []int{1, 1, 1}, make([]int64, 3), []int{1, 1, 1})
		},
		"call": func(c *Comm, odd bool) error {
			if odd {
				return AllToAll(t.Context(), c, make([]int64, 3), make([]int64, 3))
			}
			return AllToAllV(t.Context(), c, make([]int16, 3), []int{1, 1, 1}, make([]int16, 3), []int{1, 1, 1})
		},
		"none": func(c *Comm, odd bool) error { // nothing is sent, but of another type
			if odd {
				return AllToAllV[int32](t.Context(), c, nil, []int{0, 0, 0}, nil, []int{0, 0, 0})
			}
			return AllToAllV[int16](t.Context(), c, nil, []int{0, 0, 0}, nil, []int{0, 0, 0})
		},
	}
	for name, make := range calls {
		t.Run(name, func(t *testing.T) {
			for r, err := range runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
				err := make(c, c.Rank() == 2)
				if err == nil {
					err = Barrier(t.Context(), c)
				}
				return err
			}) {
				if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), want[name]) ||
					strings.Contains(err.Error(), "of buf") {
					t.Errorf("rank %d: %v, want ErrMismatch with %q", r, err, want[name])
				}
			}
		})
	}
}

// TestVariedArguments: arguments that do not match each other are refused before anything is sent.
func TestVariedArguments(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		three, all := make([]int32, 3), make([]int32, 6)
		for name, err := range map[string]error{
			"too few counts": AllGatherV(t.Context(), c, three, all, []int{6}),
			"negative":       AllGatherV(t.Context(), c, three, all, []int{7, -1}),
			"too large":      AllGatherV(t.Context(), c, three, all, []int{1 << 62, 1 << 62}),
			"own part":       AllGatherV(t.Context(), c, all[:2], all, []int{3, 3}),
			"whole":          AllGatherV(t.Context(), c, three, all[:5], []int{3, 3}),
			"overlap":        AllGatherV(t.Context(), c, all[1:4], all, []int{3, 3}),
			"root":           GatherV(t.Context(), c, three, all, []int{3, 3}, 2),
			"operation":      ReduceScatterV(t.Context(), c, all, three, []int{3, 3}, 0),
			"overlap of all": AllToAllV(t.Context(), c, all[:2], []int{1, 1}, all[1:3], []int{1, 1}),
			"sums":           AllToAllV(t.Context(), c, three, []int{1, 1}, all, []int{3, 3}),
		} {
			if !errors.Is(err, ErrArgument) {
				return fmt.Errorf("%s: %v, want ErrArgument", name, err)
			}
		}
		return AllGatherV(t.Context(), c, three, all, []int{3, 3})
	})
}

// TestManyVariedUnderWay: more calls than can be in flight, each with its own counts, on one host and on several.
func TestManyVariedUnderWay(t *testing.T) {
	for _, hosts := range [][]int{{0}, {0, 0, 0}, {0, 1, 0, 1}} {
		errs := runHosts(t, hosts, nil, func(_ *testutil.Hosted, c *Comm) error {
			rng := rand.New(rand.NewPCG(7, 7))
			size, rank := c.Size(), c.Rank()
			var under []Request
			var got, want [][]int
			for i := range 300 {
				counts, total := make([]int, size), 0
				all := []int{}
				for r := range counts {
					counts[r] = rng.IntN(5) * rng.IntN(2)
					total += counts[r]
					all = append(all, slices.Repeat([]int{100*i + r}, counts[r])...)
				}
				recv := make([]int, total)
				r, err := StartAllGatherV(c, slices.Repeat([]int{100*i + rank}, counts[rank]), recv, counts)
				if err != nil {
					return err
				}
				under, got, want = append(under, r), append(got, recv), append(want, all)
			}
			for i, r := range under {
				if err := r.Wait(t.Context()); err != nil || !slices.Equal(got[i], want[i]) {
					return fmt.Errorf("call %d: %v, want %v: %w", i, got[i], want[i], err)
				}
			}
			return nil
		}, WithGraph(testutil.GraphOn(hosts)))
		if err := errors.Join(errs...); err != nil {
			t.Errorf("hosts %v: %v", hosts, err)
		}
	}
}
