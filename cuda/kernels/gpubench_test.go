//go:build cgo

package kernels_test

import (
	"testing"
	"time"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/kernel"
)

// BenchmarkRates tells how quickly kernels move bytes, read plus written, beside the driver's own
// copy: times are those of the device.
func BenchmarkRates(b *testing.B) {
	g := first(b)
	bytes := min(256<<20, g.TotalMemory()/64/64*64)
	var x [5]cuda.Slice[uint8]
	var at [5]cuda.Addr
	for i := range x {
		var err error
		x[i], err = cuda.Alloc[uint8](g.Device, int(bytes))
		must(b, err)
		defer func() { must(b, x[i].Free()) }()
		at[i] = x[i].Addr()
		must(b, g.stream.Memset(at[i], 0, bytes))
	}
	sum := func(op kernel.Op, d kernel.DType, sources int, forward bool) func() error {
		to := at[:1:1]
		if forward {
			to = append(to, at[4])
		}
		return func() error { return g.combine(op, d, int(bytes)/d.Size(), to, at[1:1+sources]...) }
	}
	for _, k := range []struct {
		name   string
		arrays int64 // read plus written
		run    func() error
	}{
		{"driver", 2, func() error { return g.stream.Memcpy(at[0], at[1], bytes) }},
		{"copy", 2, sum(0, kernel.Uint8, 1, false)},
		{"forward", 3, sum(0, kernel.Uint8, 1, true)},
		{"sum-2-float32", 3, sum(kernel.Sum, kernel.Float32, 2, false)},
		{"sum-3-float32", 4, sum(kernel.Sum, kernel.Float32, 3, false)},
		{"sum-2-float32-forward", 4, sum(kernel.Sum, kernel.Float32, 2, true)},
		{"sum-3-float32-forward", 5, sum(kernel.Sum, kernel.Float32, 3, true)},
		{"sum-2-bfloat16", 3, sum(kernel.Sum, kernel.BFloat16, 2, false)},
		{"sum-2-float64", 3, sum(kernel.Sum, kernel.Float64, 2, false)},
		{"max-2-int8", 3, sum(kernel.Max, kernel.Int8, 2, false)},
	} {
		b.Run(k.name, func(b *testing.B) { g.rate(b, k.arrays*bytes, k.run) })
	}
}

// rate reports the GB/s of work in the stream, by the device's clock.
func (g gpu) rate(b *testing.B, bytes int64, enqueue func() error) {
	begin, err := g.NewEvent(true)
	must(b, err)
	defer begin.Close()
	end, err := g.NewEvent(true)
	must(b, err)
	defer end.Close()
	must(b, enqueue())
	var total time.Duration
	for range b.N {
		must(b, g.stream.Record(begin))
		must(b, enqueue())
		must(b, g.stream.Record(end))
		must(b, g.stream.Synchronize(b.Context()))
		d, err := end.Since(begin)
		must(b, err)
		total += d
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(bytes)*float64(b.N)/total.Seconds()/1e9, "GB/s")
}
