package sparse

import (
	"time"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
)

// search finds the blocks of a call, and what has to be written around the result's. It
// goes through the tensor once, piece by piece: the trees carry what is found already
// while the rest is searched, and as no rank sends a block before it knows which is its
// next, nobody sees a difference. It is a merge.Finder.
type search struct {
	r     *reduction
	known int // blocks
}

// pieceBytes is how much of a tensor is searched before the next look at the links.
const pieceBytes = 256 << 10

func newSearch(r *reduction) *search {
	r.set = block.Sized(r.set, block.Words(r.grid.Blocks()))
	clear(r.set)
	return &search{r: r}
}

// Known returns how many blocks, from the first on, were looked at.
func (s *search) Known() int { return s.known }

// Find looks at one more piece, and deals what it finds to the trees.
func (s *search) Find() {
	r := s.r
	from := s.known
	const word = 64 // of a set
	s.find(max(word, pieceBytes/r.grid.BlockBytes()/word*word))
	r.deal.Split(r.set, from, s.known, r.parts)
}

// all looks at everything at once.
func (s *search) all() { s.find(s.r.grid.Blocks()) }

// find looks at so many blocks more. All but the last time they are whole words of a
// set.
func (s *search) find(blocks int) {
	r := s.r
	begun := time.Now()
	from, to := s.known, min(s.known+blocks, r.grid.Blocks())
	// Of the blocks that do not count some may hold -0.
	set := r.set[from/64 : block.Words(to)]
	residue := kernel.NonZero(r.call.DType, r.grid.Of(r.in, from, to-from), r.grid.Size, set)
	r.fill = r.fill || residue || !r.inPlace
	s.known = to
	r.stats.Finding += time.Since(begun)
	if s.known == r.grid.Blocks() {
		r.counted()
	}
}

// counted notes how many blocks this rank has, when all are found.
func (r *reduction) counted() {
	r.stats.NonZero = r.set.Len()
	r.stats.Density = part(r.stats.NonZero, r.grid.Blocks())
}

// zero writes zeros to the blocks that nobody has, when the others are there.
func (r *reduction) zero() {
	if r.fill {
		block.Zero(&r.zeros, r.call.DType, r.grid, r.out, r.union)
	}
}
