package collective_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"sync"
	"time"

	"github.com/treerun/treerun/collective"
)

// A call in place that has failed leaves partial sums, and its communicator is unusable. Calls that may be retried run
// on a communicator from Split, whose parent stays usable, with a copy of the input: after a failure all ranks split
// again. A rank that was lost ends the job, and a rank that never comes is needed for the Split as well; this pattern
// helps against a rank that was late, or has called Abort.
func ExampleComm_Split_retry() {
	const ranks = 3
	var all sync.WaitGroup
	for _, w := range collective.InProcess(ranks) {
		all.Go(func() {
			if err := retry(context.Background(), w); err != nil {
				log.Printf("rank %d: %v", w.Rank(), err)
			}
		})
	}
	all.Wait()
	// Output:
	// attempt 1: rank 1 was late (contents of send and recv are undefined)
	// attempt 2: sum [3 6 9]
}

func retry(ctx context.Context, w collective.World) (err error) {
	c, err := collective.New(ctx, w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	x := []float32{float32(w.Rank()), float32(2 * w.Rank()), float32(3 * w.Rank())}
	input := slices.Clone(x)
	for attempt := 1; ; attempt++ {
		part, err := c.Split(ctx, 0, w.Rank())
		if err != nil {
			return err // c has failed, too: a rank is lost
		}
		if attempt == 1 && w.Rank() == 1 {
			time.Sleep(time.Second) // others give up meanwhile
		}
		within, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		if attempt > 1 {
			within, cancel = context.WithTimeout(ctx, time.Minute)
		}
		err = collective.AllReduce(within, part, x, x, collective.Sum)
		cancel()
		var failed *collective.RankError
		switch {
		case err == nil:
			if w.Rank() == 0 {
				fmt.Printf("attempt %d: sum %v\n", attempt, x)
			}
			return part.Close()
		case !errors.As(err, &failed) || attempt == 3:
			return err
		case w.Rank() == 0:
			fmt.Printf("attempt %d: rank %d was late (%s)\n", attempt, failed.Rank, failed.Hint)
		}
		_ = part.Close() // it has failed
		copy(x, input)
	}
}
