package sparse

import (
	"math"
	"testing"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
)

// Rows that exceed the maximum size of a tensor are refused, as AllReduce refuses such tensors.
func TestTooManyRows(t *testing.T) {
	for _, c := range []struct {
		width, rows int
		ok          bool
	}{
		{1, math.MaxUint32, true},
		{64, block.MaxBlocks, true},
		{64, block.MaxBlocks + 1, false},
		{300, math.MaxUint32, false},
		{maxBlockBytes / 4, 1 << 20, true},
	} {
		p := pairs[float32]{own: Pairs[float32]{Width: c.width},
			reduction: newReduction(call{DType: kernel.Float32, Block: int64(c.width)})}
		if err := p.gridOf(c.rows).Validate(); (err == nil) != c.ok {
			t.Errorf("%d rows of %d: %v", c.rows, c.width, err)
		}
	}
}
