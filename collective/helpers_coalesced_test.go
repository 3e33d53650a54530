package collective

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/kernel"
)

// coalescedTrial is an AllReduce or Broadcast of one message in pieces, each in
// memory of its own between guards.
type coalescedTrial[T Element] struct {
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

func coalescing[T Element](k codec[T]) pieces {
	return func(c *Comm, cl call, ends []int) trial { return k.inPieces(c, cl, ends) }
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
		cl.op = opsOf(cl.kind)[rng.IntN(len(opsOf(cl.kind)))]
	}
	return elementTypes[rng.IntN(len(elementTypes))](c, cl)
}
