// Command overlap measures how much of an AllReduce takes place while the program does other work. It starts one,
// sleeps or computes for the time that it takes alone, and waits for it. scripts/overlap.sh runs it beside MPI's.
//
//	treerun -np 2 overlap BYTES ITERATIONS
//
// Rank 0 prints the median times in microseconds: of the call alone; of the sleep alone and with the call; of the
// computation alone and with the call.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/internal/backoff"
	"github.com/treerun/treerun/rank"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: overlap BYTES ITERATIONS")
	}
	bytes, err := strconv.Atoi(os.Args[1])
	iterations, err2 := strconv.Atoi(os.Args[2])
	if err != nil || err2 != nil || bytes < 4 || iterations < 1 {
		log.Fatalf("not a size of 4 bytes or more and a number of iterations: %q", os.Args[1:])
	}
	if err := run(context.Background(), bytes/4, iterations); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, count, iterations int) error {
	w, err := rank.Init(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	c, err := collective.New(ctx, w)
	if err != nil {
		return err
	}
	defer c.Close()
	b := &bench{ctx: ctx, c: c, send: make([]float32, count), recv: make([]float32, count), iterations: iterations}
	b.median(func() error { return b.around(func() {}) }) // opens links, touches memory
	pure := b.median(func() error { return b.around(func() {}) })
	work := time.Duration(pure * 1e3)
	row := []float64{pure}
	for _, f := range []func(time.Duration){backoff.Nap, compute} {
		row = append(row, b.median(func() error { f(work); return nil }))
		row = append(row, b.median(func() error { return b.around(func() { f(work) }) }))
	}
	if b.err == nil && w.Rank() == 0 {
		fmt.Printf("%.1f %.1f %.1f %.1f %.1f\n", row[0], row[1], row[2], row[3], row[4])
	}
	return b.err
}

type bench struct {
	ctx        context.Context
	c          *collective.Comm
	send, recv []float32
	iterations int
	err        error // the first error
}

// around makes an AllReduce, and does the work between its start and the wait for it.
func (b *bench) around(work func()) error {
	r, err := collective.StartAllReduce(b.c, b.send, b.recv, collective.Sum)
	if err != nil {
		return err
	}
	work()
	return r.Wait(b.ctx)
}

// median returns the median time of f in microseconds, of the rank where it is longest. Every f follows a Barrier.
func (b *bench) median(f func() error) float64 {
	all := make([]float64, b.iterations)
	for i := range all {
		if b.err == nil {
			b.err = collective.Barrier(b.ctx, b.c)
		}
		begin := time.Now()
		if b.err == nil {
			b.err = f()
		}
		all[i] = float64(time.Since(begin).Nanoseconds()) / 1e3
	}
	slices.Sort(all)
	us := all[len(all)/2]
	if b.err == nil {
		us, b.err = collective.AllReduceValue(b.ctx, b.c, us, collective.Max)
	}
	return us
}

// compute computes, for about the time d on a core of its own: always the same work for the same d.
func compute(d time.Duration) {
	x := 1.0
	for range d.Nanoseconds() / 2 {
		x = x*1.0000001 + 1e-9
	}
	runtime.KeepAlive(x)
}
