package main

import (
	"context"
	"fmt"
	"log"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/internal/backoff"
	"github.com/treerun/treerun/rank"
)

// overlap measures how much of an AllReduce takes place while the program does other work. It starts one, sleeps or
// computes for the time that it takes alone, and waits for it. scripts/overlap.sh runs it beside MPI's. With more
// arguments it measures backward passes with buckets of gradients, for scripts/buckets.sh.
//
// Rank 0 prints the median times in microseconds: of the call alone; of the sleep alone and with the call; of the
// computation alone and with the call.
func overlap(args []string) {
	var numbers []int
	how := ""
	for i, arg := range args {
		n, err := strconv.Atoi(arg)
		switch {
		case i == 2 && (arg == "sleep" || arg == "compute"):
			how = arg
		case err != nil || n < 1:
			log.Fatalf("argument %d is %q, want a number from 1 on", i+1, arg)
		default:
			numbers = append(numbers, n)
		}
	}
	if len(numbers) != 2 && how == "" || len(numbers) < 4 && how != "" || numbers[0] < 4 {
		log.Fatal("usage: overlap BYTES ITERATIONS [sleep|compute LAYERS BUCKET...], of 4 bytes or more")
	}
	if err := measureOverlap(context.Background(), how, numbers); err != nil {
		log.Fatal(err)
	}
}

func measureOverlap(ctx context.Context, how string, numbers []int) error {
	count, iterations := numbers[0]/4, numbers[1]
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
	b := &pairs{ctx: ctx, c: c, send: make([]float32, count), recv: make([]float32, count), iterations: iterations}
	if how != "" {
		b.passes(how, numbers[2], numbers[3:])
		return b.err
	}
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

type pairs struct {
	ctx        context.Context
	c          *collective.Comm
	send, recv []float32
	iterations int
	each       time.Duration // of a layer, in passes
	err        error         // the first error
}

// around makes an AllReduce, and does the work between its start and the wait for it.
func (b *pairs) around(work func()) error {
	r, err := collective.StartAllReduce(b.c, b.send, b.recv, collective.Sum)
	if err != nil {
		return err
	}
	work()
	return r.Wait(b.ctx)
}

// median returns the median time of f in microseconds, of the rank where it is longest. Every f follows a Barrier.
func (b *pairs) median(f func() error) float64 {
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
