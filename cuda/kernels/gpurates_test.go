//go:build cgo && linux

package kernels_test

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/kernel"
)

// arrays returns n arrays of the same random bytes, and the size of each: a GPU's caches hold less.
func (g gpu) arrays(t *testing.T, n int) ([]cuda.Addr, int64) {
	t.Helper()
	bytes := min(256<<20, g.TotalMemory()/32/int64(n)/64*64)
	host := make([]byte, bytes)
	_, _ = rand.Read(host)
	at := make([]cuda.Addr, n)
	for i := range at {
		x, err := cuda.Alloc[uint8](g.Device, int(bytes))
		must(t, err)
		t.Cleanup(func() { must(t, x.Free()) })
		must(t, x.CopyFrom(t.Context(), g.stream, host))
		at[i] = x.Addr()
	}
	return at, bytes
}

// TestProbeRates: the rates at which kernels move bytes, read plus written, compared to the driver's own copy: times
// are those of the device.
func TestProbeRates(t *testing.T) {
	g := first(t)
	at, bytes := g.arrays(t, 16)
	sum := func(op kernel.Op, d kernel.DType, sources, results int) func() error {
		return func() error {
			return g.combine(op, d, int(bytes)/d.Size(), at[:results], at[results:results+sources]...)
		}
	}
	float := func(sources, results int) func() error { return sum(kernel.Sum, kernel.Float32, sources, results) }
	for _, k := range []struct {
		name   string
		arrays int64 // read plus written
		run    func() error
	}{
		{"driver", 2, func() error { return g.stream.Memcpy(at[0], at[1], bytes) }},
		{"copy", 2, sum(0, kernel.Uint8, 1, 1)},
		{"copy-to-2", 3, sum(0, kernel.Uint8, 1, 2)},
		{"sum-2-float32", 3, float(2, 1)},
		{"sum-3-float32", 4, float(3, 1)},
		{"sum-4-float32", 5, float(4, 1)},
		{"sum-8-float32", 9, float(8, 1)},
		{"sum-2-float32-to-2", 4, float(2, 2)},
		{"sum-8-float32-to-2", 10, float(8, 2)},
		{"sum-8-float32-to-8", 16, float(8, 8)},
		{"sum-2-bfloat16", 3, sum(kernel.Sum, kernel.BFloat16, 2, 1)},
		{"sum-2-float64", 3, sum(kernel.Sum, kernel.Float64, 2, 1)},
		{"max-2-int8", 3, sum(kernel.Max, kernel.Int8, 2, 1)},
	} {
		t.Run(k.name, func(t *testing.T) {
			d := g.each(t, k.run)
			t.Attr("rate", fmt.Sprintf("%.1f GB/s", float64(k.arrays*bytes)/d.Seconds()/1e9))
		})
	}
}

// each returns the device's time for each of several runs, one after the other.
func (g gpu) each(t *testing.T, run func() error) time.Duration {
	t.Helper()
	must(t, run()) // the first one reads memory that nothing has touched
	all := func() {
		for range repeated() {
			must(t, run())
		}
	}
	return g.timed(t, all, func() {}) / time.Duration(repeated())
}
