package setup

import (
	"context"
	"errors"
	"fmt"
)

// allGather is an AllGather: every rank gets the blobs of all, by rank.
type allGather = func(ctx context.Context, blob []byte) ([][]byte, error)

// together runs two steps of New side by side. Each makes AllGathers of its own, as many on all ranks, and
// the first of both are one of all, then the second, and so on.
func together(ctx context.Context, size int, all allGather, steps ...func(g allGather) error) error {
	type call struct {
		step int
		blob []byte
		all  [][]byte
		err  error
		done chan struct{} // nil: the step has ended with err
	}
	calls := make(chan *call)
	for i, step := range steps {
		go func() {
			calls <- &call{step: i, err: step(func(_ context.Context, blob []byte) ([][]byte, error) {
				c := &call{step: i, blob: blob, done: make(chan struct{})}
				calls <- c
				<-c.done
				return c.all, c.err
			})}
		}()
	}
	errs := make([]error, len(steps))
	for running := len(steps); running > 0; {
		var waiting []*call
		for len(waiting) < running {
			if c := <-calls; c.done != nil {
				waiting = append(waiting, c)
			} else {
				errs[c.step] = c.err
				running--
			}
		}
		if running == 0 {
			break
		}
		mine := make([][]byte, len(steps))
		for _, c := range waiting {
			mine[c.step] = c.blob
		}
		told, err := exchange(ctx, size, all, mine)
		for r := 0; err == nil && r < len(told); r++ {
			if len(told[r]) != len(steps) {
				err = fmt.Errorf("message of rank %d: %d steps, want %d", r, len(told[r]), len(steps))
			}
		}
		for _, c := range waiting {
			c.err = err
			for r := 0; err == nil && r < len(told); r++ {
				c.all = append(c.all, told[r][c.step])
			}
			close(c.done)
		}
	}
	return errors.Join(errs...)
}
