// Command measure is a rank of jobs that measure calls, for scripts of this folder. Its first argument is the kind of
// the measurement, whose function documents the others, the results, and the script.
//
//	treerun -np 2 measure calls SECONDS [NAME...]
//	treerun -np 2 measure overlap BYTES ITERATIONS
//	treerun -np 2 measure buckets BYTES ITERATIONS sleep|compute LAYERS BUCKET...
//	treerun -np 2 measure trace [observe] SECONDS SIZE...
//	measure readers HOST:PORT
package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

var ctx = context.Background()

// kinds has the measurements, and the least number of their arguments.
var kinds = map[string]struct {
	measure func(args []string)
	args    int
}{"calls": {calls, 1}, "overlap": {overlap, 2}, "buckets": {buckets, 5}, "trace": {trace, 2}, "readers": {readers, 1}}

func main() {
	log.SetFlags(0)
	log.SetPrefix("measure: ")
	if len(os.Args) < 2 {
		log.Fatal("want a kind: see scripts/measure/main.go")
	}
	k, known := kinds[os.Args[1]]
	if !known || len(os.Args)-2 < k.args {
		log.Fatalf("%q is no kind with its arguments: see scripts/measure/main.go", os.Args[1:])
	}
	k.measure(os.Args[2:])
}

// check ends the job if there is an error.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

// number returns an argument that is a number from 1 on.
func number(arg string) int {
	n := must(strconv.Atoi(arg))
	if n < 1 {
		log.Fatalf("%d is less than 1", n)
	}
	return n
}

// run measures with the communicator of all ranks.
func run(measure func(c *collective.Comm), opts ...collective.Option) {
	w := must(rank.Init(ctx))
	c := must(collective.New(ctx, w, opts...))
	measure(c)
	check(c.Close())
	check(w.Close())
}

// least returns the mean time of a call in the fastest pass, in microseconds. A pass takes that many seconds or more,
// between two barriers. At first there are passes with more and more calls until one is long enough.
func least(c *collective.Comm, passes int, seconds float64, call func()) float64 {
	took, best := []float64{0}, math.Inf(1)
	for pass, calls := -1, 1; pass < passes; {
		check(collective.Barrier(ctx, c))
		begin := time.Now()
		for range calls {
			call()
		}
		check(collective.Barrier(ctx, c))
		took[0] = time.Since(begin).Seconds()
		check(collective.Broadcast(ctx, c, took, took, 0))
		if pass >= 0 {
			best = min(best, took[0]/float64(calls))
		}
		if pass >= 0 || took[0] >= seconds {
			pass++
		} else {
			calls = int(float64(calls)*min(10, max(1.2, seconds/max(took[0], 1e-9)))) + 1
		}
	}
	return best * 1e6
}

// median returns the median time of f in microseconds, of the rank where it is longest. Every f follows a Barrier.
func median(c *collective.Comm, iterations int, f func()) float64 {
	all := make([]float64, iterations)
	for i := range all {
		check(collective.Barrier(ctx, c))
		begin := time.Now()
		f()
		all[i] = float64(time.Since(begin).Nanoseconds()) / 1e3
	}
	slices.Sort(all)
	return must(collective.AllReduceValue(ctx, c, all[len(all)/2], collective.Max))
}

// show prints a result of rank 0.
func show(c *collective.Comm, format string, args ...any) {
	if c.Rank() == 0 {
		fmt.Printf(format+"\n", args...)
	}
}
