package testutil

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/topo"
)

// Job is a set of ranks on made-up hosts. Its methods may be called concurrently.
type Job struct {
	// Patience is the time for which Run waits for the ranks; NewJob sets it to five minutes.
	Patience time.Duration

	hosts  []int // by rank
	local  *waits.Local
	failed chan struct{}
	over   context.Context // ended when a rank is lost or has left an all-gather: all-gathers then fail
	end    context.CancelCauseFunc

	mu      sync.Mutex
	lost    int
	lostErr error
}

// NewJob returns a job with one rank on each of the given hosts.
func NewJob(hosts ...int) *Job {
	j := &Job{Patience: 5 * time.Minute, hosts: hosts, local: waits.NewLocal(len(hosts)), failed: make(chan struct{}),
		lost: -1}
	j.over, j.end = context.WithCancelCause(context.Background())
	return j
}

// OneHost returns the hosts of n ranks on one host.
func OneHost(n int) []int { return make([]int, n) }

// Fail reports the loss of a rank to all ranks. The first report counts; rank -1 is none of them.
func (j *Job) Fail(rank int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lostErr == nil {
		j.lost, j.lostErr = rank, err
		close(j.failed)
		j.end(errors.New("a rank failed during the all-gather"))
	}
}

// World returns the World of a rank, which belongs to one goroutine.
func (j *Job) World(rank int) *World { return &World{Job: j, rank: rank} }

// Run runs body as every rank and returns the errors, by rank. If a rank is still running after Patience, it ends the
// test and shows the stacks.
func (j *Job) Run(t testing.TB, body func(w *World) error) []error {
	t.Helper()
	errs := make([]error, len(j.hosts))
	var all sync.WaitGroup
	for r := range j.hosts {
		all.Go(func() { errs[r] = body(j.World(r)) })
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(j.Patience):
		stacks := make([]byte, 1<<20)
		t.Fatalf("ranks still run after %v:\n%s", j.Patience, stacks[:runtime.Stack(stacks, true)])
	}
	return errs
}

// World is a rank's view of its job. Failure, Fail and Failed may be called concurrently.
type World struct {
	*Job
	// Settings holds the launcher's settings, by name. It must be set before the first call of Setting.
	Settings map[string]string

	rank, round int
}

// Rank returns the rank's number.
func (w *World) Rank() int { return w.rank }

// Waits returns the waits of the rank, with access to those of the others.
func (w *World) Waits() *waits.Job { return w.local.Jobs[w.rank] }

// Size returns the number of ranks.
func (w *World) Size() int { return len(w.hosts) }

// HostOf returns the number of a rank's host.
func (w *World) HostOf(rank int) int { return w.hosts[rank] }

// JobID returns the same ID for all jobs.
func (w *World) JobID() string { return "test" }

// DeriveKey returns a key that is not secret.
func (w *World) DeriveKey(string) []byte { return make([]byte, 32) }

// Setting returns the launcher's setting of this name, "" if there is none.
func (w *World) Setting(name string) string { return w.Settings[name] }

// Failed returns a channel that is closed once a rank is lost.
func (w *World) Failed() <-chan struct{} { return w.failed }

// Failure returns the rank that was lost first, and the error; -1 and nil if no rank was lost.
func (w *World) Failure() (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost, w.lostErr
}

// Round returns the number of all-gathers that this rank has begun.
func (w *World) Round() int { return w.round }

// AllGather returns the blobs of all ranks, by rank, on every rank. It returns an error if a rank is lost, or ctx ends,
// before all ranks have called it. As with a real World, all later calls fail, on all ranks, once one rank has left
// because of ctx.
func (w *World) AllGather(ctx context.Context, blob []byte) ([][]byte, error) {
	if w.over.Err() != nil {
		return nil, context.Cause(w.over)
	}
	both, cancel := context.WithCancelCause(ctx)
	defer context.AfterFunc(w.over, func() { cancel(context.Cause(w.over)) })()
	defer cancel(nil)
	w.round++
	all, err := w.local.AllGather(both, w.rank, w.round-1, blob)
	if err != nil && ctx.Err() != nil {
		w.end(errors.New("a rank gave up an all-gather"))
		return nil, ctx.Err()
	}
	return all, err
}

// Hosted is a World that also provides addresses of ranks on other hosts: loopback addresses, one for each made-up
// host.
type Hosted struct{ *World }

// HostName returns the name of a rank's host.
func (w Hosted) HostName(rank int) string { return fmt.Sprintf("host%d", w.hosts[rank]) }

// Epoch returns the number of restarts of the job, which is 0.
func (w Hosted) Epoch() int { return 0 }

// ListenAddrs returns the address of this rank's host.
func (w Hosted) ListenAddrs() []netip.Addr {
	return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, byte(1 + w.hosts[w.rank])})}
}

// GraphOn returns a graph of ranks on these hosts, whose cards are all equal. With it no measurement is needed.
func GraphOn(hosts []int) *topo.Graph {
	g := topo.UniformGraph(len(hosts))
	for i := range g.Links {
		if l := &g.Links[i]; hosts[l.A] != hosts[l.B] {
			l.GBytesPerSecond, l.LatencyUs, l.Kind = 0.1, 30, topo.TCP
			g.Hosts = hosts
		}
	}
	return g
}
