package sparse

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/numbers"
)

// Pairs is a sparse matrix that contains some of its rows, such as the gradient of an embedding:
// Values[i*Width:(i+1)*Width] is row Indices[i].
type Pairs[T Number] struct {
	Indices []uint32
	Values  []T
	Width   int
}

// AllReducePairs adds up the rows of all ranks: it returns, on every rank, all rows of the union, by rising index, each
// the sum of that row over all ranks. in may have its rows in any order, and a row several times, and is not changed;
// ranks may have any number of rows. All ranks call it together, with the same Width and options; BlockSize has no
// effect.
//
// The ranks first exchange their indices. The rows of the union then form a tensor without gaps, which is reduced as in
// AllReduce. Density in the Stats is of this tensor, and bytes are those of the rows: the indices, which all forms
// need, do not count.
func AllReducePairs[T Number](ctx context.Context, c *collective.Comm, in Pairs[T], opts ...Option) (Pairs[T], Stats,
	error) {
	const name = "sparse AllReducePairs"
	call := newCall(allReducePairs, dtypeOf[T](), collective.Sum, 0, opts)
	call.Block = int64(in.Width)
	wrong := call.check()
	if wrong == "" && (len(in.Indices) > math.MaxUint32/4 || len(in.Values) != len(in.Indices)*in.Width) {
		wrong = fmt.Sprintf("%d values for %d rows of %d", len(in.Values), len(in.Indices), in.Width)
	}
	s, err := claim(c, name, wrong)
	if err != nil {
		return Pairs[T]{}, Stats{}, err
	}
	defer s.c.End()
	p := pairs[T]{own: sorted(in), reduction: newReduction(call)}
	p.state, p.inPlace = s, true
	out, err := p.run(ctx)
	return out, p.stats, err
}

// pairs is an AllReducePairs in flight.
type pairs[T Number] struct {
	reduction
	own   Pairs[T]   // sorted, every row once
	lists [][]uint32 // the indices of all ranks
	union []uint32
}

// sorted returns in by rising index, with rows of the same index added up in their order. If in is sorted already it
// returns in itself.
func sorted[T Number](in Pairs[T]) Pairs[T] {
	rising := true
	for i := 1; i < len(in.Indices); i++ {
		rising = rising && in.Indices[i-1] < in.Indices[i]
	}
	if rising {
		return in
	}
	order := numbers.Order(len(in.Indices), func(a, b int) int { return int(int64(in.Indices[a]) - int64(in.Indices[b])) })
	out := Pairs[T]{Width: in.Width}
	for _, i := range order {
		row := in.Values[i*in.Width : (i+1)*in.Width]
		if n := len(out.Indices); n == 0 || out.Indices[n-1] != in.Indices[i] {
			out.Indices = append(out.Indices, in.Indices[i])
			out.Values = append(out.Values, row...)
			continue
		}
		last := out.Values[len(out.Values)-in.Width:]
		kernel.Reduce(kernel.Sum, dtypeOf[T](), kernel.BytesOf(last), kernel.BytesOf(last), kernel.BytesOf(row))
	}
	return out
}

func (p *pairs[T]) run(ctx context.Context) (Pairs[T], error) {
	out := Pairs[T]{Width: p.own.Width}
	all, err := p.greet(ctx, hello{Call: p.call, Pairs: uint32(len(p.own.Indices))})
	if err != nil {
		return out, err
	}
	if err := p.gatherIndices(ctx, all); err != nil {
		return out, err
	}
	if err := p.buildTensor(); err != nil { // the same on all ranks
		return out, p.state.c.ArgumentError(p.call.String(), "%w", err)
	}
	for q, list := range p.lists {
		all[q].Sample = sampleOf(p.blocksOf(list), p.grid.Blocks())
	}
	out.Indices = p.union
	out.Values = make([]T, len(p.union)*out.Width)
	p.each(p.own.Indices, func(i, at int) {
		copy(out.Values[at*out.Width:(at+1)*out.Width], p.own.Values[i*out.Width:])
	})
	p.in = kernel.BytesOf(out.Values)
	p.out = p.in
	return out, p.reduce(ctx, p, all)
}

// gatherIndices gathers the indices of all ranks on every rank, padded to the longest list.
func (p *pairs[T]) gatherIndices(ctx context.Context, all []hello) error {
	most := 0
	for q := range all {
		most = max(most, int(all[q].Pairs))
	}
	p.lists = make([][]uint32, p.state.c.Size)
	if most == 0 {
		return nil
	}
	mine := make([]byte, 4*most)
	for i, index := range p.own.Indices {
		binary.LittleEndian.PutUint32(mine[4*i:], index)
	}
	blobs := make([]byte, len(mine)*p.state.c.Size)
	if err := p.state.inside.Gather(ctx, p.name, mine, blobs); err != nil {
		return err
	}
	for q := range p.lists {
		list, err := parseIndices(blobs[q*len(mine):(q+1)*len(mine)], int(all[q].Pairs))
		if err != nil {
			return p.state.broken(p.name, fmt.Errorf("from rank %d: %w", q, err))
		}
		p.lists[q] = list
	}
	return nil
}

// parseIndices decodes the n indices of a rank, which must rise.
func parseIndices(b []byte, n int) ([]uint32, error) {
	if n > len(b)/4 {
		return nil, fmt.Errorf("%d indices in %d bytes", n, len(b))
	}
	list := make([]uint32, n)
	for i := range list {
		list[i] = binary.LittleEndian.Uint32(b[4*i:])
		if i > 0 && list[i] <= list[i-1] {
			return nil, fmt.Errorf("index %d follows index %d", list[i], list[i-1])
		}
	}
	return list, nil
}

// minBlock is the minimum number of elements of a block of rows: shorter ones would cost more to handle than they save.
const minBlock = 64

// buildTensor builds the union of all indices, and the tensor of its rows: its blocks are whole rows.
func (p *pairs[T]) buildTensor() error {
	for _, list := range p.lists {
		p.union = append(p.union, list...)
	}
	slices.Sort(p.union)
	p.union = slices.Clip(slices.Compact(p.union))
	p.grid = p.gridOf(len(p.union))
	if err := p.grid.Validate(); err != nil {
		return fmt.Errorf("%d rows that any rank has: %w", len(p.union), err)
	}
	p.call.Count = int64(p.grid.Elements)
	p.stats.Blocks = p.grid.Blocks()
	p.state.set = p.blocksOf(p.own.Indices)
	p.counted()
	return nil
}

// gridOf returns the grid of a tensor with the given number of rows.
func (p *pairs[T]) gridOf(union int) block.Grid {
	w := p.own.Width
	rows := (minBlock + w - 1) / w
	return block.Grid{Elements: union * w, Size: rows * w, Width: p.call.DType.Size()}
}

// blocksOf returns the blocks that contain rows of a list.
func (p *pairs[T]) blocksOf(list []uint32) block.Set {
	set := block.NewSet(p.grid.Blocks())
	p.each(list, func(_, at int) {
		for b := at * p.own.Width / p.grid.Size; b*p.grid.Size < (at+1)*p.own.Width; b++ {
			set.Add(b)
		}
	})
	return set
}

// each calls f with the position of every row in a list, and its position in the union.
func (p *pairs[T]) each(list []uint32, f func(i, at int)) {
	at := 0
	for i, index := range list {
		for p.union[at] != index {
			at++
		}
		f(i, at)
	}
}
