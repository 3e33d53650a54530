// Package block cuts a tensor into blocks and describes its non-zero blocks: the Grid of a tensor, the Set of its
// non-zero blocks, the Deal of blocks to several trees, and the zeros around them (Zero). It also has the common parts
// of the protocols: Counts, blocks without their zeros (Thin), and the errors of their messages.
//
// It is the common ground of the two sparse AllReduces, sparse/merge and sparse/pool, and of package sparse, which
// import it. It finds no blocks (kernel.NonZero does) and moves none. The package is pure.
//
// # The value of a block that no rank sent
//
// A block that a rank does not send is +0 in every element: a block that held -0 counts as +0. So results have the bits
// of a dense reduction, in the same order, of the same tensors with +0 in those blocks.
package block

import "fmt"

// MaxBlocks is the maximum number of blocks of a tensor: block numbers, a value for no block, and one flag next to
// them, fit 32 bits on the wire.
const MaxBlocks = 1 << 30

// Grid describes the division of a tensor into blocks. The last block may be shorter than the others. The zero Grid is
// not valid.
type Grid struct {
	Elements int // of the tensor
	Size     int // elements of a block
	Width    int // bytes of an element
}

// Validate returns an error that describes an invalid field of g.
func (g Grid) Validate() error {
	switch {
	case g.Elements < 0:
		return fmt.Errorf("block: a tensor of %d elements", g.Elements)
	case g.Size < 1 || g.Size > 1<<24:
		return fmt.Errorf("block: blocks of %d elements, want 1 to %d", g.Size, 1<<24)
	case g.Width != 1 && g.Width != 2 && g.Width != 4 && g.Width != 8:
		return fmt.Errorf("block: elements of %d bytes", g.Width)
	case g.Elements > 1<<53/g.Width:
		return fmt.Errorf("block: a tensor of %d elements is larger than any memory", g.Elements)
	case g.Blocks() > MaxBlocks:
		return fmt.Errorf("block: %d elements are %d blocks of %d, at most %d are possible: use larger blocks", g.Elements,
			g.Blocks(), g.Size, MaxBlocks)
	}
	return nil
}

// Blocks returns the number of blocks.
func (g Grid) Blocks() int { return (g.Elements + g.Size - 1) / g.Size }

// Bytes returns the size of the tensor.
func (g Grid) Bytes() int { return g.Elements * g.Width }

// BlockBytes returns the size of every block except a shorter last one.
func (g Grid) BlockBytes() int { return g.Size * g.Width }

// Range returns the bytes of blocks b to b+n-1 in the tensor: from "from" to before "to". Precondition: the tensor has
// these blocks, or n is 0.
func (g Grid) Range(b, n int) (from, to int) {
	return b * g.BlockBytes(), min((b+n)*g.BlockBytes(), g.Bytes())
}

// Of returns the bytes of blocks b to b+n-1 of tensor.
func (g Grid) Of(tensor []byte, b, n int) []byte {
	from, to := g.Range(b, n)
	return tensor[from:to:to]
}

// BytesOf returns the total length of the blocks of set.
func (g Grid) BytesOf(set Set) int {
	n := set.Len() * g.BlockBytes()
	if last := g.Blocks() - 1; last >= 0 && set.Has(last) {
		n -= g.Missing()
	}
	return n
}

// Missing returns the number of bytes that the last block is shorter than the others.
func (g Grid) Missing() int { return g.Blocks()*g.BlockBytes() - g.Bytes() }
