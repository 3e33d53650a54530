package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/sparse"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/rank"
)

// A rank of a job that gpucheck starts through treerun, or that a test does, is
// gpucheck itself:
//
//	gpucheck rank matrix [--sample N --seed S --most 50s]     every device call against the oracle
//	gpucheck rank sparse                           sparse AllReduces against the oracle
//	gpucheck rank loop --victim R --after 300ms    AllReduces, with --sparse sparse ones, until rank R kills itself
//	gpucheck rank odd                              one rank makes another call
//	gpucheck rank time --bytes N                   the time of an AllReduce
type rankFlags struct {
	sample  int
	seed    uint64
	most    time.Duration
	victim  int
	after   time.Duration
	bytes   int64
	iters   int
	sparse  bool
	timeout time.Duration
}

// runRank is a rank of a job.
func runRank(args []string) (err error) {
	var f rankFlags
	flags := pflag.NewFlagSet("gpucheck rank", pflag.ContinueOnError)
	flags.IntVar(&f.sample, "sample", 0, "matrix: so many cases, 0 for all")
	flags.Uint64Var(&f.seed, "seed", 1, "matrix: which")
	flags.DurationVar(&f.most, "most", 0, "matrix: no case begins later; 0 is no limit")
	flags.IntVar(&f.victim, "victim", 1, "loop: the rank that kills itself")
	flags.DurationVar(&f.after, "after", 300*time.Millisecond, "loop: when")
	flags.Int64Var(&f.bytes, "bytes", 8, "time, loop: of a message")
	flags.IntVar(&f.iters, "iterations", 20, "time: how many")
	flags.BoolVar(&f.sparse, "sparse", false, "loop: sparse AllReduces")
	flags.DurationVar(&f.timeout, "timeout", 10*time.Minute, "of everything")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("want one of matrix, sparse, loop, odd, time, not %q", flags.Args())
	}
	// When another rank has failed, treerun soon stops this one; what it has learned of
	// that it says first, however busy the machine. Who hangs is killed later.
	signal.Ignore(syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(context.Background(), f.timeout)
	defer cancel()
	w, err := rank.Init(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	dev, err := deviceOf(w)
	if err != nil {
		return err
	}
	before := cuda.Stats()
	if err := onDevice(ctx, w, dev, flags.Arg(0), &f); err != nil {
		return fmt.Errorf("rank %d: %w", w.Rank(), err)
	}
	after := cuda.Stats()
	before.Contexts, after.Contexts = 0, 0 // they stay
	if after != before {
		return fmt.Errorf("rank %d: left on the device: %+v", w.Rank(), after)
	}
	return nil
}

// deviceOf returns the GPU that treerun gave a rank.
func deviceOf(w *rank.World) (*cuda.Device, error) {
	if uuid := w.Device(); uuid != "" {
		return cuda.DeviceByUUID(uuid)
	}
	return nil, fmt.Errorf("rank %d has no GPU; --ranks-per-gpu lets ranks share one", w.Rank())
}

func onDevice(ctx context.Context, w *rank.World, dev *cuda.Device, mode string, f *rankFlags) (err error) {
	s, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	c, err := collective.New(ctx, w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	switch mode {
	case "matrix":
		n, err := matrix(ctx, c, s, f.sample, f.seed, f.most)
		if err == nil && w.Rank() == 0 {
			fmt.Printf("%d calls are right on %d ranks\n", n, w.Size())
		}
		return err
	case "sparse":
		n, err := sparseCalls(ctx, c, s)
		if err == nil && w.Rank() == 0 {
			fmt.Printf("%d sparse calls are right on %d ranks\n", n, w.Size())
		}
		return err
	case "loop":
		return loop(ctx, c, s, f)
	case "odd":
		return odd(ctx, c, s)
	case "time":
		t, err := timed(ctx, c, s, f.bytes, f.iters)
		if err == nil && w.Rank() == 0 {
			return json.NewEncoder(os.Stdout).Encode(t)
		}
		return err
	}
	return fmt.Errorf("no mode %q", mode)
}

// loop makes AllReduces until one fails, which it must when the victim has killed
// itself in the middle of one.
func loop(ctx context.Context, c *collective.Comm, s *cuda.Stream, f *rankFlags) (err error) {
	n := int(max(f.bytes/4, 1))
	x, err := cuda.Alloc[float32](s.Device(), n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Free()) }()
	host := make([]float32, n)
	for i := 0; i < n; i += 1000 {
		host[i] = 1
	}
	if err := x.CopyFrom(ctx, s, host); err != nil {
		return err
	}
	for k := 0; ; k++ {
		var err error
		if f.sparse {
			_, err = sparse.AllReduceDevice(ctx, c, s, x, x, collective.Max, sparse.Use(sparse.Trees))
		} else {
			err = collective.AllReduceDevice(ctx, c, s, x, x, collective.Max)
		}
		if err == nil && k%3 == 2 { // several in flight
			err = c.SyncDevice(ctx, s)
		}
		var failed *collective.RankError
		switch {
		case errors.As(err, &failed) && errors.Is(err, collective.ErrRankLost) && failed.Rank == f.victim:
			if err := s.Synchronize(ctx); err != nil {
				return fmt.Errorf("the stream does not come to its end: %w", err)
			}
			fmt.Printf("ended at %d: %v\n", time.Now().UnixNano(), err)
			return nil
		case err != nil:
			return err
		}
		if k == 2 {
			fmt.Println("runs")
			if c.Rank() == f.victim {
				time.AfterFunc(f.after, func() {
					fmt.Printf("killed at %d\n", time.Now().UnixNano())
					_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				})
			}
		}
	}
}

// odd makes a call on rank 1 that is another one than everybody else's: all must
// hear of both.
func odd(ctx context.Context, c *collective.Comm, s *cuda.Stream) (err error) {
	x, err := cuda.Alloc[int32](s.Device(), 1000)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Free()) }()
	if err := collective.AllReduceDevice(ctx, c, s, x, x, collective.Sum); err != nil {
		return err
	}
	if err := c.SyncDevice(ctx, s); err != nil {
		return err
	}
	began := time.Now()
	// A rank may still be in the Barrier when it hears of the odd call.
	switch err = collective.Barrier(ctx, c); {
	case err != nil:
	case c.Rank() == 1:
		err = collective.BroadcastDevice(ctx, c, s, x, x, 1)
	default:
		err = collective.AllReduceDevice(ctx, c, s, x.Slice(0, 500), x.Slice(0, 500), collective.Max)
	}
	if err == nil {
		err = c.SyncDevice(ctx, s)
	}
	if err == nil { // a root of a Broadcast need not hear of anybody: but then the next call tells
		if err = collective.BarrierDevice(ctx, c, s); err == nil {
			err = c.SyncDevice(ctx, s)
		}
	}
	if !errors.Is(err, collective.ErrMismatch) {
		return fmt.Errorf("different calls: %v", err)
	}
	fmt.Printf("heard after %d ms: %v\n", time.Since(began).Milliseconds(), err)
	return nil
}
