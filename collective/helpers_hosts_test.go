package collective

import (
	"errors"
	"fmt"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
)

// runHosts runs body as every rank of a job on several hosts, over shared memory
// and TCP, and returns their errors, by rank.
func runHosts(t *testing.T, hosts []int, settings map[string]string, body func(w *testutil.Hosted, c *Comm) error,
	opts ...Option) []error {
	t.Helper()
	return testutil.NewJob(hosts...).Run(t, func(world *testutil.World) error {
		w := &testutil.Hosted{World: world}
		w.Settings = settings
		c, err := New(t.Context(), w, append([]Option{WithTopoCache("")}, opts...)...)
		if err != nil {
			return err
		}
		err = body(w, c)
		if closed := c.Close(); err == nil {
			err = closed
		}
		return err
	})
}

func checkSum(t *testing.T, c *Comm, n int) error {
	in, out := make([]float32, n), make([]float32, n)
	for i := range in {
		in[i] = float32(i%7 + c.Rank())
	}
	if err := AllReduce(t.Context(), c, in, out, Sum); err != nil {
		return err
	}
	for i := range out {
		want := float32(c.Size()*(i%7) + c.Size()*(c.Size()-1)/2)
		if out[i] != want {
			return fmt.Errorf("rank %d: sum of %d: element %d is %v, want %v", c.Rank(), n, i, out[i], want)
		}
	}
	return nil
}

// onEveryHost runs f as the ranks of jobs of 1 to 4 ranks, on one host and on several.
func onEveryHost(t *testing.T, f func(c *Comm) error) {
	for _, hosts := range [][]int{{0}, {0, 0}, {0, 0, 0, 0}, {0, 1}, {0, 1, 0}, {0, 1, 2, 2}} {
		t.Run(fmt.Sprint(hosts), func(t *testing.T) {
			errs := runHosts(t, hosts, nil, func(_ *testutil.Hosted, c *Comm) error { return errors.Join(f(c), c.Close()) },
				WithGraph(testutil.GraphOn(hosts)))
			if err := errors.Join(errs...); err != nil {
				t.Error(err)
			}
		})
	}
}
