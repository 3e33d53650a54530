package main

import (
	"fmt"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/internal/backoff"
)

// passes measures backward passes that take as long as an AllReduce of all gradients. Layers are computed from the last
// to the first, each in the same time, and layer i has i+1 parts of the gradients. Rank 0 prints the median times in
// microseconds: of the AllReduce alone and the computation alone; of both, with one AllReduce at the end; and with
// buckets of each size, where the gradients lie in one array, and where each has its own.
func (b *pairs) passes(how string, layers int, buckets []int) {
	work := map[string]func(time.Duration){"sleep": backoff.Nap, "compute": compute}[how]
	whole := make([]float32, len(b.recv))
	reduce := func() error { return collective.AllReduce(b.ctx, b.c, whole, whole, collective.Avg) }
	pass := func(ready func(layer int) error, end func() error) func() error {
		return func() error {
			for layer := layers - 1; layer >= 0; layer-- {
				work(b.each)
				if err := ready(layer); err != nil {
					return err
				}
			}
			return end()
		}
	}
	nothing := func(int) error { return nil }
	b.median(reduce) // opens links, touches memory
	row := []float64{b.median(reduce)}
	b.each = time.Duration(row[0]*1e3) / time.Duration(layers)
	row = append(row, b.median(pass(nothing, func() error { return nil })), b.median(pass(nothing, reduce)))
	for _, bytes := range buckets {
		for _, apart := range []bool{false, true} {
			list, rest := make([][]float32, layers), whole
			for i := range list {
				n := len(rest)
				if i < layers-1 {
					n = int(int64(len(whole)) * 2 * int64(i+1) / int64(layers*(layers+1)))
				}
				if list[i], rest = rest[:n], rest[n:]; apart {
					list[i] = make([]float32, n)
				}
			}
			all, err := collective.NewBuckets(b.ctx, b.c, list, collective.Avg, bytes)
			if b.err = err; err != nil {
				return
			}
			step := pass(all.Ready, func() error { return all.Wait(b.ctx) })
			b.median(step)
			row = append(row, b.median(step))
		}
	}
	if b.err == nil && b.c.Rank() == 0 {
		fmt.Printf("%.0f\n", row)
	}
}
