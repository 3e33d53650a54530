package block

import (
	"bytes"
	"testing"

	"github.com/treerun/treerun/internal/kernel"
)

// Zeros are written to the blocks that are not in the union, and to nothing else, whether or not they are written past
// the caches.
func TestZero(t *testing.T) {
	for _, elements := range []int{1, 700, 5000, farBytes/4 + 11} {
		g := Grid{Elements: elements, Size: 700, Width: 4}
		for every := 1; every <= 4; every++ {
			union, tensor := NewSet(g.Blocks()), bytes.Repeat([]byte{0xEE}, g.Bytes())
			want := bytes.Clone(tensor)
			for b := range g.Blocks() {
				if b%every == every/2 {
					union.Add(b)
				} else {
					clear(g.Of(want, b, 1))
				}
			}
			if Zero(new(kernel.Pieces), kernel.Float32, g, tensor, union); !bytes.Equal(tensor, want) {
				t.Errorf("%d elements, every %d. block: other bytes than expected", elements, every)
			}
		}
	}
}
