package peers

import (
	"context"
	"errors"
	"fmt"

	"github.com/treerun/treerun/internal/strict"
)

// told is what a rank tells the others at a step that all take together: a value, or why it
// could not take the step.
type told[T any] struct {
	Fault string
	Value T
}

// Failed is what a rank could not do.
type Failed struct {
	Rank int
	Text string
	Err  error // on that rank only
}

// Error names the rank.
func (f *Failed) Error() string { return fmt.Sprintf("rank %d: %.4096s", f.Rank, f.Text) }

// Unwrap returns why, on the rank that has failed.
func (f *Failed) Unwrap() error { return f.Err }

// maxTold bounds what a rank reads of another, in bytes.
const maxTold = 8 << 20

// Swap tells all ranks what this one has made of a step, failed if it could not take it, and
// returns what all have, by rank. Where any failed the error on all ranks is a *Failed of the
// lowest of them.
func Swap[T any](ctx context.Context, w World, mine T, failed error) ([]T, error) {
	t := told[T]{Value: mine}
	if failed != nil {
		t = told[T]{Fault: failed.Error()}
	}
	all, err := w.AllGather(ctx, strict.Marshal(&t))
	if err != nil {
		return nil, errors.Join(err, failed)
	}
	return opened[T](all, w.Rank(), failed)
}

// opened reads what all ranks told.
func opened[T any](all [][]byte, self int, failed error) ([]T, error) {
	values := make([]T, len(all))
	for r, data := range all {
		t, err := decode[T](data)
		switch {
		case err != nil:
			return nil, fmt.Errorf("what rank %d says: %w", r, err)
		case t.Fault != "" && r == self:
			return nil, &Failed{r, t.Fault, failed}
		case t.Fault != "":
			return nil, &Failed{r, t.Fault, nil}
		}
		values[r] = t.Value
	}
	return values, nil
}

func decode[T any](data []byte) (t told[T], err error) {
	if len(data) > maxTold {
		return t, fmt.Errorf("%d bytes, at most %d are possible", len(data), maxTold)
	}
	return t, strict.Unmarshal(data, &t)
}
