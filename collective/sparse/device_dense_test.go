//go:build cgo && linux

package sparse

import (
	"fmt"
	"testing"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/cuda"
)

// In the dense form blocks go from device to device, mixed with the other forms and by price.
func TestDenseOnDevice(t *testing.T) {
	mustOnDevices(t, oneHost(3), func(c *collective.Comm, s *cuda.Stream) error {
		for i, form := range []Form{Dense, Trees, ByPrice, Dense, Aggregators, ByPrice} {
			send := make([]int32, 50000)
			for k := range send {
				if i%2 == 0 || k < 1000 {
					send[k] = int32(k * (c.Rank() + i))
				}
			}
			_, got, st, err := callOnDevice(t.Context(), c, s, send, 77, collective.Sum, i%2 == 0, Use(form))
			if err != nil {
				return err
			}
			if st.Form != form && form != ByPrice || form == ByPrice && (st.Predicted[Dense] <= 0 || st.Predicted[Trees] <= 0) ||
				st.Form == Dense && st.NonZero != -1 {
				return fmt.Errorf("%v ran as %+v", form, st)
			}
			for k := range got {
				want := int32(0)
				if i%2 == 0 || k < 1000 {
					want = int32(k * (3 + 3*i))
				}
				if got[k] != want {
					return fmt.Errorf("%v: element %d is %d, want %d", form, k, got[k], want)
				}
			}
		}
		return nil
	})
}
