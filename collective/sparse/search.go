package sparse

import (
	"time"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
)

// search finds the blocks of a call, and the zeros to be written around those of the result. It passes over the tensor
// once, piece by piece: the trees carry the blocks found so far while the rest is searched. As no rank sends a block
// before it knows its next one, the other ranks see no difference. It is a merge.Finder.
type search struct {
	r     *reduction
	known int // blocks
}

// pieceBytes is the number of bytes of a tensor that are searched before the next poll of the links.
const pieceBytes = 256 << 10

func newSearch(r *reduction) *search {
	r.state.set = block.Sized(r.state.set, block.Words(r.grid.Blocks()))
	clear(r.state.set)
	return &search{r: r}
}

// Known returns the number of blocks, from the first on, that were searched.
func (s *search) Known() int { return s.known }

// Find searches one more piece, and deals the blocks found to the trees.
func (s *search) Find() {
	r := s.r
	from := s.known
	const word = 64 // of a set
	s.find(max(word, pieceBytes/r.grid.BlockBytes()/word*word))
	r.state.deal.Split(r.state.set, from, s.known, r.state.parts)
}

// all searches all blocks at once.
func (s *search) all() { s.find(s.r.grid.Blocks()) }

// find searches the given number of further blocks. Except for the last time they are whole words of a set.
func (s *search) find(blocks int) {
	r := s.r
	begun := time.Now()
	from, to := s.known, min(s.known+blocks, r.grid.Blocks())
	// Some of the zero blocks may hold -0.
	set := r.state.set[from/64 : block.Words(to)]
	residue := kernel.NonZero(r.call.DType, r.grid.Of(r.in, from, to-from), r.grid.Size, set)
	r.fill = r.fill || residue || !r.inPlace
	s.known = to
	r.stats.Finding += time.Since(begun)
	if s.known == r.grid.Blocks() {
		r.counted()
	}
}

// counted stores the number of blocks of this rank, when all are found.
func (r *reduction) counted() {
	r.found = true
	r.stats.NonZero = r.state.set.Len()
	r.stats.Density = part(r.stats.NonZero, r.grid.Blocks())
}

// zero writes zeros to the blocks outside the union, when the other blocks are written.
func (r *reduction) zero() {
	if r.fill {
		block.Zero(&r.state.zeros, r.call.DType, r.grid, r.out, r.union)
	}
}
