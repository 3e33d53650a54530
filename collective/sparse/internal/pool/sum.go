package pool

import (
	"fmt"
	"math/bits"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
)

// mostRanks is the maximum number of ranks of a Sum.
const mostRanks = 64

// Job is one call on one rank.
type Job struct {
	Grid        block.Grid
	DType       kernel.DType
	Op          kernel.Op
	Rank, Ranks int
	Recv        []byte // memory for the result, as long as the tensor

	Union block.Set // gets the blocks of the union
}

// Sum adds up the parts of all ranks on one of them. It is reused for one call after the other, by one goroutine at a
// time: Begin; Take of every rank; Deal; Reduce and Fold, in any order; Place of every rank with a Share.
type Sum struct {
	job    Job
	sets   []block.Set // by rank
	before [][]uint32  // by rank, by word: its blocks in earlier words
	blocks [][]byte    // by rank: behind the head
	dealt  block.Set
	rest   block.Set // of union, without dealt
	starts []int     // by rank, and one more: the block at which its share of the dealt begins
	counts []int     // by rank: the number of dealt blocks in its share
	total  int       // dealt blocks
	list   kernel.Pieces

	minSaved int // for tests; 0: the constant
}

// Begin starts a call. The Job must stay valid until the call ends.
func (s *Sum) Begin(j Job) error {
	words := block.Words(j.Grid.Blocks())
	if j.Ranks < 1 || j.Ranks > mostRanks || j.Rank < 0 || j.Rank >= j.Ranks || len(j.Recv) != j.Grid.Bytes() ||
		len(j.Union) != words {
		return fmt.Errorf("pool: rank %d of %d, a result of %d bytes for %d, %d words of blocks", j.Rank, j.Ranks,
			len(j.Recv), j.Grid.Bytes(), len(j.Union))
	}
	s.job = j
	for len(s.sets) < j.Ranks {
		s.sets, s.before, s.blocks = append(s.sets, nil), append(s.before, nil), append(s.blocks, nil)
	}
	for q := range j.Ranks {
		s.sets[q], s.before[q] = block.Sized(s.sets[q], words), block.Sized(s.before[q], words)
	}
	s.dealt, s.rest = block.Sized(s.dealt, words), block.Sized(s.rest, words)
	return nil
}

// Take accepts the part of rank q, which must not change until the call is done on all ranks.
func (s *Sum) Take(q int, part []byte) error {
	if err := readHead(part, s.job.Grid, s.sets[q], s.before[q]); err != nil {
		return err
	}
	s.blocks[q] = part[headBytes(s.job.Grid):]
	return nil
}

// Blocks returns the number of blocks in the part of rank q.
func (s *Sum) Blocks(q int) int { return s.sets[q].Len() }

// The minimum number of ranks that must have a block for it to be dealt; and the minimum number of bytes read that this
// must save, as it makes every rank wait once more.
const (
	dealtRanks = 3
	minSaved   = 256 << 10
)

// Deal decides, when all parts have been taken, which blocks are dealt, and to which ranks: the same on all ranks.
func (s *Sum) Deal() {
	saved := 0
	for i := range s.job.Union {
		var one, two, three uint64 // held by at least this many ranks
		more := 0
		for q := range s.job.Ranks {
			w := s.sets[q][i]
			three |= two & w
			two |= one & w
			one |= w
		}
		s.job.Union[i], s.dealt[i] = one, three
		if three != 0 {
			for q := range s.job.Ranks {
				more += bits.OnesCount64(s.sets[q][i] & three)
			}
			saved += more - bits.OnesCount64(three)
		}
	}
	least := minSaved
	if s.minSaved > 0 {
		least = s.minSaved
	}
	if saved*s.job.Grid.BlockBytes() < least {
		clear(s.dealt)
	}
	s.share()
}

// share gives every rank its share of the dealt blocks.
func (s *Sum) share() {
	n := s.job.Ranks
	s.total = s.dealt.Len()
	s.starts, s.counts = s.starts[:0], s.counts[:0]
	seen, r := 0, 0
	for i, w := range s.dealt {
		here := bits.OnesCount64(w)
		for ; r < n && r*s.total/n < seen+here; r++ {
			rest := w
			for range r*s.total/n - seen {
				rest &= rest - 1
			}
			s.starts = append(s.starts, 64*i+bits.TrailingZeros64(rest))
		}
		seen += here
	}
	for ; r <= n; r++ {
		s.starts = append(s.starts, s.job.Grid.Blocks())
	}
	for r := range n {
		s.counts = append(s.counts, (r+1)*s.total/n-r*s.total/n)
	}
}

// Dealt returns the number of dealt blocks.
func (s *Sum) Dealt() int { return s.total }

// Union returns the number of blocks in the union.
func (s *Sum) Union() int { return s.job.Union.Len() }

// Share returns the number of blocks that rank r adds up for all ranks, and their length in bytes.
func (s *Sum) Share(r int) (blocks, bytes int) {
	blocks = s.counts[r]
	bytes = blocks * s.job.Grid.BlockBytes()
	last := s.job.Grid.Blocks() - 1
	if blocks > 0 && s.dealt.Has(last) && (r+1)*s.total/s.job.Ranks == s.total {
		bytes -= s.job.Grid.Missing()
	}
	return blocks, bytes
}

// Reduce adds up this rank's Share into dst, which has the length of the Share.
func (s *Sum) Reduce(dst []byte) {
	r := s.job.Rank
	at := 0
	s.each(s.dealt, s.starts[r], s.starts[r+1], dst, false, func(_, n int) int {
		at += n
		return at - n
	})
}

// Fold adds up the blocks that are not dealt into Recv.
func (s *Sum) Fold() {
	for i, d := range s.dealt {
		s.rest[i] = s.job.Union[i] &^ d
	}
	s.each(s.rest, 0, s.job.Grid.Blocks(), s.job.Recv, block.Far(s.job.Recv), func(from, _ int) int { return from })
}

// Place copies the sums of rank r into Recv.
func (s *Sum) Place(r int, result []byte) error {
	if _, want := s.Share(r); len(result) != want {
		return fmt.Errorf("%w: a result of %d bytes, want %d", ErrPart, len(result), want)
	}
	srcs, at, end := [][]byte{result}, 0, s.starts[r+1]
	for b, n := s.dealt.Run(s.starts[r]); n > 0 && b < end; b, n = s.dealt.Run(b + n) {
		from, to := s.job.Grid.Range(b, min(n, end-b))
		s.list.Add(from, to-from, 1, false)
		s.list.From(0, at)
		at += to - from
		s.flush(s.job.Recv, srcs, block.Far(s.job.Recv), listed)
	}
	s.flush(s.job.Recv, srcs, block.Far(s.job.Recv), 0)
	return nil
}

// maxRun is the maximum number of blocks that are added up at once, so that these blocks of every source stay in a
// cache. listed is the number of words of a list that are processed at once.
const (
	maxRun = 64
	listed = 16 << 10
)

// each adds up the blocks of set from b to before end into dst, in runs of blocks that the same ranks have. place
// returns the position in dst of n bytes that begin at byte from of the tensor.
func (s *Sum) each(set block.Set, b, end int, dst []byte, far bool, place func(from, n int) int) {
	zero := block.ZeroCounts(s.job.Op, s.job.DType)
	srcs := s.blocks[:s.job.Ranks]
	for first, n := set.Run(b); n > 0 && first < end; first, n = set.Run(first + n) {
		n = min(n, end-first)
		for at, left := first, n; left > 0; {
			have := s.holders(at)
			k := 1
			for k < left && k < maxRun && s.holders(at+k) == have {
				k++
			}
			from, to := s.job.Grid.Range(at, k)
			holders := bits.OnesCount64(have)
			s.list.Add(place(from, to-from), to-from, holders, zero && holders < s.job.Ranks)
			s.gather(have, at)
			s.flush(dst, srcs, far, listed)
			at += k
			left -= k
		}
	}
	s.flush(dst, srcs, far, 0)
}

// flush processes the list if it has more than the given number of words.
func (s *Sum) flush(dst []byte, srcs [][]byte, far bool, over int) {
	if s.list.Len() > over {
		s.list.Run(s.job.Op, s.job.DType, dst, srcs, far)
		s.list.Reset()
	}
}

// holders returns the set of ranks that have block b, a bit for each.
func (s *Sum) holders(b int) (have uint64) {
	i, at := b/64, b%64
	for q := range s.job.Ranks {
		have |= s.sets[q][i] >> at & 1 << q
	}
	return have
}

// gather lists the positions of block b, and of the blocks after it, in the parts of these ranks.
func (s *Sum) gather(have uint64, b int) {
	i, earlier := b/64, uint64(1)<<(b%64)-1
	for ; have != 0; have &= have - 1 {
		q := bits.TrailingZeros64(have)
		n := int(s.before[q][i]) + bits.OnesCount64(s.sets[q][i]&earlier)
		s.list.From(q, n*s.job.Grid.BlockBytes())
	}
}
