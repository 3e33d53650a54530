//go:build linux

package rank

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/iface"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/testutil"
)

func (j *testJob) mustGather(size func(rank int) int) {
	j.t.Helper()
	for r, err := range j.each(func(r int) error { return gatherOnce(j.worlds[r], size) }) {
		if err != nil {
			j.t.Fatalf("rank %d of %d: %v", r, j.size, err)
		}
	}
}

// gatherOnce runs an AllGather with blobs of the given sizes, and checks the result.
func gatherOnce(w *World, size func(rank int) int) error {
	all, err := w.AllGather(context.Background(), pattern(w.Rank(), size(w.Rank())))
	if err != nil {
		return err
	}
	if len(all) != w.Size() {
		return fmt.Errorf("%d blobs", len(all))
	}
	for r, b := range all {
		if !bytes.Equal(b, pattern(r, size(r))) {
			return fmt.Errorf("blob of rank %d, %d bytes, differs from the sent one", r, len(b))
		}
	}
	return nil
}

func pattern(rank, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(rank*31 + i + i>>8)
	}
	return b
}

func constant(n int) func(int) int { return func(int) int { return n } }

func TestRanksOfAJobGather(t *testing.T) {
	for n := 1; n <= 9; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			j := newTestJob(t, n).start()
			for r, w := range j.worlds {
				if w.Rank() != r || w.Size() != n || w.LocalRank() != r || w.LocalSize() != n || w.Host() != "here" ||
					w.HostOf(n-1) != 0 || w.JobID() != j.id || w.Setting("color") != "blue" || w.Setting("shape") != "" {
					t.Fatalf("rank %d: %+v", r, w.cfg)
				}
			}
			for _, size := range []int{0, 1, 100, 5_000} {
				j.mustGather(constant(size))
				j.mustGather(func(r int) int { return size * (r % 3) })
			}
			if n <= 3 {
				j.mustGather(func(r int) int { return 3<<20 + r })
			}
			j.close()
			inTime(t, func() {
				for j.count(job.Closing) < n {
					time.Sleep(time.Millisecond)
				}
			})
			if got := j.count(job.Joined); got != n {
				t.Fatalf("%d ranks reported to the launcher that they had joined", got)
			}
		})
	}
}

// Ranks of several hosts listen where other hosts reach them.
func TestRanksOfSeveralHosts(t *testing.T) {
	devices, err := iface.Read()
	if err != nil {
		t.Fatal(err)
	}
	offered, _, err := iface.Choose(devices, iface.Spec{})
	if err == nil && offered[0].Kind == iface.Loopback {
		err = errors.New("there is only the loopback")
	}
	testutil.Need(t, testutil.Network, err)
	j := newTestJob(t, 5)
	j.hosts = []int{0, 0, 1, 1, 0}
	j.start()
	j.mustGather(constant(1000))
	w := j.worlds[3]
	if w.HostOf(3) != 1 || w.HostOf(4) != 0 || w.LocalRank() != 1 || w.LocalSize() != 2 {
		t.Fatalf("%+v", w.cfg)
	}
	for r := range j.worlds {
		// On a busy machine the second address may answer before the first.
		host, _, _ := net.SplitHostPort(w.members.address(r))
		if !slices.ContainsFunc(offered, func(a iface.Address) bool { return a.IP.String() == host }) {
			t.Fatalf("rank %d listens at %s, want one of %v", r, host, offered)
		}
		if got := j.worlds[r].ListenAddrs(); len(got) != len(offered) || got[0] != offered[0].IP || w.HostName(r) != "here" {
			t.Fatalf("rank %d offers %v, want %v; its host is %q", r, got, offered, w.HostName(r))
		}
	}
}

// Without a launcher that passes the placement, ranks find out which of them share their host.
func TestRanksCountThoseOnTheirHost(t *testing.T) {
	j := newTestJob(t, 4).meetAtSeed()
	for r, w := range j.worlds {
		if w.LocalRank() != r || w.LocalSize() != 4 || w.HostOf(3) != 0 {
			t.Fatalf("rank %d: %+v", r, w.cfg)
		}
	}
}

func TestSeedThatIsTaken(t *testing.T) {
	j := newTestJob(t, 2)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = start(t.Context(), j.seedConfig(0, taken.Addr().String()))
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "choose a free port with TREERUN_SEED") {
		t.Fatalf("error %v", err)
	}
}

func TestSeedThatCannotBeFound(t *testing.T) {
	j := newTestJob(t, 2)
	cfg := j.seedConfig(1, "no-such-host.invalid:7000")
	cfg.parsed.StartTimeout = 100 * time.Millisecond
	_, err := start(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), `seed address "no-such-host.invalid:7000": `) {
		t.Fatalf("error %v", err)
	}
}

func (j *testJob) count(kind job.MessageKind) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.messages[kind]
}

func TestBlobBeyondTheLimitIsAnErrorAndNothingElse(t *testing.T) {
	j := newTestJob(t, 2).start()
	var e *Error
	if _, err := j.worlds[0].AllGather(t.Context(), make([]byte, MaxBlob+1)); !errors.As(err, &e) || e.Rank != 0 {
		t.Fatalf("error %v", err)
	}
	j.mustGather(constant(10))
}

func TestKeysDifferByPurposeAndJob(t *testing.T) {
	a, b := newTestJob(t, 2).start(), newTestJob(t, 1)
	b.secret = a.secret
	b.start()
	k := a.worlds[0].DeriveKey("x")
	if len(k) != 32 || !bytes.Equal(k, a.worlds[1].DeriveKey("x")) {
		t.Fatal("ranks of a job do not have the same key")
	}
	if bytes.Equal(k, a.worlds[0].DeriveKey("y")) || bytes.Equal(k, b.worlds[0].DeriveKey("x")) {
		t.Fatal("the same key for another purpose, or another job")
	}
}

func TestHostsAreNumberedInOrderOfAppearance(t *testing.T) {
	ids := strings.Fields("c a c b a c")
	hosts, before, all := numberHosts(ids, 5)
	for r, want := range []int{0, 1, 0, 2, 1, 0} {
		if hosts[r] != want {
			t.Fatalf("hosts %v", hosts)
		}
	}
	if before != 2 || all != 3 {
		t.Fatalf("rank 5 is number %d of %d on its host", before, all)
	}
}
