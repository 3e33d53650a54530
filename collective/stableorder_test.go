package collective

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/treerun/treerun/topo"
)

// With WithStableOrder, on a machine whose ranks lack links to each other, sums have the bits of additions in rank
// order, whether a message is reduced at once or in parts, by AllReduce, Reduce or ReduceScatter.
func TestStableOrderWithoutLinks(t *testing.T) {
	g, _ := topo.Machine("dgx1v")
	const count = 8 * 5000
	inputs := make([][]float32, g.Ranks)
	want := make([]float32, count)
	rng := rand.New(rand.NewPCG(1, 2))
	for r := range inputs {
		for i := range count {
			x := rng.Float32() * float32(int(1)<<rng.IntN(20))
			inputs[r] = append(inputs[r], x)
			want[i] += x
		}
	}
	same := func(got, want []float32) error {
		for i := range got {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				return fmt.Errorf("element %d is %v, want %v", i, got[i], want[i])
			}
		}
		return nil
	}
	rank := func(c *Comm) error {
		ctx, in := t.Context(), inputs[c.Rank()]
		for _, part := range []int{count, count / 8, 10} {
			out := slices.Clone(in[:part])
			if err := AllReduce(ctx, c, out, out, Sum); err != nil {
				return err
			}
			if err := same(out, want); err != nil {
				return fmt.Errorf("AllReduce of %d: %w", part, err)
			}
			root := part % c.Size()
			if err := Reduce(ctx, c, in[:part], out, Sum, root); err != nil {
				return err
			}
			if err := same(out, want); err != nil && c.Rank() == root {
				return fmt.Errorf("Reduce of %d: %w", part, err)
			}
		}
		own := make([]float32, count/c.Size())
		if err := ReduceScatter(ctx, c, in, own, Sum); err != nil {
			return err
		}
		return same(own, want[c.Rank()*len(own):])
	}
	failed := make(chan error)
	for _, w := range InProcess(g.Ranks) {
		go func() {
			c, err := New(t.Context(), w, WithGraph(g), WithStableOrder())
			if err == nil {
				err = rank(c)
				c.Close()
			}
			failed <- err
		}()
	}
	for range g.Ranks {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}
