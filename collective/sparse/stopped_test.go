package sparse

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/collective"
)

// reduceUntil makes a call with the given number of elements repeatedly until it fails, and on rank 2 calls stop some
// time after the first call, when all ranks have begun.
func reduceUntil(t *testing.T, c *collective.Comm, elements int, after time.Duration, stop func(), how Option) error {
	send, recv := make([]float32, elements), make([]float32, elements)
	fill := func(x []float32, v float32) {
		for i := range x {
			x[i] = v
		}
	}
	for i := range 100000 { // the first opens the links
		fill(send, float32(i%7+c.Rank()+1))
		fill(recv, -1)
		if _, err := AllReduce(t.Context(), c, send, recv, collective.Max, how); err != nil {
			return err
		}
		for j := range recv {
			if want := float32(i%7 + c.Size()); recv[j] != want {
				t.Errorf("rank %d, call %d, %d elements: number %d is %v, want %v", c.Rank(), i, elements, j, recv[j], want)
				break
			}
		}
		if i == 1 && c.Rank() == 2 {
			time.AfterFunc(after, stop)
		}
	}
	return nil
}

// wantStop checks the errors of all ranks after rank 2 has stopped: they have the same kind, name a rank, and contain a
// text.
func wantStop(t *testing.T, errs []error, kind error, rank int, text string) {
	t.Helper()
	for r, err := range errs {
		var re *collective.RankError
		if r == 2 && errors.Is(err, collective.ErrClosed) {
			continue // it was between two calls
		}
		if !errors.As(err, &re) || !errors.Is(err, kind) || re.Rank != rank || !strings.Contains(err.Error(), text) {
			t.Errorf("rank %d: %v, want %v of rank %d with %q", r, err, kind, rank, text)
		}
	}
}
