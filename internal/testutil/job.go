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
	// Patience is how long Run waits for the ranks; NewJob sets it to five minutes.
	Patience time.Duration

	hosts  []int // by rank
	local  *waits.Local
	failed chan struct{}
	over   context.Context // all-gathers fail once it ends: a rank is lost, or has left one
	end    context.CancelCauseFunc

	mu      sync.Mutex
	lost    int
	lostErr error
}

// NewJob returns a job with a rank on each of these hosts.
func NewJob(hosts ...int) *Job {
	j := &Job{Patience: 5 * time.Minute, hosts: hosts, local: waits.NewLocal(len(hosts)), failed: make(chan struct{}),
		lost: -1}
	j.over, j.end = context.WithCancelCause(context.Background())
	return j
}

// OneHost returns the hosts of n ranks on one.
func OneHost(n int) []int { return make([]int, n) }

// Fail tells all ranks that one is lost. The first one counts; -1 is none of them.
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

// Run runs body as every rank and returns the errors, by rank. It ends the test when
// a rank is still running after Patience, and shows where.
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

// World is a rank's view of its job. Failure, Fail and Failed may be called
// concurrently.
type World struct {
	*Job
	// Settings are the launcher's, by name; to be set before anybody asks for one.
	Settings map[string]string

	rank, round int
}

// Rank returns the rank's number.
func (w *World) Rank() int { return w.rank }

// Waits returns what the rank waits for, and knows of the others.
func (w *World) Waits() *waits.Job { return w.local.Jobs[w.rank] }

// Size returns the number of ranks.
func (w *World) Size() int { return len(w.hosts) }

// HostOf returns the number of a rank's host.
func (w *World) HostOf(rank int) int { return w.hosts[rank] }

// JobID returns the same for all jobs.
func (w *World) JobID() string { return "test" }

// DeriveKey returns a key that is no secret.
func (w *World) DeriveKey(string) []byte { return make([]byte, 32) }

// Setting returns the launcher's setting of this name, "" if there is none.
func (w *World) Setting(name string) string { return w.Settings[name] }

// Failed returns a channel that is closed once a rank is lost.
func (w *World) Failed() <-chan struct{} { return w.failed }

// Failure returns who was lost first, and why; -1 and nil if nobody was.
func (w *World) Failure() (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost, w.lostErr
}

// Round returns how many all-gathers this rank has begun.
func (w *World) Round() int { return w.round }

// AllGather gives every rank the blobs of all, by rank. It returns an error when a
// rank is lost, or ctx ends, before all have come. As with a real World, all that
// follow fail, on all ranks, once one has left because of ctx.
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

// Hosted is a World that also says how ranks of other hosts are reached: at loopback
// addresses, one for each made-up host.
type Hosted struct{ *World }

// HostName returns the name of a rank's host.
func (w Hosted) HostName(rank int) string { return fmt.Sprintf("host%d", w.hosts[rank]) }

// Epoch returns how often the job was restarted: never.
func (w Hosted) Epoch() int { return 0 }

// ListenAddrs returns the address of this rank's host.
func (w Hosted) ListenAddrs() []netip.Addr {
	return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, byte(1 + w.hosts[w.rank])})}
}

// GraphOn returns a graph of ranks on these hosts, whose cards are all alike: with it
// nobody has to measure.
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
