package collective

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/mem"
)

// fakeJob is a job whose ranks are goroutines of the test.
type fakeJob struct {
	size   int
	failed chan struct{}

	mu        sync.Mutex
	rounds    []*round // all-gathers, in order
	endpoints map[string][]transport.Endpoint
	lost      int
	lostErr   error
}

type round struct {
	blobs [][]byte
	here  int
	full  chan struct{}
}

func newFakeJob(size int) *fakeJob {
	return &fakeJob{size: size, failed: make(chan struct{}), endpoints: map[string][]transport.Endpoint{}, lost: -1}
}

// fail tells all ranks that one is lost.
func (j *fakeJob) fail(rank int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lost < 0 {
		j.lost, j.lostErr = rank, err
		close(j.failed)
	}
}

type fakeWorld struct {
	*fakeJob
	rank     int
	round    int
	settings map[string]string
}

func (w *fakeWorld) Rank() int                       { return w.rank }
func (w *fakeWorld) Size() int                       { return w.size }
func (w *fakeWorld) HostOf(int) int                  { return 0 }
func (w *fakeWorld) Failed() <-chan struct{}         { return w.failed }
func (w *fakeWorld) DeriveKey(purpose string) []byte { return make([]byte, 32) }
func (w *fakeWorld) JobID() string                   { return "test" }
func (w *fakeWorld) Setting(name string) string      { return w.settings[name] }

func (w *fakeWorld) Failure() (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost, w.lostErr
}

func (w *fakeWorld) AllGather(ctx context.Context, blob []byte) ([][]byte, error) {
	w.mu.Lock()
	if w.round == len(w.rounds) {
		w.rounds = append(w.rounds, &round{blobs: make([][]byte, w.size), full: make(chan struct{})})
	}
	r := w.rounds[w.round]
	w.round++
	r.blobs[w.rank] = append([]byte{}, blob...)
	if r.here++; r.here == w.size {
		close(r.full)
	}
	w.mu.Unlock()
	select {
	case <-r.full:
		return r.blobs, nil
	case <-w.failed:
		return nil, errors.New("a rank failed during the all-gather")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// connectMem gives all ranks of a fakeJob one set of in-process endpoints.
func connectMem(_ context.Context, w World, purpose string, layout transport.Layout) (transport.Endpoint, error) {
	rank, key := w.Rank(), w.JobID()
	for {
		g, isGroup := w.(*group)
		if !isGroup {
			break
		}
		w = g.parent.world
	}
	f := w.(*fakeWorld)
	f.mu.Lock()
	defer f.mu.Unlock()
	if key == f.JobID() {
		key = fmt.Sprint(f.round)
	}
	key += purpose
	if f.endpoints[key] == nil {
		eps, err := mem.New(layout)
		if err != nil {
			return nil, err
		}
		f.endpoints[key] = eps
	}
	return f.endpoints[key][rank], nil
}

func overMem(c *config) { c.connect, c.heapBytes = connectMem, 2<<20 }

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

// patience is how long a test waits for its ranks before it calls them stuck.
func patience() time.Duration {
	if os.Getenv("TREERUN_HARNESS") != "" {
		return time.Hour // thousands of calls
	}
	return time.Minute
}

func (j *fakeJob) run(t *testing.T, body func(w *fakeWorld) error) []error {
	t.Helper()
	errs := make([]error, j.size)
	var all sync.WaitGroup
	for r := range j.size {
		all.Go(func() { errs[r] = body(&fakeWorld{fakeJob: j, rank: r}) })
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience()):
		t.Fatalf("ranks still run after %v", patience())
	}
	return errs
}

// mustRun is runRanks for ranks that may not fail.
func mustRun(t *testing.T, size int, body func(w *fakeWorld, c *Comm) error, opts ...Option) {
	t.Helper()
	for r, err := range runRanks(t, size, body, opts...) {
		if err != nil {
			t.Fatalf("rank %d of %d: %v", r, size, err)
		}
	}
}
