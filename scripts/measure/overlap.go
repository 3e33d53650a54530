package main

import (
	"runtime"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/internal/backoff"
)

// overlap measures how much of an AllReduce takes place while the program does other work, for scripts/overlap.sh,
// beside its MPI twin, scripts/mpi_overlap.c. It starts one, sleeps or computes for the time that it takes alone, and
// waits for it. Rank 0 prints the median times in microseconds: of the call alone; of the sleep alone and with the
// call; of the computation alone and with the call.
func overlap(args []string) {
	count, iterations := number(args[0])/4, number(args[1])
	run(func(c *collective.Comm) {
		x, y := make([]float32, count), make([]float32, count)
		around := func(work func()) func() {
			return func() {
				r := must(collective.StartAllReduce(c, x, y, collective.Sum))
				work()
				check(r.Wait(ctx))
			}
		}
		pure := around(func() {})
		median(c, iterations, pure) // opens links, touches memory
		call := median(c, iterations, pure)
		var row []float64
		for _, f := range []func(time.Duration){backoff.Nap, compute} {
			work := func() { f(time.Duration(call * 1e3)) }
			row = append(row, median(c, iterations, work), median(c, iterations, around(work)))
		}
		show(c, "%.1f %.1f %.1f %.1f %.1f", call, row[0], row[1], row[2], row[3])
	})
}

// compute computes, for about the time d on a core of its own: always the same work for the same d.
func compute(d time.Duration) {
	x := 1.0
	for range d.Nanoseconds() / 2 {
		x = x*1.0000001 + 1e-9
	}
	runtime.KeepAlive(x)
}
