//go:build cgo && linux

package sparse

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/kernel"
)

// A rank without a device also serves device calls: their results are those of the workers' tensors in their order.
func TestServeDevice(t *testing.T) {
	mustOnDevices(t, oneHost(3), func(c *collective.Comm, s *cuda.Stream) error {
		if c.Rank() == 2 {
			return Serve(t.Context(), c)
		}
		for i, size := range []int{64, 4000} {
			of := func(q int) []int32 { return input(patterns[8], q, 2, 20000, size, 1, int32s) }
			want := reduceInOrder(collective.Sum, []int{0, 1}, of)
			x, err := cuda.Alloc[int32](s.Device(), len(want))
			if err != nil {
				return err
			}
			got := of(c.Rank())
			if err := x.CopyFrom(t.Context(), s, got); err != nil {
				return err
			}
			st, err := AllReduceDevice(t.Context(), c, s, x, x, collective.Sum, BlockSize(size))
			if err != nil {
				return err
			}
			if err := c.SyncDevice(t.Context(), s); err != nil {
				return err
			}
			if err := x.CopyTo(t.Context(), s, got); err != nil {
				return err
			}
			if !bytes.Equal(kernel.BytesOf(got), kernel.BytesOf(want)) || st.Servers != 1 {
				return fmt.Errorf("call %d: the result is wrong, or no rank served: %v", i, st)
			}
			if err := x.Free(); err != nil {
				return err
			}
		}
		return StopServing(t.Context(), c)
	})
}
