package launch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

// The reports of many ranks on one cause become one line, and another one while the stall continues; a circle and a
// single rank that waits are reported as the ranks describe them. A wait that is over is not.
func TestStallLines(t *testing.T) {
	name := filepath.Join(t.TempDir(), "screen")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := &supervisor{
		job: &Job{Size: 24, Screen: output.NewScreen(f, f)}, quit: make(chan struct{}), stalls: make(map[string]*stall),
		looks: make(map[int]*look),
	}
	close(s.quit) // the clocks are this test's
	for r := range 24 {
		s.ranks = append(s.ranks, &rankState{End: End{End: wire.End{Rank: r}}})
	}
	waits := func(rank, last int, in, is string, d time.Duration) {
		s.onWait(s.ranks[rank], &job.Wait{For: d, In: in, Last: last, Is: is, Text: "all about " + is})
	}
	tell := func() string {
		t.Helper()
		if err := f.Truncate(0); err != nil {
			t.Fatal(err)
		}
		for cause, g := range s.stalls {
			s.reportStall(cause, g)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimLeft(string(text), "\x00")
	}
	const call, stopped = "AllReduce #7675", "is stopped by SIGSTOP (process 12)"
	waits(4, 1, "AllReduce #7674", stopped, 13*time.Second)
	for _, c := range []struct {
		name   string
		report func()
		want   string
	}{
		{"one", func() {}, "treerun: rank 4 has waited 13 s in AllReduce #7674: all about " + stopped + "\n"},
		{"some", func() {
			for r := 6; r < 9; r++ {
				waits(r, 1, call, stopped, 12*time.Second)
			}
		}, "treerun: 4 of 24 ranks (4,6-8) have waited 12 s in AllReduce #7675 and 1 other call for rank 1, which " +
			stopped + "\n"},
		{"all", func() {
			for r := range 24 {
				if r != 1 {
					waits(r, 1, call, stopped, 20*time.Second)
				}
			}
		}, "treerun: 23 of 24 ranks have waited 20 s in AllReduce #7675 for rank 1, which " + stopped + "\n"},
		{"a circle of two", func() {
			for r := range 24 {
				s.ranks[r].ended = r > 1
			}
			waits(0, -1, "Recv", "rank 0 waits for rank 1, rank 1 for rank 0: a circle", 10*time.Second)
			waits(1, -1, "Recv", "rank 0 waits for rank 1, rank 1 for rank 0: a circle", 10*time.Second)
		}, "treerun: 2 of 24 ranks (0,1) have waited 10 s in Recv: rank 0 waits for rank 1, rank 1 for rank 0: a circle\n"},
		{"one of them made progress", func() { waits(1, 0, "", "", 0) },
			"treerun: rank 0 has waited 10 s in Recv: all about rank 0 waits for rank 1, rank 1 for rank 0: a circle\n"},
		{"over", func() {
			for _, r := range s.ranks {
				r.wait.received = r.wait.received.Add(-2 * maxReportAge)
			}
		}, ""},
	} {
		c.report()
		if got := tell(); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
	if len(s.stalls) != 0 {
		t.Errorf("%d causes are left", len(s.stalls))
	}
}
