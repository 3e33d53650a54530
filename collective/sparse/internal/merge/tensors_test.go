package merge

// Tensors of known non-zero blocks, a dense reduction to compare with, and cases in which such code is likely to fail.
//
// The dense reduction goes over whole tensors, element by element, and uses no blocks, except that blocks that count as
// zero are +0.

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
)

// Tensors contains the tensors of the ranks of one AllReduce.
type Tensors struct {
	Grid  block.Grid
	Op    kernel.Op
	DType kernel.DType
	Sets  []block.Set // by rank: the non-zero blocks
	Send  [][]byte    // by rank
}

// New returns tensors of zeros. The Width of g need not be set.
func New(ranks int, g block.Grid, op kernel.Op, dt kernel.DType) *Tensors {
	g.Width = dt.Size()
	x := &Tensors{Grid: g, Op: op, DType: dt}
	for range ranks {
		x.Sets = append(x.Sets, block.NewSet(g.Blocks()))
		x.Send = append(x.Send, make([]byte, g.Bytes()))
	}
	return x
}

// Ranks returns the number of ranks.
func (x *Tensors) Ranks() int { return len(x.Send) }

// Put makes block b of a rank non-zero, with positive numbers of very different
// size, so that sums of floating-point numbers depend on their order, and zeros.
func (x *Tensors) Put(rank, b int, r *rand.Rand) {
	x.Sets[rank].Add(b)
	data, width := x.Grid.Of(x.Send[rank], b, 1), x.Grid.Width
	for i := 0; i < len(data); i += width {
		clear(data[i : i+width])
		if r.IntN(3) > 0 || i == 0 {
			data[i+width-1] = byte(0x30 + r.IntN(16)) // of little-endian numbers the sign, and of floats the exponent
			data[i] = byte(1 + r.IntN(255))
		}
	}
}

// PutBits sets every element of block b of a rank to one of the given bits, one after the other. counts reports whether
// the block then must be sent.
func (x *Tensors) PutBits(rank, b int, counts bool, bits ...uint64) {
	if counts {
		x.Sets[rank].Add(b)
	}
	data, width := x.Grid.Of(x.Send[rank], b, 1), x.Grid.Width
	for i := 0; i < len(data); i += width {
		v := bits[i/width%len(bits)]
		for k := range width {
			data[i+k] = byte(v >> (8 * k))
		}
	}
}

// Random fills every block of rank v with probability density[v mod its length].
func (x *Tensors) Random(r *rand.Rand, density ...float64) *Tensors {
	for v := range x.Sets {
		for b := range x.Grid.Blocks() {
			if r.Float64() < density[v%len(density)] {
				x.Put(v, b, r)
			}
		}
	}
	return x
}

// dense returns the tensor of a rank with +0 in the blocks that count as zero.
func (x *Tensors) dense(rank int) []byte {
	t := bytes.Clone(x.Send[rank])
	for b := range x.Grid.Blocks() {
		if !x.Sets[rank].Has(b) {
			clear(x.Grid.Of(t, b, 1))
		}
	}
	return t
}

// Want returns the dense reduction in the order of the ranks.
func (x *Tensors) Want() []byte {
	sum := x.dense(0)
	for v := 1; v < x.Ranks(); v++ {
		kernel.Reduce(x.Op, x.DType, sum, sum, x.dense(v))
	}
	return sum
}

// WantAlong returns the dense reduction along a tree: at each rank its own tensor
// and then those of its children, by rising rank. parent of the root is -1.
func (x *Tensors) WantAlong(parent []int) []byte {
	var sum func(v int) []byte
	sum = func(v int) []byte {
		total := x.dense(v)
		for c, p := range parent {
			if p == v {
				kernel.Reduce(x.Op, x.DType, total, total, sum(c))
			}
		}
		return total
	}
	for v, p := range parent {
		if p < 0 {
			return sum(v)
		}
	}
	panic("a tree without a root")
}

// Garbage fills memory that is not initialized.
const Garbage = 0xA5

// Buffers returns copies of the ranks' tensors and memory for results: the same
// memory if inPlace, else full of Garbage.
func (x *Tensors) Buffers(inPlace bool) (send, recv [][]byte) {
	for v := range x.Send {
		send = append(send, bytes.Clone(x.Send[v]))
		if inPlace {
			recv = append(recv, send[v])
		} else {
			recv = append(recv, bytes.Repeat([]byte{Garbage}, len(send[v])))
		}
	}
	return send, recv
}

// Differ describes the difference of a rank's result from the one wanted, and returns "" if there is none.
func (x *Tensors) Differ(rank int, got, want []byte) string {
	if len(got) != len(want) {
		return fmt.Sprintf("rank %d: %d bytes, want %d", rank, len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			return fmt.Sprintf("rank %d: byte %d, in block %d of %d, is %#x, want %#x", rank, i, i/x.Grid.BlockBytes(),
				x.Grid.Blocks(), got[i], want[i])
		}
	}
	return ""
}

// Types are the element types of sparse reductions.
var Types = []kernel.DType{kernel.Float32, kernel.Float64, kernel.Float16, kernel.BFloat16, kernel.Int32, kernel.Int64}

// Ops are the operations of sparse reductions.
var Ops = []kernel.Op{kernel.Sum, kernel.Min, kernel.Max}

// Odd returns bits of a type at which code is likely to fail: NaN with and without payload, infinities, the least
// subnormal number, and -0, which alone counts as zero; of integers the extremes, whose sums wrap.
func Odd(dt kernel.DType) (counting []uint64, minusZero uint64) {
	switch dt {
	case kernel.Float16:
		return []uint64{0x7E00, 0xFD55, 0x7C00, 0xFC00, 1, 0x8001}, 0x8000
	case kernel.BFloat16:
		return []uint64{0x7FC0, 0xFFAA, 0x7F80, 0xFF80, 1, 0x8001}, 0x8000
	case kernel.Float32:
		return []uint64{0x7FC00000, 0xFFABCDEF, 0x7F800000, 0xFF800000, 1, 0x80000001}, 1 << 31
	case kernel.Float64:
		return []uint64{0x7FF8 << 48, 0xFFF<<52 | 0xABCDEF, 0x7FF << 52, 0xFFF << 52, 1, 1<<63 | 1}, 1 << 63
	case kernel.Int32:
		return []uint64{math.MaxInt32, 1 << 31, math.MaxUint32}, 0
	}
	return []uint64{math.MaxInt64, 1 << 63, math.MaxUint64}, 0
}
