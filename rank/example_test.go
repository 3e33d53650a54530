package rank_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/treerun/treerun/rank"
)

// A program that treerun starts prints its rank and the number of ranks. Without treerun it is the only rank.
func ExampleInit() {
	main := func() {
		ctx := context.Background()
		w, err := rank.Init(ctx, rank.WithStartTimeout(time.Minute),
			rank.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil))))
		if err != nil {
			log.Fatal(err) // names the ranks that are missing
		}
		defer w.Close() // else this rank counts as lost; it closes communicators, too
		fmt.Printf("rank %d of %d, number %d of %d on %s\n", w.Rank(), w.Size(), w.LocalRank(), w.LocalSize(), w.Host())
		for r := range w.Size() {
			fmt.Printf("rank %d is on host %d, %s\n", r, w.HostOf(r), w.HostName(r))
		}
		fmt.Println("job", w.JobID(), "uses GPU", w.Device())
	}
	_ = main
}

// The ranks exchange the ports at which they listen. The key is known to them alone.
func ExampleWorld_AllGather() {
	meet := func(ctx context.Context, w *rank.World, port int) ([][]byte, error) {
		key := w.DeriveKey("my protocol")
		_ = key // for data that is sent over the connections
		return w.AllGather(ctx, fmt.Appendf(nil, "%s:%d", w.ListenAddrs()[0], port))
	}
	_ = meet
}

// A program that continues after the loss of a rank keeps its state outside of the loop. It takes in other ranks at a
// boundary of its own.
func ExampleWorlds() {
	main := func(ctx context.Context, train func(context.Context, *rank.World, *int) error) error {
		step := 0
		for w, err := range rank.Worlds(ctx) {
			if err != nil {
				return err // too few ranks or no restarts are left
			}
			fmt.Printf("epoch %d: rank %d was rank %d at first; lost %v, joined %v\n", w.Epoch(), w.Rank(), w.Origin(),
				w.Lost(), w.Joined())
			err = train(w.Context(), w, &step)
			if err == nil {
				return w.Close()
			}
			if !rank.Again(err) {
				return err // a failure of the program's own
			}
		}
		return nil
	}
	train := func(ctx context.Context, w *rank.World, step *int) error {
		for ; *step < 1000; *step++ {
			select {
			case <-w.Changed(): // at the beginning of a step
				return rank.ErrAgain
			default:
			}
		}
		return nil
	}
	_, _ = main, train
}

// Renew is the form without a loop.
func ExampleWorld_Renew() {
	main := func(ctx context.Context) error {
		w, err := rank.Init(ctx, rank.WithEpochs())
		if err != nil {
			return err
		}
		fmt.Println("another epoch may follow:", w.Renews())
		<-w.Failed()
		if w, err = w.Renew(ctx); err != nil {
			return err
		}
		return w.Close()
	}
	_ = main
}

// A program that has work of its own learns at once of the loss of a rank.
func ExampleWorld_Failed() {
	watch := func(w *rank.World) error {
		select {
		case <-w.Failed():
			lost, err := w.Failure()
			fmt.Println("rank", lost, "is lost:", err, errors.Is(err, rank.ErrFailed))
			return err
		case <-time.After(time.Second):
			fmt.Println("rank 1 has left:", w.Left(1), "or failed:", w.Gone(1) && !w.Left(1))
			return nil
		}
	}
	_ = watch
}

// The phases of a program appear beside its calls in the file of treerun --trace.
func ExampleSpan() {
	step := func(w *rank.World, load, compute func() error) error {
		defer rank.Span(w, "step")()
		loaded := rank.Span(w, "load")
		err := load()
		loaded()
		if err != nil {
			return err
		}
		defer rank.Span(w, "compute")()
		return compute()
	}
	_ = step
}
