package collective

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/testutil"
)

// coalescedTrial is an AllReduce or Broadcast of one message in pieces, each in
// memory of its own between guards.
type coalescedTrial[T Number] struct {
	call
	k          codec[T]
	c          *Comm
	send, recv [][]T
	mem        []*memory[T]
}

// inPieces prepares call cl, an AllReduce or Broadcast, over pieces that end at
// ends; cl.inPlace makes every other piece in place.
func (k codec[T]) inPieces(c *Comm, cl call, ends []int) *coalescedTrial[T] {
	t := &coalescedTrial[T]{call: cl, k: k, c: c}
	result := cl.origins(c.in.Rank, c.in.Size)[0]
	gives := cl.kind == plan.AllReduce || c.in.Rank == cl.root
	from := 0
	for i, end := range ends {
		n := end - from
		in := newMemory[T](n)
		if gives {
			k.fill(in.body, cl, c.in.Size, origin{c.in.Rank, from})
		}
		out := in
		if !cl.inPlace || i%2 == 1 || !gives {
			out = newMemory[T](n)
			in.expect(0, nil)
			t.mem = append(t.mem, in)
		}
		want := make([]T, n)
		k.fill(want, cl, c.in.Size, origin{result.rank, from})
		out.expect(0, want)
		t.mem = append(t.mem, out)
		t.send, t.recv = append(t.send, in.body), append(t.recv, out.body)
		from = end
	}
	return t
}

func (t *coalescedTrial[T]) String() string {
	return fmt.Sprintf("%s %s %v count=%d in %d pieces, root=%d", t.kind, t.k.name, t.op, t.count, len(t.recv), t.root)
}

func (t *coalescedTrial[T]) run(ctx context.Context) error {
	if t.kind == plan.Broadcast {
		return BroadcastCoalesced(ctx, t.c, t.send, t.recv, t.root)
	}
	return AllReduceCoalesced(ctx, t.c, t.send, t.recv, t.op)
}

func (t *coalescedTrial[T]) start() (Request, error) {
	if t.kind == plan.Broadcast {
		return StartBroadcastCoalesced(t.c, t.send, t.recv, t.root)
	}
	return StartAllReduceCoalesced(t.c, t.send, t.recv, t.op)
}

// prepare refuses: there is no persistent form of many slices.
func (t *coalescedTrial[T]) prepare() (*Persistent, error) { return nil, ErrArgument }

func (t *coalescedTrial[T]) reset() {
	for _, m := range t.mem {
		copy(kernel.BytesOf(m.all), m.before)
	}
}

func (t *coalescedTrial[T]) check() error {
	for i, m := range t.mem {
		if err := m.check(); err != nil {
			return fmt.Errorf("rank %d: %v: buffer %d: %w", t.c.in.Rank, t, i, err)
		}
	}
	return nil
}

// pieces makes coalesced trials of one element type.
type pieces func(c *Comm, cl call, ends []int) trial

func coalescing[T Number](k codec[T]) pieces {
	return func(c *Comm, cl call, ends []int) trial { return k.inPieces(c, cl, ends) }
}

var coalescedTypes = []pieces{
	coalescing(int8s), coalescing(uint64s), coalescing(float16s), coalescing(bfloat16s), coalescing(float32s),
	coalescing(float64s),
}

// randomEnds cuts count elements into pieces, some of them empty.
func randomEnds(count int, rng *rand.Rand) []int {
	var ends []int
	for at := 0; at < count || rng.IntN(4) == 0; {
		n := 0
		switch rng.IntN(4) {
		case 0, 1:
			n = rng.IntN(20)
		case 2:
			n = rng.IntN(count/3 + 1)
		}
		at = min(at+n, count)
		ends = append(ends, at)
	}
	return ends
}

// randomTrial draws a call of any kind; equal rngs draw the same call on all ranks.
func randomTrial(c *Comm, rng *rand.Rand) trial {
	most := []int{3, 100, 3000, 30000}[rng.IntN(4)]
	cl := call{count: rng.IntN(most), root: rng.IntN(c.in.Size), inPlace: rng.IntN(2) == 0}
	if rng.IntN(4) == 0 {
		cl.kind, cl.op = plan.AllReduce, operations[rng.IntN(len(operations))]
		if rng.IntN(2) == 0 {
			cl.kind, cl.op = plan.Broadcast, 0
		}
		return coalescedTypes[rng.IntN(len(coalescedTypes))](c, cl, randomEnds(cl.count, rng))
	}
	if cl.kind = kinds[rng.IntN(len(kinds))]; reduces(cl.kind) {
		cl.op = operations[rng.IntN(len(operations))]
	}
	return elementTypes[rng.IntN(len(elementTypes))](c, cl)
}

// TestMixedForms makes long random sequences of all collectives with random roots. Each is a plain call, a Request that
// is in flight with many others, or coalesced; ranks wait for random calls and test them, at random times. Memory is
// checked at the end, when nothing may touch it any more.
func TestMixedForms(t *testing.T) {
	testutil.Long(t, "TestHarness makes the same calls")
	calls := testutil.Count(100, 400)
	if testutil.Race {
		calls = 60
	}
	everyComm(t, []int{1, 2, 3, 5, 8}, func(t *testing.T, size int, s string, rng *rand.Rand, opts ...Option) {
		if testutil.Race && size != 3 {
			return
		}
		seed := rng.Uint64()
		mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
			shared, own := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, uint64(c.in.Rank+1)))
			return mixedForms(t, c, shared, own, calls/size)
		}, opts...)
	})
}

func mixedForms(t *testing.T, c *Comm, shared, own *rand.Rand, calls int) error {
	var trials []trial
	var requests []Request
	for range calls {
		tr := randomTrial(c, shared)
		trials = append(trials, tr)
		if shared.IntN(4) == 0 && own.IntN(2) == 0 { // another rank may do the same call in flight
			if err := tr.run(t.Context()); err != nil {
				return fmt.Errorf("%v: %w", tr, err)
			}
			continue
		}
		r, err := tr.start()
		if err != nil {
			return fmt.Errorf("%v: %w", tr, err)
		}
		requests = append(requests, r)
		switch some := requests[own.IntN(len(requests))]; own.IntN(8) {
		case 0:
			if err := some.Wait(t.Context()); err != nil {
				return err
			}
			if done, err := some.Test(); !done || err != nil {
				return fmt.Errorf("Test after Wait: %v, %v", done, err)
			}
		case 1:
			if _, err := some.Test(); err != nil {
				return err
			}
		}
	}
	if err := requests[len(requests)-1].Wait(t.Context()); err != nil {
		return err
	}
	if err := Barrier(t.Context(), c); err != nil {
		return err
	}
	for i, tr := range trials {
		if err := tr.check(); err != nil {
			return fmt.Errorf("call %d of %d: %w", i, calls, err)
		}
	}
	return nil
}

// TestPersistent runs prepared calls of every kind again and again, in turn,
// plain and in flight.
func TestPersistent(t *testing.T) {
	const rounds = 6
	everyComm(t, []int{1, 2, 4, 7}, func(t *testing.T, size int, s string, rng *rand.Rand, opts ...Option) {
		if testutil.Race && size != 4 {
			return
		}
		seed := rng.Uint64()
		mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
			rng := rand.New(rand.NewPCG(seed, 0))
			var trials []trial
			var prepared []*Persistent
			for i, kind := range kinds {
				if kind == plan.Barrier {
					continue // needs no preparation
				}
				cl := call{kind: kind, root: rng.IntN(size), count: rng.IntN(2000), inPlace: i%2 == 0}
				if reduces(kind) {
					cl.op = operations[rng.IntN(len(operations))]
				}
				tr := elementTypes[rng.IntN(len(elementTypes))](c, cl)
				p, err := tr.prepare()
				if err != nil {
					return fmt.Errorf("%v: %w", tr, err)
				}
				trials, prepared = append(trials, tr), append(prepared, p)
			}
			for round := range rounds {
				if err := runPrepared(t, trials, prepared, round%2 == 0); err != nil {
					return fmt.Errorf("round %d: %w", round, err)
				}
			}
			return nil
		}, opts...)
	})
}

// runPrepared runs each call once, from its first input, and checks it.
func runPrepared(t *testing.T, trials []trial, prepared []*Persistent, inFlight bool) error {
	var last Request
	for i, p := range prepared {
		trials[i].reset()
		if !inFlight {
			if err := p.Run(t.Context()); err != nil {
				return fmt.Errorf("%v: %w", trials[i], err)
			}
			continue
		}
		r, err := p.Start()
		if err != nil {
			return fmt.Errorf("%v: %w", trials[i], err)
		}
		last = r
	}
	if err := last.Wait(t.Context()); err != nil {
		return err
	}
	for _, tr := range trials {
		if err := tr.check(); err != nil {
			return err
		}
	}
	return nil
}
