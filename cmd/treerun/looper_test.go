//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/sparse"
	"github.com/treerun/treerun/rank"
)

// looperOptions holds the loops of the flags.
type looperOptions struct {
	calls           int
	leave, mismatch int
	until           string
	seed            uint64
	kinds           []string
	bytes           int
	quiet           bool // another goroutine prints that the rank is ready
}

// looper is a rank that makes calls until one fails: every collective and message, in place
// and not, of sizes from nothing to 8 MiB, or sparse ones. The tests kill, stop and disturb
// its ranks. Every buffer is filled with wrong values before a call, and compared in whole
// after each call that has returned nil.
//
// It exits with 0 when it has made its number of calls, with 3 when a
// call returned a typed error, with 4 when the error was not typed, with 5 when
// a result was wrong, whatever the outcome of the job.
func looper() {
	var o looperOptions
	flag.IntVar(&o.calls, "calls", 1<<40, "calls to make")
	early := flag.Int("early", -1, "rank that exits with 0 before Init")
	flag.IntVar(&o.leave, "leave", -1, "rank that closes after its first call")
	flag.IntVar(&o.mismatch, "odd", -1, "rank that calls Barrier instead")
	flag.StringVar(&o.until, "until", "", "file whose appearance ends the loop on all ranks")
	flag.Uint64Var(&o.seed, "seed", 1, "chooses the calls")
	kind := flag.String("kind", "", "make calls of this kind only")
	flag.IntVar(&o.bytes, "bytes", -1, "make calls of this size only")
	form := flag.String("sparse", "", "make sparse calls, in this form")
	comms := flag.Int("comms", 1, "communicators, on which goroutines make calls at the same time")
	serve := flag.Int("serve", 0, "of sparse calls: the number of ranks, the last ones, that only aggregate")
	stoppable := flag.Bool("stoppable", false, "SIGTERM ends the rank")
	flag.Parse()
	if o.kinds = kinds; *kind != "" {
		o.kinds = []string{*kind}
	}
	if !*stoppable {
		signal.Ignore(syscall.SIGTERM) // a rank that is slow on a busy machine still reports its error
	}
	if os.Getenv("TREERUN_RANK") == fmt.Sprint(*early) {
		os.Exit(0)
	}
	run := o.run
	if *comms > 1 {
		run = func(ctx context.Context, w *rank.World, c *collective.Comm) error {
			return o.runConcurrently(ctx, w, c, *comms)
		}
	}
	if *form != "" {
		run = func(ctx context.Context, w *rank.World, c *collective.Comm) error {
			return runSparse(ctx, c, o.calls, *form, *serve)
		}
	}
	os.Exit(join(context.Background(), run))
}

// join makes a communicator, runs calls over it, and returns the exit code.
func join(ctx context.Context, run func(context.Context, *rank.World, *collective.Comm) error) int {
	w, err := rank.Init(ctx)
	if err != nil {
		return printReport(-1, err)
	}
	defer w.Close()
	c, err := collective.New(ctx, w)
	if err != nil {
		return printReport(w.Rank(), err)
	}
	defer c.Close()
	err = run(ctx, w, c)
	if err == nil {
		return 0
	}
	if wrong := (wrongResult{}); !errors.As(err, &wrong) && collective.Barrier(ctx, c) == nil {
		err = wrongResult{fmt.Sprintf("a Barrier succeeds behind a call that has failed: %v", err)}
	}
	return printReport(w.Rank(), err)
}

// latestCall is the time at which the latest call began, in microseconds.
var latestCall atomic.Int64

// endMark is the number that rank 0 adds to the first element to end the loop.
const endMark = 1 << 20

// run makes calls. The first two, and every eighth, are goesOn.
func (o *looperOptions) run(ctx context.Context, w *rank.World, c *collective.Comm) error {
	rng := rand.New(rand.NewPCG(o.seed, 0))
	floats, ints := newBuffers[float32](), newBuffers[int32]()
	for i := range o.calls {
		if i == 1 {
			if !o.quiet {
				fmt.Printf("ready %d rank %d\n", os.Getpid(), w.Rank())
			}
			if w.Rank() == o.leave {
				return nil
			}
			if w.Rank() == o.mismatch {
				return collective.Barrier(ctx, c)
			}
		}
		if i < 2 || i%8 == 0 {
			if on, err := o.shouldContinue(ctx, c, i); err != nil || !on {
				return err
			}
			continue
		}
		var err error
		if k := draw(rng, i, c.Size(), o.kinds, o.bytes); k.float {
			err = floats.prepare(c, k).try(ctx)
		} else {
			err = ints.prepare(c, k).try(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// runConcurrently makes calls on several communicators at the same time. At the end either all of them have failed with
// an error of a known type, or none has.
func (o *looperOptions) runConcurrently(ctx context.Context, w *rank.World, c *collective.Comm, comms int) error {
	errs, parts := make([]error, comms), make([]*collective.Comm, comms)
	for i := range parts {
		var err error
		if parts[i], err = c.Dup(ctx); err != nil {
			return err
		}
		defer parts[i].Close()
	}
	var group sync.WaitGroup
	for i, part := range parts {
		own := *o
		own.quiet = i > 0
		group.Go(func() { errs[i] = own.run(ctx, w, part) })
	}
	group.Wait()
	for i, err := range errs {
		if typed := (*collective.RankError)(nil); err != nil && !errors.As(err, &typed) {
			return err
		}
		if (err == nil) != (errs[0] == nil) {
			return fmt.Errorf("communicators 0 and %d have ended with %v and %v", i, errs[0], err)
		}
	}
	return errs[0]
}

// shouldContinue makes an AllReduce with which rank 0 ends the loop on all ranks. It reports whether the loop
// continues.
func (o *looperOptions) shouldContinue(ctx context.Context, c *collective.Comm, i int) (bool, error) {
	x := make([]float32, 1+(i*7919)%100_000)
	for j := range x {
		x[j] = float32(c.Rank() + 1)
	}
	if c.Rank() == 0 && o.until != "" && i > 0 {
		if _, err := os.Stat(o.until); err == nil {
			x[0] += endMark
		}
	}
	latestCall.Store(time.Now().UnixMicro())
	if err := collective.AllReduce(ctx, c, x, x, collective.Sum); err != nil {
		return false, err
	}
	if x[0] > endMark {
		return false, nil
	}
	want := float32(c.Size() * (c.Size() + 1) / 2)
	for j := range x {
		if x[j] != want {
			return false, wrongResult{fmt.Sprintf("call %d, AllReduce of %d elements: number %d is %v, want %v", i, len(x), j,
				x[j], want)}
		}
	}
	return true, nil
}

// runSparse makes one sparse call after the other, or serves them, so that a rank is in a call
// at almost every moment.
func runSparse(ctx context.Context, c *collective.Comm, calls int, name string, serve int) error {
	form, err := sparse.ParseForm(name)
	if err != nil {
		return err
	}
	workers := c.Size() - serve
	if c.Rank() >= workers {
		fmt.Printf("ready %d rank %d\n", os.Getpid(), c.Rank())
		return sparse.Serve(ctx, c)
	}
	const block, elements = 256, 1 << 20
	send, recv, want := make([]float32, elements), make([]float32, elements), make([]float32, elements)
	for i := range send {
		for r := range workers {
			if b := i / block; b%4 == 0 || b%17 == r {
				want[i] += float32(r + 1)
				if r == c.Rank() {
					send[i] = float32(r + 1)
				}
			}
		}
	}
	for i := range calls {
		if i == 1 {
			fmt.Printf("ready %d rank %d\n", os.Getpid(), c.Rank())
		}
		for j := range recv {
			recv[j] = poison
		}
		if _, err := sparse.AllReduce(ctx, c, send, recv, collective.Sum, sparse.Use(form),
			sparse.BlockSize(block)); err != nil {
			return err
		}
		for j := range recv {
			if recv[j] != want[j] {
				return wrongResult{fmt.Sprintf("call %d, sparse: element %d is %v, want %v", i, j, recv[j], want[j])}
			}
		}
	}
	if serve > 0 {
		return sparse.StopServing(ctx, c)
	}
	return nil
}

// report prints an error with the time, and returns the exit code for it.
func printReport(r int, err error) int {
	var wrong wrongResult
	var lost *collective.RankError
	var early *rank.Error
	switch {
	case errors.As(err, &wrong):
		fmt.Fprintf(os.Stderr, "looper: rank %d: WRONG RESULT at %d: %v\n", r, time.Now().UnixMicro(), err)
		return 5
	case errors.As(err, &lost):
		fmt.Fprintf(os.Stderr, "looper: rank %d: RankError of %d at %d, in a call since %d: %v\n", r, lost.Rank,
			time.Now().UnixMicro(), latestCall.Load(), err)
		return 3
	case errors.As(err, &early):
		fmt.Fprintf(os.Stderr, "looper: rank %d: Error of %d at %d: %v\n", r, early.Rank, time.Now().UnixMicro(), err)
		return 3
	}
	fmt.Fprintf(os.Stderr, "looper: rank %d: untyped error %T: %v\n", r, err, err)
	return 4
}
