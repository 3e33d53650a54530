package sparse

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/treerun/treerun/collective"
)

// Rows of all ranks are added up, whatever their order and number, in every form.
func TestAllReducePairs(t *testing.T) {
	for _, hosts := range [][]int{oneHost(1), oneHost(2), oneHost(5), {0, 1, 0, 1}} {
		mustRun(t, hosts, func(_ *world, c *collective.Comm) error {
			for i, form := range formsOn(hosts, ByPrice, Trees, Aggregators, Dense) {
				for _, width := range []int{1, 3, 64, 300} {
					for _, rows := range []int{0, 1, 50, 2000 / width} {
						if err := checkPairs(t, c, form, width, rows, uint64(i)); err != nil {
							return fmt.Errorf("%v, %d rows of %d: %w", form, rows, width, err)
						}
					}
				}
			}
			return nil
		})
	}
}

// pairsOf returns the pairs of a rank: small integers, whose sums are exact.
func pairsOf(rank, width, rows int, seed uint64) Pairs[float32] {
	r := rand.New(rand.NewPCG(seed, uint64(rank)))
	p := Pairs[float32]{Width: width}
	for range rows * (rank + 1) / 2 {
		p.Indices = append(p.Indices, uint32(r.IntN(3*rows))<<r.IntN(2)) // some several times
		for range width {
			p.Values = append(p.Values, float32(r.IntN(9)-4))
		}
	}
	return p
}

func checkPairs(t *testing.T, c *collective.Comm, form Form, width, rows int, seed uint64) error {
	want := make(map[uint32][]float32)
	for q := range c.Size() {
		p := pairsOf(q, width, rows, seed)
		for i, index := range p.Indices {
			if want[index] == nil {
				want[index] = make([]float32, width)
			}
			for k := range width {
				want[index][k] += p.Values[i*width+k]
			}
		}
	}
	in := pairsOf(c.Rank(), width, rows, seed)
	indices, values := slices.Clone(in.Indices), slices.Clone(in.Values)
	out, stats, err := AllReducePairs(t.Context(), c, in, Use(form))
	if err != nil {
		return err
	}
	if !slices.Equal(in.Indices, indices) || !slices.Equal(in.Values, values) {
		return errors.New("the input has changed")
	}
	if keys := slices.Sorted(maps.Keys(want)); !slices.Equal(out.Indices, keys) {
		return fmt.Errorf("rows %v, want %v", out.Indices, keys)
	}
	if err := checkPairsStats(stats, form, in, out.Indices); err != nil {
		return err
	}
	for i, index := range out.Indices {
		if row := out.Values[i*width : (i+1)*width]; !slices.Equal(row, want[index]) {
			return fmt.Errorf("row %d is %v, want %v (%v)", index, row, want[index], stats)
		}
	}
	return nil
}

// checkPairsStats compares the blocks in the stats with those of a rank's rows and of the union.
func checkPairsStats(stats Stats, form Form, in Pairs[float32], union []uint32) error {
	rows := (minBlock + in.Width - 1) / in.Width // of a block
	blocks, own := (len(union)+rows-1)/rows, make(map[int]bool)
	for _, index := range in.Indices {
		own[slices.Index(union, index)/rows] = true
	}
	want := [3]int{len(own), blocks, blocks}
	if stats.Form == Dense && len(union) > 0 {
		want = [3]int{-1, -1, blocks}
	} else if density := part(len(own), blocks); blocks > 0 && stats.Density != density {
		return fmt.Errorf("in form %v the density is %v, want %v", form, stats.Density, density)
	}
	if got := [3]int{stats.NonZero, stats.Union, stats.Blocks}; got != want {
		return fmt.Errorf("in form %v there are %v blocks of this rank, of the union and of all, want %v", form, got, want)
	}
	return nil
}

// If ranks have different widths, all of them get an error.
func TestPairsMismatch(t *testing.T) {
	errs := runRanks(t, oneHost(3), func(_ *world, c *collective.Comm) error {
		_, _, err := AllReducePairs(t.Context(), c, Pairs[int32]{Width: 2 + c.Rank()/2})
		return err
	})
	for r, err := range errs {
		var re *collective.RankError
		if !errors.As(err, &re) || !errors.Is(err, collective.ErrMismatch) || re.Rank != 2 {
			t.Errorf("rank %d: %v, want an ErrMismatch of rank 2", r, err)
		}
	}
}

// A row of -0 becomes +0 in the sum if a rank does not have it, and stays -0 if all ranks have it: in every form.
func TestPairsZeros(t *testing.T) {
	const ranks, width = 3, 70 // a row is a block
	negative := float32(math.Copysign(0, -1))
	for _, form := range []Form{Trees, Aggregators, Dense, Shared} {
		mustRun(t, oneHost(ranks), func(_ *world, c *collective.Comm) error {
			in := Pairs[float32]{Width: width}
			for _, index := range []uint32{3, 4, 5} { // of one rank, of two, of all
				if uint32(c.Rank()) < index-2 {
					in.Indices = append(in.Indices, index)
					in.Values = append(in.Values, slices.Repeat([]float32{negative}, width)...)
				}
			}
			in.Values[len(in.Values)-1] = 1 // else no rank would have to send the block
			out, _, err := AllReducePairs(t.Context(), c, in, Use(form))
			if err != nil {
				return err
			}
			for i, v := range out.Values[:len(out.Values)-1] {
				if i%width < width-1 && math.Signbit(float64(v)) != (i >= 2*width) {
					return fmt.Errorf("%v: element %d of row %d is %x", form, i%width, out.Indices[i/width], math.Float32bits(v))
				}
			}
			return nil
		})
	}
}

func FuzzParseIndices(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 2, 0, 0, 0}, 2)
	f.Add([]byte{2, 0, 0, 0, 2, 0, 0, 0}, 2)
	f.Add([]byte{2}, 1)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		if n < 0 {
			return
		}
		list, err := parseIndices(b, n)
		if err == nil && (len(list) != n || !slices.IsSorted(list)) {
			t.Fatalf("%v of %d", list, n)
		}
	})
}
