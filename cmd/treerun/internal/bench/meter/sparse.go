package meter

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/sparse"
)

// spread describes which blocks of the ranks' tensors are not zero. All ranks have that of all, for comparing the
// result.
type spread struct {
	count, block int      // elements, of the tensor and of a block
	has          [][]bool // by rank, by block
	nonZero      int      // blocks of a rank
	union        []bool   // by block
	fill         float64  // part of the elements of a block that is not zero, at random
	alike        bool     // all ranks draw the same values

	options []sparse.Option
	stats   sparse.Stats // of the latest call
}

// ran records the stats of a call.
func (s *spread) ran(stats sparse.Stats, err error) error {
	if err == nil {
		s.stats = stats
	}
	return err
}

// newSpread lays out the blocks of a case. The number of non-zero blocks is the same on every rank.
func newSpread(k *Case, o *Options, size int) *spread {
	form, _ := sparse.ParseForm(o.Form) // one of Forms, or none
	blocks := (k.Count + o.BlockSize - 1) / o.BlockSize
	s := &spread{
		count: k.Count, block: o.BlockSize, has: make([][]bool, size), union: make([]bool, blocks),
		fill: o.Fill, alike: k.Overlap == "full",
		options: []sparse.Option{sparse.BlockSize(o.BlockSize), sparse.Use(form)},
	}
	s.nonZero = int(math.Round(k.Density * float64(blocks)))
	common := rand.New(rand.NewPCG(1, 1)).Perm(blocks)
	for q := range s.has {
		order, from := common, 0
		switch k.Overlap {
		case "random":
			order = rand.New(rand.NewPCG(2, uint64(q))).Perm(blocks)
		case "none":
			from = q * s.nonZero
		}
		s.has[q] = make([]bool, blocks)
		for i := range s.nonZero {
			b := order[(from+i)%blocks]
			s.has[q][b], s.union[b] = true, true
		}
	}
	return s
}

// drawn reports whether element i of a block that a rank has is not zero.
func (s *spread) drawn(rank, i int) bool {
	if s.fill == 1 {
		return true
	}
	if s.alike {
		rank = 0
	}
	x := (uint64(i) + uint64(rank)<<40 + 1) * 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return float64((x^x>>31)>>11) < s.fill*(1<<53)
}

// bounds returns the first element of a block, and the one after its last.
func (s *spread) bounds(b int) (from, to int) { return b * s.block, min((b+1)*s.block, s.count) }

// sparseOf returns the functions that call a sparse AllReduce, which takes some of the types; Cases has it with no
// other.
func sparseOf[T collective.Number]() collectiveOf[T] {
	for _, of := range []any{sparseOn[int32](), sparseOn[int64](), sparseOn[float32](), sparseOn[float64](),
		sparseOn[collective.Float16](), sparseOn[collective.BFloat16]()} {
		if x, is := of.(collectiveOf[T]); is {
			return x
		}
	}
	return collectiveOf[T]{}
}

func sparseOn[T sparse.Number]() collectiveOf[T] {
	return collectiveOf[T]{
		run: func(ctx context.Context, k *call[T]) error {
			return k.spread.ran(sparse.AllReduce(ctx, k.c, k.send, k.recv, k.op, k.spread.options...))
		},
		device: func(ctx context.Context, k *call[T]) error {
			return k.spread.ran(sparse.AllReduceDevice(ctx, k.c, k.stream, k.input, k.out, k.op, k.spread.options...))
		},
	}
}

// relay writes this rank's input to those blocks of send that it has, or that a call may have changed; the others are
// zero.
func (m *meter[T]) relay(k *call[T], data *pattern[T]) {
	for b, has := range k.spread.has[m.c.Rank()] {
		from, to := k.spread.bounds(b)
		switch {
		case has:
			fill(k.send[from:to], data, from)
			for i := range k.send[from:to] {
				if !k.spread.drawn(m.c.Rank(), from+i) {
					k.send[from+i] = 0
				}
			}
		case k.spread.union[b]:
			clear(k.send[from:to])
		}
	}
}

// wrongSparse counts the wrong elements of a result.
func (m *meter[T]) wrongSparse(k *call[T], o *oracle[T]) (wrong int64) {
	var values [period][]int64
	for i := range values {
		values[i] = o.values(i)
	}
	s, list := k.spread, make([]int64, o.size)
	for b, some := range s.union {
		from, to := s.bounds(b)
		if !some {
			wrong += differences(k.recv[from:to], new(pattern[T]), 0)
			continue
		}
		for i := from; i < to; i++ {
			copy(list, values[i%period])
			for q := range list {
				if !s.has[q][b] || !s.drawn(q, i) {
					list[q] = 0
				}
			}
			if k.recv[i] != o.combined(list) {
				wrong++
			}
		}
	}
	return wrong
}

// tellSparse adds to a row the form in which the timed calls ran, the same on all ranks, and the stats of the latest of
// them, each from the rank with the largest value. All ranks call it.
func (m *meter[T]) tellSparse(ctx context.Context, r *Row, k *Case, s *spread) error {
	st := &s.stats
	most := []float64{float64(st.SentBytes), float64(st.ReceivedBytes), st.Finding.Seconds() * 1e6, st.UnionDensity}
	if err := collective.AllReduce(ctx, m.c, most, most, collective.Max); err != nil {
		return err
	}
	form := st.Form
	us := func(f sparse.Form) float64 { return float64(st.Predicted[f].Nanoseconds()) / 1e3 }
	r.Sparse = &Sparse{
		Density: k.Density, Overlap: k.Overlap, BlockSize: s.block, Form: form.String(), Blocks: st.Blocks,
		NonZero: s.nonZero, UnionDensity: most[3], SentBytes: int64(most[0]), ReceivedBytes: int64(most[1]),
		FindUs:  math.Round(most[2]*10) / 10,
		TreesUs: us(sparse.Trees), SharedUs: us(sparse.Shared), DenseUs: us(sparse.Dense),
		CompactUs: us(sparse.Compact),
	}
	if s.fill < 1 {
		r.Sparse.Fill = s.fill
	}
	r.Plan = r.Sparse.Form
	if p := us(form); p > 0 {
		r.PredictedUs = &p
	}
	return nil
}

// crossing returns the least seconds that a sparse message takes between hosts on an even network, a part of the time
// of a dense one: a host's card is busy at least as long as for the blocks of its ranks, or for those of the other
// hosts, whichever are more.
func (m *meter[T]) crossing(s *spread, dense float64) float64 {
	hosts := make(map[int][]bool) // the blocks of the ranks of each
	of := m.c.Graph().Hosts
	if of == nil || dense == 0 || s.fill < 1 { // of elements, less than blocks may travel
		return 0
	}
	for q, h := range of {
		if hosts[h] == nil {
			hosts[h] = make([]bool, len(s.union))
		}
		for b, yes := range s.has[q] {
			hosts[h][b] = hosts[h][b] || yes
		}
	}
	most := 0
	for h, own := range hosts {
		sent, got := 0, 0
		for b, yes := range own {
			if yes {
				sent++
			}
			for g, other := range hosts {
				if g != h && other[b] {
					got++
					break
				}
			}
		}
		most = max(most, sent, got)
	}
	n := float64(len(hosts))
	return dense * n / (2 * (n - 1)) * float64(most) / float64(max(len(s.union), 1))
}
