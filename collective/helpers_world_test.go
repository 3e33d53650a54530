package collective

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/shm"
)

// fakeJob is a job whose ranks are goroutines of the test.
type fakeJob struct {
	*testutil.Job
}

func newFakeJob(size int) *fakeJob {
	j := &fakeJob{Job: testutil.NewJob(testutil.OneHost(size)...)}
	if os.Getenv("TREERUN_HARNESS") != "" {
		j.Patience = time.Hour // thousands of calls
	}
	return j
}

// soon is the time that ranks may take to detect a fault, on a machine that is busy with other work.
const soon = time.Minute

// fakeWorld is a rank of a fakeJob.
type fakeWorld struct {
	*testutil.World
	job *fakeJob
}

// connectAll opens links between all ranks of a World, whatever hosts it reports for them.
func connectAll(ctx context.Context, w World, exchange func(context.Context, []byte) ([][]byte, error), purpose string,
	layout transport.Layout) (transport.Endpoint, error) {
	ep, err := shm.Connect(ctx, shm.Config{Rank: w.Rank(), Layout: layout, Key: w.DeriveKey("shm " + purpose),
		JobID: w.JobID(), Exchange: exchange})
	if err != nil {
		return nil, err // ep is no Endpoint then, but would be one that is not nil
	}
	return ep, nil
}

// overMem connects ranks without the trial that measures lending: here they always lend.
func overMem(c *setup.Config) { c.Connect, c.HeapBytes, c.TryLending = connectAll, 2<<20, false }

// runRanks runs body as every rank of a job and returns their errors, by rank.
// It fails the test when a rank is still running after a generous time.
func runRanks(t *testing.T, size int, body func(w *fakeWorld, c *Comm) error, opts ...Option) []error {
	t.Helper()
	job := newFakeJob(size)
	return job.run(t, func(w *fakeWorld) error {
		c, err := New(t.Context(), w, append([]Option{overMem, WithTopoCache("")}, opts...)...)
		if err != nil {
			return err
		}
		return errors.Join(body(w, c), c.Close())
	})
}

func (j *fakeJob) run(t *testing.T, body func(w *fakeWorld) error) []error {
	t.Helper()
	return j.Run(t, func(w *testutil.World) error { return body(&fakeWorld{World: w, job: j}) })
}

// mustRun is runRanks for ranks that must not fail.
func mustRun(t *testing.T, size int, body func(w *fakeWorld, c *Comm) error, opts ...Option) {
	t.Helper()
	for r, err := range runRanks(t, size, body, opts...) {
		if err != nil {
			t.Fatalf("rank %d of %d: %v", r, size, err)
		}
	}
}

// received is a Recv of a message that fills buf.
func received[T Element](ctx context.Context, c *Comm, buf []T, from, tag int) error {
	n, err := Recv(ctx, c, buf, from, tag)
	if err == nil && n != len(buf) {
		err = fmt.Errorf("%d elements came, want %d", n, len(buf))
	}
	return err
}

// exchanged is a SendRecv of messages that fill recv.
func exchanged[T Element](ctx context.Context, c *Comm, send []T, to int, recv []T, from, tag int) error {
	st, err := SendRecv(ctx, c, send, to, recv, from, tag)
	if err == nil && st.Count != len(recv) {
		err = fmt.Errorf("%d elements came, want %d", st.Count, len(recv))
	}
	return err
}

// sumOn makes an AllReduce of the ranks' numbers, and returns an error if the sum is wrong.
func sumOn(ctx context.Context, c *Comm) error {
	x := []int64{int64(c.Rank())}
	if err := AllReduce(ctx, c, x, x, Sum); err != nil || int(x[0]) != c.Size()*(c.Size()-1)/2 {
		return fmt.Errorf("the sum on %s is %v: %w", c.Name(), x, err)
	}
	return nil
}

// inProcess runs body as every rank of one process and returns their errors.
func inProcess(t *testing.T, n int, body func(w World, c *Comm) error, opts ...Option) []error {
	t.Helper()
	errs := make([]error, n)
	var all sync.WaitGroup
	for r, w := range InProcess(n) {
		all.Go(func() {
			c, err := New(t.Context(), w, append([]Option{WithTopoCache("")}, opts...)...)
			if err != nil {
				errs[r] = err
				return
			}
			errs[r] = errors.Join(body(w, c), c.Close())
		})
	}
	all.Wait()
	return errs
}
