package omni

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
)

// A tensor that fits offsets with one column fits them with as many as MostColumns says,
// and tensors far from their end may have as many as they like.
func TestMostColumns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Shape{DType: kernel.Float32, Op: kernel.Sum, Workers: 2, Columns: 1}
		s.Aggregators = rapid.IntRange(1, 16).Draw(t, "aggregators")
		s.Streams = s.Aggregators * rapid.IntRange(1, 64).Draw(t, "streams")
		s.Grid = block.Grid{Size: rapid.IntRange(16, 1<<18).Draw(t, "block"), Width: 4}
		s.Grid.Elements = 1<<32 + rapid.IntRange(-1<<32, 1<<20).Draw(t, "elements")
		one := s.Validate()
		if s.Columns = s.MostColumns(); s.Columns < 1 {
			t.Fatalf("%d columns", s.Columns)
		}
		if err := s.Validate(); one == nil && err != nil {
			t.Fatalf("%d columns: %v", s.Columns, err)
		}
		if s.Columns < MaxColumns && 4*s.columns()*s.Grid.Size < 1<<32-s.Grid.Elements {
			t.Fatalf("%d columns of %d streams of blocks of %d, and %d elements are left", s.Columns, s.Streams, s.Grid.Size,
				1<<32-s.Grid.Elements)
		}
	})
}
