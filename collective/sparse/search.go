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
	took  time.Duration
}

// pieceBytes is how much of a tensor is searched before the next look at the links.
const pieceBytes = 256 << 10

func newSearch(r *reduction) *search {
	words := block.Words(r.grid.Blocks())
	r.set = block.Sized(r.set, words)
	if clear(r.set); !r.inPlace {
		r.swept = block.Sized(r.swept, words)
	}
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
	residue := kernel.NonZero(r.call.DType, r.grid.Of(r.in, from, to-from), r.grid.Size, words(r.set, from, to))
	if !r.inPlace {
		residue = r.c.Size > 1 && !r.fill && s.sweep(from, to)
	}
	r.fill = r.fill || residue
	s.known = to
	s.took += time.Since(begun)
	if s.known == r.grid.Blocks() {
		s.end()
	}
}

// end notes what the whole search has found.
func (s *search) end() {
	r := s.r
	r.stats.Finding = s.took
	r.stats.NonZero = r.set.Len()
	r.stats.Density = part(r.stats.NonZero, r.grid.Blocks())
}

// words are those of a set with blocks from to to-1, which begin a word.
func words(set block.Set, from, to int) block.Set { return set[from/64 : block.Words(to)] }

// sweepMost is of how many blocks not being zero, or going to be, a result is filled.
const sweepMost = 0.25

// sweep finds which of the blocks from to to-1 of out are not zero yet, into r.swept, and reports
// whether they are so many that it is less work to write zeros to all: results that are mostly
// zero come to where such a result was before, or to fresh memory, and to read is less work than
// to write. Nothing of the result is there yet.
func (s *search) sweep(from, to int) (fill bool) {
	r := s.r
	if r.stats.UnionDensity > sweepMost {
		return true
	}
	out, set := r.grid.Of(r.out, from, to-from), words(r.swept, from, to)
	return kernel.NonZero(r.call.DType, out, r.grid.Size, set) || part(set.Len(), to-from) > sweepMost
}

// zero writes zeros to what is not zero yet of the blocks that nobody has, when the others are there.
func (r *reduction) zero() {
	switch {
	case r.fill:
		block.Zero(&r.zeros, r.call.DType, r.grid, r.out, r.union, nil)
	case !r.inPlace:
		block.Zero(&r.zeros, r.call.DType, r.grid, r.out, r.union, r.swept)
	}
}
