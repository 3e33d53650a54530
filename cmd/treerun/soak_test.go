//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// resources is the resources that a rank of soaker has reported; memory in KiB.
type resources struct {
	rank, calls, rss, size, fds, goroutines, threads, mallocs int
	seconds                                                   float64 // since its first call
}

// TestSoak: after very many small AllReduces a rank has no more memory,
// descriptors and goroutines than after a tenth of them, and the calls have
// allocated nothing.
//
// TREERUN_SOAK=1000000 raises the number of calls from its default.
func TestSoak(t *testing.T) {
	testutil.NotUnderRace(t, "it measures memory, of which the detector takes most")
	const np = 8
	calls, limit := testutil.Count(1000, 5000), 6*maxWait
	if s := os.Getenv("TREERUN_SOAK"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 100 {
			t.Fatalf("TREERUN_SOAK=%q is not a number of calls", s)
		}
		calls, limit = n, time.Hour
	}
	reports := soak(t, np, limit, calls)
	for rank := range np {
		early, late := reports[[2]int{rank, calls / 10}], reports[[2]int{rank, calls}]
		if early.fds == 0 || late.fds == 0 {
			t.Fatalf("rank %d has not reported twice: %v", rank, reports)
		}
		t.Logf("rank %d: %+v, then %+v", rank, early, late)
		if late.fds != early.fds {
			t.Errorf("rank %d: %d descriptors, then %d", rank, early.fds, late.fds)
		}
		if late.goroutines > early.goroutines {
			t.Errorf("rank %d: %d goroutines, then %d", rank, early.goroutines, late.goroutines)
		}
		if grown := late.rss - early.rss; grown > 4<<10 { // memory that the runtime may touch late
			t.Errorf("rank %d: %d KiB of memory, then %d", rank, early.rss, late.rss)
		}
		// Ranks check each other at intervals, independent of their calls.
		passed := late.seconds - early.seconds
		if made := late.mallocs - early.mallocs; made > 100+calls/100+int(300*passed) {
			t.Errorf("rank %d: %d allocations in %d calls and %.1f s", rank, made, calls-calls/10, passed)
		}
	}
}

// TestManyCommunicators: 8 ranks may have very many communicators at once. Each takes
// the addresses of its links, memory for their headers, and the descriptors of its
// memory and of connections to the first of its ranks.
//
// TREERUN_COMMUNICATORS=1000 raises their number from its default.
func TestManyCommunicators(t *testing.T) {
	t.Parallel()
	const np = 8
	comms, limit := testutil.Count(50, 260), 6*maxWait
	if s := os.Getenv("TREERUN_COMMUNICATORS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 2 {
			t.Fatalf("TREERUN_COMMUNICATORS=%q is not a number of communicators", s)
		}
		comms, limit = n, time.Hour
	}
	memory := 1 << 10 // KiB of a communicator
	if testutil.Race {
		memory *= 4
	}
	reports := soak(t, np, limit, comms, comms) // one call on each
	for rank := range np {
		one, all := reports[[2]int{rank, 0}], reports[[2]int{rank, comms}]
		if one.fds == 0 || all.fds == 0 {
			t.Fatalf("rank %d has not reported twice: %v", rank, reports)
		}
		t.Logf("rank %d: %+v, then %+v", rank, one, all)
		more, fds := comms-1, 2
		if rank == 0 {
			fds = np
		}
		if got := all.fds - one.fds; got > more*fds {
			t.Errorf("rank %d: %d communicators take %d descriptors, want at most %d each", rank, more, got, fds)
		}
		if got := (all.size - one.size) / more; got > 48<<10 {
			t.Errorf("rank %d: a communicator takes %d KiB of addresses", rank, got)
		}
		if got := (all.rss - one.rss) / more; got > memory {
			t.Errorf("rank %d: a communicator takes %d KiB of memory", rank, got)
		}
	}
}

// soak runs soaker on np ranks, with these arguments, and returns their reports
// by rank and calls.
func soak(t *testing.T, np int, limit time.Duration, args ...int) map[[2]int]resources {
	t.Helper()
	launcher := filepath.Join(t.TempDir(), "treerun")
	build(t, ".", launcher)
	line := []string{"-np", strconv.Itoa(np), "soak"}
	for _, a := range args {
		line = append(line, strconv.Itoa(a))
	}
	job := startJob(t, t.TempDir(), launcher, line...)
	killer := time.AfterFunc(limit, func() { job.cmd.Process.Kill() })
	err := job.cmd.Wait()
	killer.Stop()
	if err != nil {
		t.Fatalf("%v\nstdout:\n%s\nstderr:\n%s", err, &job.stdout, &job.stderr)
	}
	return parseResources(t, job.stdout.String())
}

// parseResources returns the lines of soaker by rank and calls.
func parseResources(t *testing.T, out string) map[[2]int]resources {
	t.Helper()
	all := make(map[[2]int]resources)
	for line := range strings.Lines(out) {
		var h resources
		if i := strings.Index(line, "rank="); i >= 0 {
			line = line[i:]
		}
		if _, err := fmt.Sscanf(line, "rank=%d calls=%d rss=%d size=%d fds=%d goroutines=%d threads=%d mallocs=%d seconds=%g",
			&h.rank, &h.calls, &h.rss, &h.size, &h.fds, &h.goroutines, &h.threads, &h.mallocs, &h.seconds); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		all[[2]int{h.rank, h.calls}] = h
	}
	return all
}
