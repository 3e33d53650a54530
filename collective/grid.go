package collective

import (
	"context"
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/internal/p2p"
	"github.com/treerun/treerun/internal/kernel"
)

// Grid numbers the ranks of a communicator as the points of a grid, the last dimension fastest, as MPI's Cartesian
// topologies do. It does not change, and any goroutine may use it.
type Grid struct {
	c        *Comm
	dims     []int
	periodic []bool
}

// NewGrid returns the grid of c with these numbers of ranks in each dimension; their product is c.Size(). In a
// dimension that is periodic the first and the last ranks are neighbors; nil: none is. NewGrid does not communicate.
func NewGrid(c *Comm, dims []int, periodic []bool) (*Grid, error) {
	const name = "NewGrid"
	if c == nil {
		return nil, c.inner().ArgumentError(name, "")
	}
	n := 1
	for _, d := range dims {
		if d < 1 || d > c.inner().Size {
			return nil, c.inner().ArgumentError(name, "dimensions %v, want each in 1..%d", dims, c.inner().Size)
		}
		n *= d
	}
	if periodic == nil {
		periodic = make([]bool, len(dims))
	}
	switch {
	case len(periodic) != len(dims):
		return nil, c.inner().ArgumentError(name, "%d dimensions, and periodic has %d", len(dims), len(periodic))
	case n != c.inner().Size:
		return nil, c.inner().ArgumentError(name, "dimensions %v have %d points, for %d ranks (hint: Dims)", dims, n,
			c.inner().Size)
	}
	return &Grid{c, slices.Clone(dims), slices.Clone(periodic)}, nil
}

// Dims returns the sides of a grid of n points in d dimensions, as equal as whole numbers can be, the largest first. n
// and d are at least 1; it panics for others.
func Dims(n, d int) []int {
	if n < 1 || d < 1 {
		panic(fmt.Sprintf("collective: Dims(%d, %d): want at least 1", n, d))
	}
	var best []int
	var search func(sides []int, rest, most int)
	search = func(sides []int, rest, most int) {
		if len(sides) == d-1 {
			if all := append(slices.Clone(sides), rest); rest <= most && (best == nil || moreEqual(all, best)) {
				best = all
			}
			return
		}
		for side := min(rest, most); side >= 1; side-- {
			if rest%side == 0 {
				search(append(sides, side), rest/side, side)
			}
		}
	}
	search(nil, n, n)
	return best
}

// moreEqual reports whether the sides a, of the same product as b and the largest first, have a smaller sum.
func moreEqual(a, b []int) bool {
	sum := 0
	for i := range a {
		sum += a[i] - b[i]
	}
	return sum < 0
}

// Coords returns the coordinates of a rank, which is one of the grid's; it panics for others.
func (g *Grid) Coords(rank int) []int {
	if rank < 0 || rank >= g.c.Size() {
		panic(fmt.Sprintf("collective: Grid.Coords(%d): want a rank in 0..%d", rank, g.c.Size()-1))
	}
	at := make([]int, len(g.dims))
	for i, d := range slices.Backward(g.dims) {
		at[i], rank = rank%d, rank/d
	}
	return at
}

// Rank returns the rank at these coordinates, one for each dimension, and NoRank outside the grid. It panics for
// another number of coordinates.
func (g *Grid) Rank(coords ...int) int {
	if len(coords) != len(g.dims) {
		panic(fmt.Sprintf("collective: Grid.Rank%v: want %d coordinates", coords, len(g.dims)))
	}
	rank := 0
	for i, d := range g.dims {
		x := coords[i]
		if g.periodic[i] {
			x = ((x % d) + d) % d
		}
		if x < 0 || x >= d {
			return NoRank
		}
		rank = rank*d + x
	}
	return rank
}

// Shift returns the ranks at a distance in dimension dim: the one that is by lower, and the one that is by higher.
// Either is NoRank outside the grid. So SendRecv(ctx, c, send, higher, recv, lower, tag) moves data up by one. Shift
// panics for a dimension that the grid does not have.
func (g *Grid) Shift(dim, by int) (lower, higher int) {
	if dim < 0 || dim >= len(g.dims) {
		panic(fmt.Sprintf("collective: Grid.Shift of dimension %d: want one in 0..%d", dim, len(g.dims)-1))
	}
	at := g.Coords(g.c.Rank())
	at[dim] -= by
	lower = g.Rank(at...)
	at[dim] += 2 * by
	return lower, g.Rank(at...)
}

// Exchange exchanges messages with both neighbors in every dimension, all at once: send[2*d] goes to the lower neighbor
// in dimension d and recv[2*d] comes from it, send[2*d+1] and recv[2*d+1] are those of the higher one. Slices without a
// neighbor are left as they are. Both ends of a pair give slices of the same length and type: a difference is an
// ErrMismatch on all ranks. No slice of recv that is used overlaps another slice that is used. No other messages with
// this tag are under way between neighbors. After an error the contents of recv are undefined.
func Exchange[T any](ctx context.Context, g *Grid, send, recv [][]T, tag int) error {
	const name = "Exchange"
	if g == nil {
		return (*Comm)(nil).inner().ArgumentError(name, "")
	}
	in, n := g.c.inner(), 2*len(g.dims)
	if len(send) != n || len(recv) != n {
		return in.ArgumentError(name, "send has %d slices and recv %d, want %d: two for each dimension", len(send), len(recv),
			n)
	}
	receives, sends := make([]p2p.Message, n), make([]p2p.Message, n)
	for d := range g.dims {
		lower, higher := g.Shift(d, 1)
		for i, peer := range []int{lower, higher} {
			messageOf(&sends[2*d+i], send[2*d+i], peer, tag)
			// two messages between the same ranks come in the order in which they are sent
			messageOf(&receives[2*d+1-i], recv[2*d+i], peer, tag)
		}
	}
	if refusal := overlapIn(receives, sends); refusal != "" {
		return in.ArgumentError(name, "%s", refusal)
	}
	return in.Messages.Exchange(ctx, name, receives, sends, tag)
}

// overlapIn returns why these messages cannot be exchanged at once, "" where each receive has memory of its own.
func overlapIn(receives, sends []p2p.Message) string {
	for i := range receives {
		overlaps := func(m *p2p.Message) bool {
			return m.Peer != NoRank && kernel.OverlapOf(receives[i].Buf, m.Buf) != kernel.Apart
		}
		if receives[i].Peer == NoRank {
			continue
		}
		for k := range sends {
			if overlaps(&sends[k]) {
				return fmt.Sprintf("slice %d of send and slice %d of recv overlap", k, i^1)
			}
		}
		for k := range i {
			if overlaps(&receives[k]) {
				return fmt.Sprintf("slices %d and %d of recv overlap", min(k^1, i^1), max(k^1, i^1))
			}
		}
	}
	return ""
}
