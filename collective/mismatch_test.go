package collective

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
	calls "github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// typedCall is a call with an element type that can be named.
type typedCall struct {
	call
	dtype kernel.DType
}

func (tc typedCall) try(c *Comm) trial {
	switch tc.dtype {
	case kernel.Int32: // as large as float32: only the header differs
		return int32s.try(c, tc.call)
	default:
		return float32s.try(c, tc.call)
	}
}

// text returns the name of the call in errors, without its number.
func (tc typedCall) text() string {
	id := calls.ID{Kind: calls.Kind(tc.kind), Op: kernel.Op(tc.op), Count: uint64(tc.count), DType: tc.dtype, Root: -1,
		Scaled: tc.premul}
	if tc.kind.HasRoot() {
		id.Root = int32(tc.root)
	}
	name, arguments, _ := strings.Cut(id.String(), " #0")
	return name + "|" + arguments
}

// namedIn reports whether an error names the call.
func (tc typedCall) namedIn(err error) bool {
	name, arguments, _ := strings.Cut(tc.text(), "|")
	return strings.Contains(err.Error(), name) && strings.Contains(err.Error(), arguments)
}

// mismatchCase contains the calls of one rank, and the calls of all others. A sequence has the same length on all
// ranks; the errors name the calls at index first.
type mismatchCase struct {
	name       string
	usual, odd []typedCall
	first      int
}

// mismatchCases returns every way in which one rank can make another call.
func mismatchCases(size, count int) []mismatchCase {
	var all []mismatchCase
	for i, kind := range kinds {
		usual := typedCall{call{kind: kind, count: count}, kernel.Float32}
		if kind == plan.Barrier {
			usual.count = 0
		}
		if reduces(kind) {
			usual.op = Sum
		}
		add := func(what string, change func(*typedCall)) {
			odd := usual
			change(&odd)
			all = append(all, mismatchCase{fmt.Sprintf("%v: other %s", kind, what), []typedCall{usual}, []typedCall{odd}, 0})
		}
		if kind != plan.Barrier {
			add("type", func(tc *typedCall) { tc.dtype = kernel.Int32 })
			add("count", func(tc *typedCall) { tc.count++ })
			add("count by far", func(tc *typedCall) { tc.count *= 2 })
			add("count, 0", func(tc *typedCall) { tc.count = 0 })
		}
		if reduces(kind) {
			add("operation", func(tc *typedCall) { tc.op = Max })
		}
		if reduces(kind) && !kind.Scans() {
			add("kind of sum", func(tc *typedCall) { tc.premul = true })
		}
		if kind.HasRoot() {
			add("root", func(tc *typedCall) { tc.root = size - 1 })
		}
		next := kinds[(i+1)%len(kinds)]
		other := typedCall{call{kind: next, count: count}, kernel.Float32}
		if next == plan.Barrier {
			other.count = 0
		}
		if reduces(next) {
			other.op = Sum
		}
		all = append(all,
			mismatchCase{fmt.Sprintf("%v instead of %v", next, kind), []typedCall{usual}, []typedCall{other}, 0},
			mismatchCase{fmt.Sprintf("%v and %v swapped", kind, next), []typedCall{usual, other}, []typedCall{other, usual}, 0},
			mismatchCase{fmt.Sprintf("one %v fewer", kind), []typedCall{usual, usual, other},
				[]typedCall{usual, other, other}, 1})
	}
	return all
}

// forms are the ways to make a sequence of calls.
var forms = []struct {
	name string
	make func(t *testing.T, c *Comm, calls []typedCall) error
}{
	{"plain", func(t *testing.T, c *Comm, calls []typedCall) error {
		for _, tc := range calls {
			if err := tc.try(c).run(t.Context()); err != nil {
				return err
			}
		}
		return nil
	}},
	{"in flight", func(t *testing.T, c *Comm, calls []typedCall) error {
		var all []Request
		for _, tc := range calls {
			tr := tc.try(c)
			if tc.premul { // has no Start
				if err := tr.run(t.Context()); err != nil {
					return err
				}
				continue
			}
			r, err := tr.start()
			if err != nil {
				return err
			}
			all = append(all, r)
		}
		for _, r := range slices.Backward(all) {
			if err := r.Wait(t.Context()); err != nil {
				return err
			}
		}
		return nil
	}},
	{"tested", func(t *testing.T, c *Comm, calls []typedCall) error {
		for _, tc := range calls {
			if tc.premul {
				return tc.try(c).run(t.Context())
			}
			r, err := tc.try(c).start()
			for done := false; !done && err == nil; time.Sleep(50 * time.Microsecond) {
				done, err = r.Test()
			}
			if err != nil {
				return err
			}
		}
		return nil
	}},
}

// atOnce runs all functions, a dozen at a time: they sleep most of the time.
func atOnce(all []func()) {
	var wg sync.WaitGroup
	turn := make(chan struct{}, 12)
	for _, f := range all {
		turn <- struct{}{}
		wg.Go(func() { f(); <-turn })
	}
	wg.Wait()
}

// TestMismatchMatrix: one rank makes another call than the others, in every
// way, in every form, in every shape of plan. All ranks get ErrMismatch, soon,
// and it names both calls and blames no innocent rank.
func TestMismatchMatrix(t *testing.T) {
	testutil.Long(t, "how calls differ does not depend on the build")
	every := testutil.Count(20, 3) // of the cases; TREERUN_HARNESS tries all
	if testutil.Race {
		every = 40
	} else if os.Getenv("TREERUN_HARNESS") != "" {
		every = 1
	}
	for _, form := range forms {
		for k, s := range localAlgorithms[:firstAlgorithms] {
			t.Run(form.name+"/"+s, func(t *testing.T) {
				var all []func()
				for i, size := range []int{2, 3, 5} {
					for j, mc := range mismatchCases(size, []int{10, 1000, 70_000}[i]) {
						if (i+j+k)%every != 0 {
							continue
						}
						odd := (j + k) % size
						all = append(all, func() { tryMismatch(t, size, odd, mc, form.make, WithAlgorithm(s), WithSlots(4, 4096)) })
					}
				}
				atOnce(all)
			})
		}
	}
}

func tryMismatch(t *testing.T, size, odd int, mc mismatchCase, makeCalls func(*testing.T, *Comm, []typedCall) error,
	opts ...Option) {
	start := time.Now()
	errs := runRanks(t, size, func(_ *fakeWorld, c *Comm) error {
		calls := mc.usual
		if c.in.Rank == odd {
			calls = mc.odd
		}
		err := makeCalls(t, c, calls)
		for err == nil { // a rank may have left its last call before the others detected it
			err = Barrier(t.Context(), c)
		}
		return err
	}, append(opts, WithGraph(topo.UniformGraph(size)))...)
	name := fmt.Sprintf("%s, %d ranks, rank %d odd", mc.name, size, odd)
	if took := time.Since(start); took > soon {
		t.Errorf("%s: the ranks needed %v to find out", name, took)
	}
	for r, err := range errs {
		var re *RankError
		if !errors.As(err, &re) || !errors.Is(err, ErrMismatch) {
			t.Errorf("%s: rank %d: %v, want ErrMismatch in a *RankError", name, r, err)
			continue
		}
		if re.Rank != odd && re.Rank != -1 {
			t.Errorf("%s: rank %d blames rank %d: %v", name, r, re.Rank, err)
		}
		for _, tc := range []typedCall{mc.usual[mc.first], mc.odd[mc.first]} {
			if !tc.namedIn(re.Err) {
				t.Errorf("%s: rank %d: %v, want %q named", name, r, re.Err, tc.text())
			}
		}
	}
}

// TestMismatchPlan: one rank runs the same call by another plan, or in other chunks. All ranks detect it, whether by
// the call's first chunk or by a wait, and name that rank.
func TestMismatchPlan(t *testing.T) {
	for _, chunks := range []plan.Chunks{{}, {Max: 64, Min: 64}} {
		for r, err := range runRanks(t, 4, func(_ *fakeWorld, c *Comm) error {
			choice, err := c.Choice(plan.AllReduce, -1, 4000)
			if err != nil {
				return err
			}
			if c.in.Rank == 2 {
				name := choice.Name
				if chunks.Max == 0 {
					names := slices.DeleteFunc(c.Algorithms(plan.AllReduce), func(n string) bool { return n == name })
					name = names[0]
				}
				other := planner.DecidedChoice{Below: math.MaxInt64, Bytes: 4000, Algorithm: name, Chunks: chunks}
				table := planner.DecidedTable{Kind: int(plan.AllReduce), Choices: []planner.DecidedChoice{other}}
				decision := &planner.Decision{Tables: []planner.DecidedTable{table}}
				if err := c.in.Plans.Planner.Follow(decision); err != nil {
					return err
				}
			}
			for range 3 { // the digests may be equal once
				err = errors.Join(err, AllReduce(t.Context(), c, make([]float32, 1000), make([]float32, 1000), Sum))
			}
			return err
		}, WithGraph(topo.UniformGraph(4))) {
			var re *RankError
			if !errors.As(err, &re) || !errors.Is(err, ErrMismatch) || re.Rank != 2 && re.Rank != -1 ||
				!strings.Contains(err.Error(), "rank 2") || !strings.Contains(err.Error(), "by different plans") {
				t.Errorf("chunks %v: rank %d: %v, want a mismatch that names rank 2", chunks, r, err)
			}
		}
	}
}

// TestMismatchCoalesced: pieces may be cut differently on every rank, the whole
// may not differ in length.
func TestMismatchCoalesced(t *testing.T) {
	cut := func(ends ...int) [][]float32 {
		x, from := [][]float32{}, 0
		for _, end := range ends {
			x = append(x, make([]float32, end-from))
			from = end
		}
		return x
	}
	for name, odd := range map[string]struct {
		pieces   [][]float32
		wantText string
	}{
		"one more element":  {cut(10, 31), "AllReduce #1 (sum of 31 float32)"},
		"one piece fewer":   {cut(10), "AllReduce #1 (sum of 10 float32)"},
		"no piece":          {nil, "AllReduce #1 (sum of 0 float32)"},
		"only empty pieces": {cut(0, 0), "AllReduce #1 (sum of 0 float32)"},
	} {
		t.Run(name, func(t *testing.T) {
			for r, err := range runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
				x := cut(10, 10, 30)
				if c.in.Rank == 1 {
					x = odd.pieces
				}
				err := AllReduceCoalesced(t.Context(), c, x, x, Sum)
				return errors.Join(err, Barrier(t.Context(), c))
			}) {
				if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "(sum of 30 float32)") ||
					!strings.Contains(err.Error(), odd.wantText) {
					t.Errorf("rank %d: %v, want ErrMismatch and %q", r, err, odd.wantText)
				}
			}
		})
	}
	mustRun(t, 3, func(_ *fakeWorld, c *Comm) error {
		x := [][][]float32{cut(30), cut(1, 2, 30), cut(0, 29, 30, 30)}[c.in.Rank]
		return AllReduceCoalesced(t.Context(), c, x, x, Sum)
	})
}

// TestMismatchMessage: a message has another type or length than its Recv, and no rank, not even the third, is left
// waiting.
func TestMismatchMessage(t *testing.T) {
	type side func(t *testing.T, c *Comm) error
	send := func(count int) side {
		return func(t *testing.T, c *Comm) error { return Send(t.Context(), c, make([]float32, count), 1, 7) }
	}
	for name, tc := range map[string]struct {
		send, recv side
		wantText   []string
	}{
		"longer": {send(11),
			func(t *testing.T, c *Comm) error { return received(t.Context(), c, make([]float32, 10), 0, 7) },
			[]string{"rank 0 sent 11 float32 with tag 7", "rank 1 called Recv (10 float32, tag 7)"}},
		"longer than a link holds": {send(1 << 20),
			func(t *testing.T, c *Comm) error { return received(t.Context(), c, make([]float32, 11), 0, 7) },
			[]string{"rank 0 sent 1048576 float32 with tag 7", "rank 1 called Recv (11 float32, tag 7)"}},
		"longer than a StartRecv of any": {send(10),
			func(t *testing.T, c *Comm) error {
				m, err := StartRecv(c, make([]float32, 9), AnySource, AnyTag)
				return errors.Join(err, m.Wait(t.Context()))
			},
			[]string{"rank 0 sent 10 float32 with tag 7", "rank 1 called StartRecv (9 float32, tag 7)"}},
		"type": {send(10),
			func(t *testing.T, c *Comm) error { return received(t.Context(), c, make([]int32, 10), 0, 7) },
			[]string{"rank 0 sent 10 float32 with tag 7", "rank 1 called Recv (10 int32, tag 7)"}},
		"came before its Recv": {
			func(t *testing.T, c *Comm) error {
				x := make([]float32, 10)
				return errors.Join(Send(t.Context(), c, x, 1, 7), Send(t.Context(), c, x, 1, 8))
			},
			func(t *testing.T, c *Comm) error {
				x := make([]float32, 10)
				return errors.Join(received(t.Context(), c, x, 0, 8), received(t.Context(), c, x[:9], 0, 7))
			},
			[]string{"rank 0 sent 10 float32 with tag 7", "rank 1 called Recv (9 float32, tag 7)"}},
		"both sides of an exchange": {
			func(t *testing.T, c *Comm) error {
				return exchanged(t.Context(), c, make([]float32, 10), 1, make([]float32, 10), 1, 7)
			},
			func(t *testing.T, c *Comm) error {
				return exchanged(t.Context(), c, make([]float32, 12), 0, make([]float32, 12), 0, 7)
			},
			[]string{"rank 1 sent 12 float32 with tag 7", "rank 0 called SendRecv (10"}},
	} {
		t.Run(name, func(t *testing.T) {
			for r, err := range runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
				err := error(nil)
				switch c.in.Rank {
				case 0:
					err = tc.send(t, c)
				case 1:
					err = tc.recv(t, c)
				}
				return errors.Join(err, Barrier(t.Context(), c))
			}) {
				if !errors.Is(err, ErrMismatch) {
					t.Errorf("rank %d: %v, want ErrMismatch", r, err)
					continue
				}
				for _, s := range tc.wantText {
					if !strings.Contains(err.Error(), s) {
						t.Errorf("rank %d: %v, want %q", r, err, s)
					}
				}
			}
		})
	}
}
