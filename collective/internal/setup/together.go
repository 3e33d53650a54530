package setup

import (
	"context"
	"fmt"
	"iter"

	"github.com/treerun/treerun/internal/agree"
)

// allGather is an AllGather: every rank gets the blobs of all, by rank.
type allGather = func(ctx context.Context, blob []byte) ([][]byte, error)

// outcome is what a step returns.
type outcome[T any] struct {
	value T
	err   error
}

// together runs two steps of New side by side. Each makes AllGathers of its own, as many on all ranks, and
// the first of both are one of all, then the second, and so on. Between two of them the steps run one after the other.
func together[A, B any](ctx context.Context, size int, all allGather, first func(g allGather) (A, error),
	second func(g allGather) (B, error)) (a outcome[A], b outcome[B]) {
	steps := []func(g allGather){
		func(g allGather) { a.value, a.err = first(g) },
		func(g allGather) { b.value, b.err = second(g) },
	}
	gives := make([]func() ([]byte, bool), len(steps))
	var gathered [][][]byte // by rank, then by step
	var failed error
	for i, step := range steps {
		next, stop := iter.Pull(func(yield func(blob []byte) bool) {
			step(func(_ context.Context, blob []byte) (got [][]byte, err error) {
				yield(blob)
				for _, of := range gathered {
					got = append(got, of[i])
				}
				return got, failed
			})
		})
		defer stop()
		gives[i] = next
	}
	for {
		mine, running := make([][]byte, len(steps)), false
		for i, next := range gives {
			blob, more := next()
			mine[i], running = blob, running || more
		}
		if !running {
			return a, b
		}
		gathered, failed = agree.Exchange(ctx, all, size, nil, mine, nil)
		for r, of := range gathered {
			if len(of) != len(steps) {
				gathered, failed = nil, fmt.Errorf("message of rank %d: %d steps, want %d", r, len(of), len(steps))
			}
		}
	}
}
