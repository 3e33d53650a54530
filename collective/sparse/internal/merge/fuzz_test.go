package merge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
)

// fuzzed are tensors of 3 ranks with a last block that is shorter.
func fuzzed() *Tensors {
	return New(3, block.Grid{Elements: 43, Size: 4}, kernel.Sum, kernel.Float32).Random(seeded(1), 0.5)
}

// middle returns the middle rank of a chain of three, which has the others as
// parent and child.
func middle(t testing.TB, x *Tensors) *Node {
	t.Helper()
	_, recv := x.Buffers(false)
	n := NewNode(1, false)
	if err := n.Begin(Job{Tensor: 1, Grid: x.Grid, Op: x.Op, DType: x.DType, Blocks: x.Sets[1],
		Send: x.Send[1], Recv: recv[1]}); err != nil {
		t.Fatal(err)
	}
	return n
}

// sends returns the chunks that rank v of the chain 0 - 1 - 2 composes for rank 1.
func sends(t testing.TB, x *Tensors, v, window int) (chunks [][]byte) {
	t.Helper()
	tree := newTree([]int{-1, 0, 1}, 1, window)
	send, recv := x.Buffers(false)
	tree.begin(t, 1, x, recv, send, nil, 0)
	r := seeded(2)
	for !tree.done() {
		w := r.IntN(3)
		if what := r.IntN(6); tree.step(t, w, what) && w == v {
			switch {
			case v == 2 && what == 2:
				chunks = append(chunks, append([]byte(nil), tree.up[2][len(tree.up[2])-1]...))
			case v == 0 && what >= 4:
				chunks = append(chunks, append([]byte(nil), tree.down[1][len(tree.down[1])-1]...))
			}
		}
	}
	return chunks
}

// FuzzNode: any message of a parent or child is an error, or changes the state of the rank as the protocol allows. The
// input is a list of chunks, each after a byte for the sender and two for the length.
func FuzzNode(f *testing.F) {
	x := fuzzed()
	for _, window := range []int{0, 100, 1000} {
		var input []byte
		for from, v := range []int{2, 0} {
			for _, c := range sends(f, x, v, window) {
				input = append(binary.LittleEndian.AppendUint16(append(input, byte(from)), uint16(len(c))), c...)
			}
		}
		f.Add(input)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		x := fuzzed()
		n := middle(t, x)
		window := make([]byte, 80)
		for len(input) >= 3 {
			from, size := input[0], min(int(binary.LittleEndian.Uint16(input[1:])), len(input)-3)
			p := input[3 : 3+size]
			input = input[3+size:]
			var err error
			switch {
			case from&1 == 1:
				err = n.Down(p)
			case n.NeedsChunk(0):
				err = n.Feed(0, p)
			default:
				continue
			}
			if err != nil {
				if !errors.Is(err, block.ErrProtocol) && !errors.Is(err, block.ErrMismatch) {
					t.Fatalf("error %v", err)
				}
				return
			}
			for n.Merge(64) {
			}
			for k := n.Up(window); k > 0; k = n.Up(window) {
				if _, err := decode(window[:k], x.Grid, nil, new(block.Thin), false); err != nil {
					t.Fatalf("chunk for the parent: %v", err)
				}
			}
			for k := n.ToChild(0, window); k > 0; k = n.ToChild(0, window) {
				if _, err := decode(window[:k], x.Grid, nil, new(block.Thin), true); err != nil {
					t.Fatalf("chunk for the child: %v", err)
				}
			}
		}
	})
}

// FuzzDecode: a chunk is accepted only if a writer can have written it.
func FuzzDecode(f *testing.F) {
	x := fuzzed()
	for _, c := range append(sends(f, x, 2, 100), sends(f, x, 0, 100)...) {
		f.Add(c)
		f.Add(put32(12, binary.LittleEndian.Uint32(c[12:])|thinFlag)(c))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		c, err := decode(p, x.Grid, nil, new(block.Thin), true)
		if err != nil {
			return
		}
		tensor := make([]byte, x.Grid.Bytes())
		w := writer{grid: x.Grid, window: make([]byte, HeaderBytes+len(c.body)+RunBytes*len(c.runs))}
		thin := p[15]>>7 != 0 // it is not written back as it was: there are several ways to squeeze
		for _, r := range c.runs {
			if !r.kept {
				c.body = c.body[copy(x.Grid.Of(tensor, r.first, r.n), c.body):]
			}
			w.add(r.first, r.n, tensor, r.kept)
		}
		n := w.finish(c.tensor, c.next, nil)
		if n > len(p) && !thin || len(w.runs) == len(c.runs) && !thin && string(w.window[:n]) != string(p) {
			t.Fatalf("read as %d runs, comes back as\n% x\n% x", len(c.runs), w.window[:n], p)
		}
	})
}

func put32(at int, v uint32) func([]byte) []byte {
	return func(p []byte) []byte { binary.LittleEndian.PutUint32(p[at:], v); return p }
}

// lastRun replaces the last run of a chunk.
func lastRun(first, n uint32) func([]byte) []byte {
	return func(p []byte) []byte {
		binary.LittleEndian.PutUint32(p[len(p)-8:], first)
		binary.LittleEndian.PutUint32(p[len(p)-4:], n)
		return p
	}
}

// An invalid chunk is an error that names the fault and the sender.
func TestChunksThatAreRefused(t *testing.T) {
	x := fuzzed()
	up, down := sends(t, x, 2, 0), sends(t, x, 0, 0) // a block in each chunk
	if len(up) < 3 || len(down) < 3 {
		t.Fatalf("%d and %d chunks: the test needs more", len(up), len(down))
	}
	again := func(p []byte) []byte { return p }
	for name, c := range map[string]struct {
		after  int // number of valid chunks that come first
		change func([]byte) []byte
		text   string
	}{
		"short":           {0, func(p []byte) []byte { return p[:HeaderBytes-1] }, "less than a header"},
		"tensor":          {0, put32(0, 9), "tensor 9"},
		"next in it":      {0, put32(4, 0), "next chunk begins"},
		"next beyond":     {0, put32(4, 11), "block 11 of 11"},
		"blocks":          {0, put32(8, 2), "the runs have 1"},
		"runs":            {0, put32(12, 1000), "1000 runs"},
		"no runs":         {0, put32(12, 0), "the runs have 0"},
		"empty run":       {0, lastRun(0, 0), "0 blocks"},
		"run beyond":      {0, lastRun(11, 1), "from 11 on"},
		"run far beyond":  {0, lastRun(0, 1<<31-1), "blocks from 0 on"},
		"kept upwards":    {0, lastRun(0, 1<<31|1), "blocks from 0 on"},
		"nothing, no end": {0, func(p []byte) []byte { return put32(8, 0)(put32(12, 0)(p[:HeaderBytes])) }, "no blocks"},
		"thin, and not":   {0, put32(12, 1|thinFlag), "without their zeros"},
		"a chunk twice":   {1, again, "was promised"},
	} {
		n := middle(t, x)
		for i := range c.after {
			if err := n.Feed(0, up[i]); err != nil {
				t.Fatal(err)
			}
			for n.Merge(1 << 20) {
			}
		}
		err := n.Feed(0, c.change(append([]byte(nil), up[0]...)))
		if !errors.Is(err, block.ErrProtocol) && !errors.Is(err, block.ErrMismatch) ||
			!strings.Contains(err.Error(), c.text) ||
			!strings.Contains(err.Error(), "child 0") {
			t.Errorf("%s: %v, want %q", name, err, c.text)
		}
	}
	// A result before this rank has sent anything.
	if err := middle(t, x).Down(down[0]); !errors.Is(err, block.ErrProtocol) ||
		!strings.Contains(err.Error(), "the parent") {
		t.Errorf("a result out of nothing: %v", err)
	}
	other := put32(0, 9)(append([]byte(nil), down[0]...))
	if err := middle(t, x).Down(other); !errors.Is(err, block.ErrMismatch) || !strings.Contains(err.Error(), "tensor 9") {
		t.Errorf("a result of another tensor: %v", err)
	}
}

// A result without a block that a rank sent, or with a kept block that it has not sent, is detected on that rank.
func TestResultsThatAreRefused(t *testing.T) {
	g := block.Grid{Elements: 40, Size: 4, Width: 4}
	chunk := func(next uint32, runs ...run) []byte {
		w := writer{grid: g, window: make([]byte, 1000)}
		for _, r := range runs {
			w.add(r.first, r.n, make([]byte, g.Bytes()), r.kept)
		}
		return w.window[:w.finish(1, next, nil)]
	}
	for name, c := range map[string]struct {
		chunk []byte
		text  string
	}{
		"":                {chunk(infinity, run{0, 1, false}, run{3, 2, true}), ""},
		"block missing":   {chunk(infinity, run{0, 3, false}, run{4, 1, false}), "block 3, which this rank sent"},
		"none at all":     {chunk(infinity), "block 3, which this rank sent"},
		"end missing":     {chunk(infinity, run{3, 1, false}), "block 4, which this rank sent"},
		"keeps another's": {chunk(infinity, run{2, 3, true}), "which this rank has not sent"},
	} {
		x := New(2, block.Grid{Elements: 40, Size: 4}, kernel.Sum, kernel.Float32)
		x.Put(1, 3, seeded(1))
		x.Put(1, 4, seeded(1))
		leaf := NewNode(0, false)
		if err := leaf.Begin(Job{Tensor: 1, Grid: g, Op: x.Op, DType: x.DType, Blocks: x.Sets[1],
			Send: x.Send[1], Recv: make([]byte, 160)}); err != nil {
			t.Fatal(err)
		}
		if leaf.Up(make([]byte, 1000)) == 0 {
			t.Fatal("nothing goes up")
		}
		err := leaf.Down(c.chunk)
		if c.text == "" {
			if err != nil || !leaf.Done() {
				t.Errorf("a good result: done %v, %v", leaf.Done(), err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %q", name, err, c.text)
		}
	}
}

func TestBeginRefuses(t *testing.T) {
	x := fuzzed()
	good := Job{Tensor: 1, Grid: x.Grid, Op: x.Op, DType: x.DType, Blocks: x.Sets[1], Send: x.Send[1],
		Recv: make([]byte, x.Grid.Bytes())}
	for i, change := range []func(*Job){
		func(j *Job) { j.Grid.Size = 0 },
		func(j *Job) { j.Send = j.Send[1:] },
		func(j *Job) { j.Recv = nil },
		func(j *Job) { j.Blocks = nil },
	} {
		j := good
		if change(&j); NewNode(0, true).Begin(j) == nil {
			t.Error(fmt.Sprint("change ", i, " is taken"))
		}
	}
	if err := NewNode(0, true).Begin(good); err != nil {
		t.Error(err)
	}
}
