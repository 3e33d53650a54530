//go:build linux

package rank

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// onHosts makes the Worlds of ranks that take themselves for ranks of several
// hosts, host[r] that of rank r, with a peer timeout.
func (j *testJob) onHosts(peerTimeout string, host ...string) *testJob {
	j.t.Helper()
	seed := testutil.FreeAddress(j.t)
	errs := j.each(func(r int) (err error) {
		cfg := j.seedConfig(r, seed)
		cfg.hostID, cfg.Host = "identity of "+host[r], host[r]
		cfg.Settings = map[string]string{"peer-timeout": peerTimeout}
		j.worlds[r], err = start(j.t.Context(), cfg)
		return err
	})
	j.t.Cleanup(j.close)
	for r, err := range errs {
		if err != nil {
			j.t.Fatalf("rank %d of %d: %v", r, j.size, err)
		}
	}
	return j
}

// A rank of another host that sends nothing for the peer timeout is lost, on every rank, with its host's name.
func TestSilentHostIsLost(t *testing.T) {
	t.Parallel()
	j := newTestJob(t, 6).onHosts("2s", "a", "a", "b", "b", "c", "c")
	for r, want := range []string{"a", "a", "b", "b", "c", "c"} {
		if got := j.worlds[5].HostName(r); got != want {
			t.Fatalf("rank %d is on host %q, want %q", r, got, want)
		}
	}
	begin := time.Now()
	defer j.worlds[4].mesh.Hold()()
	defer j.worlds[5].mesh.Hold()()
	for r, w := range j.worlds[:4] {
		inTime(t, func() { <-w.Failed() })
		lost, err := w.Failure()
		if lost < 4 || !errors.Is(err, ErrFailed) || !strings.HasPrefix(err.Error(), "on host c has sent nothing to rank ") {
			t.Errorf("rank %d: rank %d failed: %v", r, lost, err)
		}
	}
	if d := time.Since(begin); d < 1600*time.Millisecond {
		t.Errorf("noticed after %v, long before the peer timeout", d)
	}
}

// A rank that is silent for a shorter time is not lost, and neither is a rank of this host, after any time.
func TestShortSilenceIsNoFailure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hosts   []string
		timeout string
		silent  time.Duration
	}{
		"a third of the time": {[]string{"a", "b", "c"}, "6s", 2 * time.Second},
		"all of one host":     {[]string{"a", "a", "a"}, "2s", 3 * time.Second},
		"two of another host": {[]string{"a", "b", "b"}, "6s", 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newTestJob(t, 3).onHosts(c.timeout, c.hosts...)
			speak := j.worlds[2].mesh.Hold()
			time.Sleep(c.silent)
			speak()
			j.mustGather(constant(100))
			time.Sleep(time.Second / 4)
			for r, w := range j.worlds {
				if lost, err := w.Failure(); err != nil {
					t.Errorf("rank %d: rank %d failed: %v", r, lost, err)
				}
			}
		})
	}
}

// News of a rank of another host contains the host's name.
func TestFailureNamesTheHost(t *testing.T) {
	t.Parallel()
	j := newTestJob(t, 4).onHosts("10s", "a", "b", "c", "d")
	j.worlds[2].kill()
	j.allFailed(2, 2, "ended without closing its world on host c")
}

// Ranks of other epochs do not know the key.
func TestOldEpochIsRefused(t *testing.T) {
	t.Parallel()
	j := newTestJob(t, 2)
	seed := testutil.FreeAddress(t)
	ctx, refused := context.WithCancel(t.Context())
	errs := j.each(func(r int) (err error) {
		cfg := j.seedConfig(r, seed)
		cfg.Epoch = 1 + r
		if r == 1 {
			defer refused() // rank 0 has waited for long enough
			j.worlds[r], err = start(t.Context(), cfg)
			return err
		}
		j.worlds[r], err = start(ctx, cfg)
		return err
	})
	if !errors.Is(errs[1], ErrKey) || !strings.Contains(fmt.Sprint(errs[1]), "another job or epoch") || errs[0] == nil {
		t.Fatalf("errors %v", errs)
	}
}
