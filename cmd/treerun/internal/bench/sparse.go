//go:build linux

package bench

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/sparse"
)

// spread describes which blocks of the ranks' tensors are not zero. All ranks have that of all, for comparing the
// result.
type spread struct {
	count, block int      // elements, of the tensor and of a block
	blocks       [][]bool // by rank, by block
	nonZero      int      // blocks of a rank
	union        []bool   // by block
	fill         float64  // part of the elements of a block that is not zero, at random
	sameValues   bool     // all ranks draw the same values

	options []sparse.Option
	stats   sparse.Stats // of the latest call
}

// record records the stats of a call.
func (s *spread) record(stats sparse.Stats, err error) error {
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
		count: k.Count, block: o.BlockSize, blocks: make([][]bool, size), union: make([]bool, blocks),
		fill: o.Fill, sameValues: k.Overlap == "full",
		options: []sparse.Option{sparse.BlockSize(o.BlockSize), sparse.Use(form)},
	}
	s.nonZero = int(math.Round(k.Density * float64(blocks)))
	common := rand.New(rand.NewPCG(1, 1)).Perm(blocks)
	for q := range s.blocks {
		order, from := common, 0
		switch k.Overlap {
		case "random":
			order = rand.New(rand.NewPCG(2, uint64(q))).Perm(blocks)
		case "none":
			from = q * s.nonZero
		}
		s.blocks[q] = make([]bool, blocks)
		for i := range s.nonZero {
			b := order[(from+i)%blocks]
			s.blocks[q][b], s.union[b] = true, true
		}
	}
	return s
}

// isNonZero reports whether element i of a block that a rank has is not zero.
func (s *spread) isNonZero(rank, i int) bool {
	if s.fill == 1 {
		return true
	}
	if s.sameValues {
		rank = 0
	}
	x := (uint64(i) + uint64(rank)<<40 + 1) * 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return float64((x^x>>31)>>11) < s.fill*(1<<53)
}

// bounds returns the first element of a block, and the one after its last.
func (s *spread) bounds(b int) (from, to int) { return b * s.block, min((b+1)*s.block, s.count) }

// sparseCalls returns the functions that call a sparse AllReduce, which takes some of the types; Cases has it with no
// other.
func sparseCalls[T collective.Number]() collectiveFuncs[T] {
	for _, calls := range []any{sparseCallsOf[int32](), sparseCallsOf[int64](), sparseCallsOf[float32](),
		sparseCallsOf[float64](), sparseCallsOf[collective.Float16](), sparseCallsOf[collective.BFloat16]()} {
		if x, ok := calls.(collectiveFuncs[T]); ok {
			return x
		}
	}
	return collectiveFuncs[T]{}
}

func sparseCallsOf[T sparse.Number]() collectiveFuncs[T] {
	return collectiveFuncs[T]{
		run: func(ctx context.Context, k *call[T]) error {
			return k.spread.record(sparse.AllReduce(ctx, k.c, k.send, k.recv, k.op, k.spread.options...))
		},
		device: func(ctx context.Context, k *call[T]) error {
			return k.spread.record(
				sparse.AllReduceDevice(ctx, k.c, k.stream, k.input, k.out, k.op, k.spread.options...))
		},
	}
}

// refillInput writes this rank's input to those blocks of send that it has, or that a call may have changed; the others
// are zero.
func (m *meter[T]) refillInput(k *call[T], data *pattern[T]) {
	for b, has := range k.spread.blocks[m.c.Rank()] {
		from, to := k.spread.bounds(b)
		switch {
		case has:
			fill(k.send[from:to], data, from)
			for i := range k.send[from:to] {
				if !k.spread.isNonZero(m.c.Rank(), from+i) {
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
	for b, nonZero := range s.union {
		from, to := s.bounds(b)
		if !nonZero {
			wrong += differences(k.recv[from:to], new(pattern[T]), 0)
			continue
		}
		for i := from; i < to; i++ {
			copy(list, values[i%period])
			for q := range list {
				if !s.blocks[q][b] || !s.isNonZero(q, i) {
					list[q] = 0
				}
			}
			if k.recv[i] != o.combine(list) {
				wrong++
			}
		}
	}
	return wrong
}

// addSparse adds to a row the form in which the timed calls ran, the same on all ranks, and the stats of the latest of
// them, each from the rank with the largest value. All ranks call it.
func (m *meter[T]) addSparse(ctx context.Context, r *Row, k *Case, s *spread) error {
	st := &s.stats
	maxima := []float64{float64(st.SentBytes), float64(st.ReceivedBytes), st.Finding.Seconds() * 1e6, st.UnionDensity}
	if err := collective.AllReduce(ctx, m.c, maxima, maxima, collective.Max); err != nil {
		return err
	}
	form := st.Form
	us := func(f sparse.Form) float64 { return float64(st.Predicted[f].Nanoseconds()) / 1e3 }
	r.Sparse = &Sparse{
		Density: k.Density, Overlap: k.Overlap, BlockSize: s.block, Form: form.String(), Blocks: st.Blocks,
		NonZero: s.nonZero, UnionDensity: maxima[3], SentBytes: int64(maxima[0]), ReceivedBytes: int64(maxima[1]),
		FindUs:  math.Round(maxima[2]*10) / 10,
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

// networkSeconds returns the least seconds that a sparse message takes between hosts on an even network, a part of the
// time of a dense one: a host's card is busy at least as long as for the blocks of its ranks, or for those of the other
// hosts, whichever are more.
func (m *meter[T]) networkSeconds(s *spread, dense float64) float64 {
	hosts := make(map[int][]bool) // the blocks of the ranks of each
	hostOf := m.c.Graph().Hosts
	if hostOf == nil || dense == 0 || s.fill < 1 { // of elements, less than blocks may travel
		return 0
	}
	for q, h := range hostOf {
		if hosts[h] == nil {
			hosts[h] = make([]bool, len(s.union))
		}
		for b, nonZero := range s.blocks[q] {
			hosts[h][b] = hosts[h][b] || nonZero
		}
	}
	maxBlocks := 0
	for h, blocks := range hosts {
		sent, received := 0, 0
		for b, nonZero := range blocks {
			if nonZero {
				sent++
			}
			for g, other := range hosts {
				if g != h && other[b] {
					received++
					break
				}
			}
		}
		maxBlocks = max(maxBlocks, sent, received)
	}
	n := float64(len(hosts))
	return dense * n / (2 * (n - 1)) * float64(maxBlocks) / float64(max(len(s.union), 1))
}

// allOverlaps are the ways in which the ranks' non-zero blocks can lie: all have the same ones; each has drawn its own;
// as few as possible are also another's.
var allOverlaps = []string{"full", "random", "none"}

// forms are the forms in which a sparse collective can run.
var forms = []string{"trees", "aggregators", "shared", "dense", "compact"}

// sparseTypes and sparseOps are the types and operations of sparse collectives.
var (
	sparseTypes = []string{"int32", "int64", "float16", "float32", "float64", "bfloat16"}
	sparseOps   = []string{"sum", "min", "max"}
)

const (
	maxBlock       = 1 << 17 // elements of 8 bytes are the largest block then
	maxAggregators = 64      // every one has a link to every rank
)

// parseSparse reads the flags of sparse collectives.
func (o *Options) parseSparse(densities []string) error {
	for _, text := range densities {
		d, err := strconv.ParseFloat(text, 64)
		if err != nil || !(d >= 0 && d <= 1) {
			return usage("--density %q: want parts from 0 to 1, such as 0.01", text)
		}
		if slices.Contains(o.Densities, d) {
			return usage("--density: %s is given twice", text)
		}
		o.Densities = append(o.Densities, d)
	}
	if len(o.Densities) == 0 {
		return usage("--density: want at least one")
	}
	var err error
	if o.Overlaps, err = parseNames("--overlap", o.Overlaps, allOverlaps); err != nil {
		return err
	}
	sparse := slices.ContainsFunc(o.Collectives, func(name string) bool { return find(name).Sparse })
	switch {
	case !(o.Fill > 0 && o.Fill <= 1):
		return usage("--fill %v: want a part above 0, up to 1", o.Fill)
	case o.Aggregators > 0 && o.Form != "" && o.Form != "aggregators":
		return usage("--aggregators is for --form aggregators, not %s", o.Form)
	case o.Form == "compact" && o.Device != CUDA:
		return usage("--form compact is for --device cuda")
	}
	for _, flag := range []string{"density", "overlap", "block", "fill", "form", "aggregators"} {
		if o.Flags.Changed(flag) && !sparse {
			return usage("--%s is for sparse collectives", flag)
		}
	}
	return nil
}

// sparse reports whether sparse collectives take elements of the type.
func (t Type) sparse() bool { return slices.Contains(sparseTypes, t.Name) }
