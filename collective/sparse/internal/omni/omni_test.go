package omni

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/collective/sparse/internal/sparsetest"
	"github.com/treerun/treerun/internal/kernel"
)

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// random returns tensors of any type, density and length.
func random(workers int, r *rand.Rand) *sparsetest.Tensors {
	g := block.Grid{Elements: r.IntN(400), Size: 1 + r.IntN(6)}
	if r.IntN(3) == 0 {
		g = block.Grid{Elements: r.IntN(4000), Size: 1 + r.IntN(400)}
	}
	dt, op := sparsetest.Types[r.IntN(6)], sparsetest.Ops[r.IntN(3)]
	x := sparsetest.New(workers, g, op, dt).Random(r, r.Float64(), r.Float64()*0.1)
	if r.IntN(2) == 0 {
		thin(x, r, r.Float64())
	}
	return x
}

// thin makes elements of blocks zero, all but about a part and a block's first.
func thin(x *sparsetest.Tensors, r *rand.Rand, part float64) {
	w := x.Grid.Width
	for _, send := range x.Send {
		for i := range x.Grid.Elements {
			if i%x.Grid.Size != 0 && r.Float64() >= part {
				clear(send[i*w : (i+1)*w])
			}
		}
	}
}

// The streams and columns of the cases divide their blocks, do not, or are more
// than there are blocks.
func TestCases(t *testing.T) {
	for _, workers := range []int{1, 2, 3, 8} {
		r := seeded(uint64(workers))
		for _, s := range []struct{ aggregators, streams, columns int }{{1, 1, 1}, {2, 3, 1}, {1, 2, 4}, {3, 5, 3},
			{2, 40, 8}} {
			for _, c := range sparsetest.Cases(workers, 4, 60) {
				t.Run(fmt.Sprintf("%d workers, %d streams of %d columns, %s", workers, s.streams, s.columns, c.Name),
					func(t *testing.T) {
						x := shaped(c.Tensors, s.aggregators, s.streams, s.columns)
						cluster := newCluster(workers, s.aggregators)
						for i, compact := range []bool{true, false, true} {
							x.shape.Compact, x.shape.Lists = compact, i > 0
							cluster.run(t, x, r, i == 2)
							cluster.counts(t, x)
						}
					})
			}
		}
	}
}

// counts holds the number of packets, and what they carry, against the protocol.
func (c *cluster) counts(t *testing.T, x *tensors) {
	t.Helper()
	sent, rounds := x.messages()
	if c.sent != sent || c.results != rounds {
		t.Errorf("workers sent %d packets in %d rounds, want %d in %d", c.sent, c.results, sent, rounds)
	}
	s := &x.shape
	streams := s.Live()
	first := min(s.columns(), s.Grid.Blocks())
	for w := range c.workers {
		most := x.Sets[w].Len()
		if !s.Compact {
			most += first
		}
		packets := rounds // a worker sends at most one a round
		if limit := most*s.Grid.BlockBytes() + packets*HeaderBytes + (x.Sets[w].Len()+first)*entryBytes; c.blocks[w] > most ||
			c.bytes[w] > limit {
			t.Errorf("worker %d of %d non-zero blocks sent %d blocks and %d bytes in %d streams, at most %d and %d are allowed",
				w, x.Sets[w].Len(), c.blocks[w], c.bytes[w], streams, most, limit)
		}
	}
}

func TestTensorAfterTensor(t *testing.T) {
	for _, workers := range []int{1, 2, 5} {
		r := seeded(uint64(workers))
		c := newCluster(workers, 2)
		for i, tensor := range sparsetest.TwoOnOneSlot(workers) {
			c.run(t, shaped(tensor.Tensors, 2, 2+i%4, 1+i%3), r, i%2 == 0)
		}
	}
}

func TestRandomTensors(t *testing.T) {
	for seed := range uint64(400) {
		r := seeded(seed)
		workers, streams := 1+r.IntN(5), 1+r.IntN(5)
		aggregators := 1 + r.IntN(streams)
		c := newCluster(workers, aggregators)
		for range 2 {
			x := shaped(random(workers, r), aggregators, streams, 1+r.IntN(4))
			x.shape.Compact, x.shape.Lists = r.IntN(2) == 0, r.IntN(2) == 0
			c.run(t, x, r, r.IntN(2) == 0)
		}
	}
}

// What stands on the wire, so that a change of the format shows.
func TestPacket(t *testing.T) {
	x := sparsetest.New(2, block.Grid{Elements: 10, Size: 2}, kernel.Sum, kernel.Float32)
	x.PutBits(0, 0, true, 0x3F800000)
	x.PutBits(0, 4, true, 0x40000000)
	s := shaped(x, 1, 1, 2).shape
	w := NewWorker(0)
	if err := w.Begin(3, s, Input{Blocks: x.Sets[0], Send: x.Send[0], Recv: make([]byte, 40)}); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, s.MaxPacket())
	p = p[:w.Compose(0, p)]
	want := []byte{
		0, 0, 1, 0, // stream 0, 1 block
		3, 0, 0, 0, // tensor
		0, 0, 0, 0, // round
		0, 0, 2, 0, // worker, entries
	}
	want = append(want, p[16:24]...)                        // digest
	want = append(want, 0, 0, 0x80, 0x3F, 0, 0, 0x80, 0x3F) // block 0
	// column 0: block 4 is next; column 1: infinity, in the row behind the 5 blocks
	want = append(want, 4, 0, 0, 0, 7, 0, 0, 0)
	if !bytes.Equal(p, want) {
		t.Errorf("packet\n% x, want\n% x", p, want)
	}
	if d := p[16:24]; bytes.Equal(d, make([]byte, 8)) {
		t.Error("no digest")
	}
}

// Infinities are different for each column, beyond every block, and come back as
// what they were.
func TestEntries(t *testing.T) {
	for _, s := range []Shape{
		{Grid: block.Grid{Elements: 1 << 20, Size: 256, Width: 4}, Streams: 8, Columns: 4},
		{Grid: block.Grid{Elements: 1 << 20, Size: 100, Width: 4}, Streams: 7, Columns: 3},
		{Grid: block.Grid{Elements: 1 << 36, Size: 256, Width: 4}, Streams: 1, Columns: 3},
		{Grid: block.Grid{Elements: block.MaxBlocks, Size: 1, Width: 4}, Streams: MaxStreams, Columns: MaxColumns},
		{Grid: block.Grid{Elements: 5, Size: 3, Width: 4}, Streams: MaxStreams, Columns: 1},
	} {
		s.DType, s.Op, s.Workers, s.Aggregators = kernel.Float32, kernel.Sum, 2, 1
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		for c := 0; c < s.columns(); c += 1 + s.columns()/1000 {
			v := s.infinity(c)
			if int(v) < s.Grid.Blocks() || v >= listedFlag {
				t.Fatalf("%+v: infinity %d of column %d is a block, or has the flag", s, v, c)
			}
			if b, column, _, err := s.parseEntry(v); b != none || column != c || err != nil {
				t.Fatalf("%+v: infinity of column %d comes back as block %d of column %d (%v)", s, c, b, column, err)
			}
		}
		last := int32(s.Grid.Blocks() - 1)
		if b, column, _, err := s.parseEntry(s.entryOf(last, int(last)%s.columns())); b != last ||
			column != int(last)%s.columns() || err != nil {
			t.Fatalf("%+v: block %d comes back as %d of column %d (%v)", s, last, b, column, err)
		}
	}
}

func TestShapesThatCannotBe(t *testing.T) {
	good := Shape{Grid: block.Grid{Elements: 100, Size: 4, Width: 4}, DType: kernel.Float32, Op: kernel.Sum, Workers: 2,
		Aggregators: 1, Streams: 2, Columns: 2}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Shape){
		"width":        func(s *Shape) { s.Grid.Width = 8 },
		"type":         func(s *Shape) { s.DType = 0 },
		"product":      func(s *Shape) { s.Op = kernel.Prod },
		"workers":      func(s *Shape) { s.Workers = 0 },
		"many workers": func(s *Shape) { s.Workers = MaxWorkers + 1 },
		"aggregators":  func(s *Shape) { s.Aggregators = 3 },
		"streams":      func(s *Shape) { s.Streams = MaxStreams + 1 },
		"columns":      func(s *Shape) { s.Columns = MaxColumns + 1 },
		"blocks":       func(s *Shape) { s.Grid.Size, s.Grid.Elements = 1, block.MaxBlocks+1 },
		"rows":         func(s *Shape) { s.Streams, s.Columns = MaxStreams, MaxColumns+1 },
		"grid":         func(s *Shape) { s.Grid.Size = 0 },
	} {
		s := good
		if change(&s); s.Validate() == nil {
			t.Errorf("%s: %+v is taken", name, s)
		}
	}
}

// Every field of a Shape is in its digest, so that ranks that differ find out.
func TestRanksThatDiffer(t *testing.T) {
	x := sparsetest.New(2, block.Grid{Elements: 100, Size: 4}, kernel.Sum, kernel.Float32)
	good := shaped(x, 1, 2, 2).shape
	for name, change := range map[string]func(*Shape){
		"length":     func(s *Shape) { s.Grid.Elements = 101 },
		"block size": func(s *Shape) { s.Grid.Size = 8 },
		"type":       func(s *Shape) { s.DType = kernel.Int32 },
		"operation":  func(s *Shape) { s.Op = kernel.Max },
		"streams":    func(s *Shape) { s.Streams = 3 },
		"columns":    func(s *Shape) { s.Columns = 1 },
		"workers":    func(s *Shape) { s.Workers = 3 },
		"compact":    func(s *Shape) { s.Compact = false },
		"lists":      func(s *Shape) { s.Lists = true },
	} {
		other := good
		change(&other)
		w, a := NewWorker(1), NewAggregator(0)
		n := other.Grid.Bytes()
		if err := errors.Join(w.Begin(1, other,
			Input{Blocks: block.NewSet(other.Grid.Blocks()), Send: make([]byte, n), Recv: make([]byte, n)}),
			a.Begin(1, good)); err != nil {
			t.Fatal(err)
		}
		p := make([]byte, other.MaxPacket())
		_, err := a.Handle(p[:w.Compose(0, p)])
		if !errors.Is(err, block.ErrMismatch) || !strings.Contains(err.Error(), "worker 1") {
			t.Errorf("%s: %v", name, err)
		}
		if good.Digest() == other.Digest() {
			t.Errorf("%s is not in the digest", name)
		}
	}
}
