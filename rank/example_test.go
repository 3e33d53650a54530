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
