package collective_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"

	"github.com/treerun/treerun/collective"
)

// After a failure rank 1 is a new process, and rank 2 is a step behind: both get the state of rank 0. Slices may be of
// different types.
func ExampleRestore() {
	type state struct {
		step    int
		weights []float32
		seed    [1]uint64
	}
	states := []*state{{57, []float32{0.5, 0.25}, [1]uint64{1234}}, {-1, make([]float32, 2), [1]uint64{}},
		{56, []float32{0.75, 0.5}, [1]uint64{1233}}}

	resume := func(ctx context.Context, w collective.World, s *state) (err error) {
		c, err := collective.New(ctx, w)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		s.step, err = collective.Restore(ctx, c, s.step, s.weights, s.seed[:])
		if errors.Is(err, collective.ErrNoState) {
			s.step, err = 0, nil // the job begins
		}
		return err
	}

	var all sync.WaitGroup
	for r, w := range collective.InProcess(len(states)) {
		all.Go(func() {
			if err := resume(context.Background(), w, states[r]); err != nil {
				log.Printf("rank %d: %v", r, err)
			}
		})
	}
	all.Wait()
	for r, s := range states {
		fmt.Printf("rank %d continues with step %d: %v %d\n", r, s.step, s.weights, s.seed)
	}
	// Output:
	// rank 0 continues with step 57: [0.5 0.25] [1234]
	// rank 1 continues with step 57: [0.5 0.25] [1234]
	// rank 2 continues with step 57: [0.5 0.25] [1234]
}
