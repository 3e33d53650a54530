package main

import (
	"log"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/internal/backoff"
)

// buckets measures backward passes with buckets of gradients, for scripts/buckets.sh. A pass takes as long as an
// AllReduce of all gradients. Layers are computed from the last to the first, each in the same time, and layer i has
// i+1 parts of the gradients. Rank 0 prints the median times in microseconds: of the AllReduce alone and the
// computation alone; of both, with one AllReduce at the end; and with buckets of each size, where the gradients lie in
// one array, and where each has its own.
func buckets(args []string) {
	count, iterations, layers := number(args[0])/4, number(args[1]), number(args[3])
	work := map[string]func(time.Duration){"sleep": backoff.Nap, "compute": compute}[args[2]]
	if work == nil {
		log.Fatalf("%q is neither sleep nor compute", args[2])
	}
	run(func(c *collective.Comm) {
		whole := make([]float32, count)
		reduce := func() { check(collective.AllReduce(ctx, c, whole, whole, collective.Avg)) }
		median(c, iterations, reduce) // opens links, touches memory
		row := []float64{median(c, iterations, reduce)}
		each := time.Duration(row[0]*1e3) / time.Duration(layers)
		pass := func(ready func(layer int), end func()) func() {
			return func() {
				for layer := layers - 1; layer >= 0; layer-- {
					work(each)
					ready(layer)
				}
				end()
			}
		}
		nothing := func(int) {}
		row = append(row, median(c, iterations, pass(nothing, func() {})), median(c, iterations, pass(nothing, reduce)))
		for _, bytes := range args[4:] {
			for _, apart := range []bool{false, true} {
				all := must(collective.NewBuckets(ctx, c, layersOf(whole, layers, apart), collective.Avg, number(bytes)))
				step := pass(func(layer int) { check(all.Ready(layer)) }, func() { check(all.Wait(ctx)) })
				median(c, iterations, step)
				row = append(row, median(c, iterations, step))
			}
		}
		show(c, "%.0f", row)
	})
}

// layersOf returns the gradients of each layer: parts of whole, or arrays of their own.
func layersOf(whole []float32, layers int, apart bool) [][]float32 {
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
	return list
}
