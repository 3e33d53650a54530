package pool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/treerun/treerun/collective/sparse/internal/block"
)

// ErrPart is the error for memory of a rank that is no part of the call's tensor, or no result of it.
var ErrPart = errors.New("pool: not the blocks of this call")

// partAlign is the alignment of the blocks of a part: a cache line.
const partAlign = 64

// headBytes returns the number of bytes of a part before its blocks.
func headBytes(g block.Grid) int {
	return (8*block.Words(g.Blocks()) + partAlign - 1) / partAlign * partAlign
}

// MostBytes returns the maximum length of a part.
func MostBytes(g block.Grid) int { return headBytes(g) + g.Bytes() }

// PartBytes returns the length of the part of a rank with the blocks of set.
func PartBytes(g block.Grid, set block.Set) int { return headBytes(g) + g.BytesOf(set) }

// Put writes a part: the bitmap of set, and its blocks of tensor. It returns the length of the part, for which there is
// room.
func Put(part []byte, g block.Grid, tensor []byte, set block.Set) (n int) {
	for i, w := range set {
		binary.LittleEndian.PutUint64(part[8*i:], w)
	}
	n = headBytes(g)
	clear(part[8*len(set) : n])
	for b, k := set.Run(0); k > 0; b, k = set.Run(b + k) {
		n += copy(part[n:], g.Of(tensor, b, k))
	}
	return n
}

// readHead reads the set of a part's blocks, with the number of blocks before each word.
func readHead(part []byte, g block.Grid, set block.Set, before []uint32) error {
	if len(part) < headBytes(g) {
		return fmt.Errorf("%w: %d bytes, which of %d blocks there are takes %d", ErrPart, len(part), g.Blocks(), headBytes(g))
	}
	n := uint32(0)
	for i := range set {
		set[i] = binary.LittleEndian.Uint64(part[8*i:])
		before[i] = n
		n += uint32(bits.OnesCount64(set[i]))
	}
	if over := g.Blocks() % 64; over > 0 && set[len(set)-1]>>over != 0 {
		return fmt.Errorf("%w: it has blocks beyond the last of %d", ErrPart, g.Blocks())
	}
	if want := PartBytes(g, set); len(part) != want {
		return fmt.Errorf("%w: %d bytes, want %d for %d blocks", ErrPart, len(part), want, n)
	}
	return nil
}
