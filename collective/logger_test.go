package collective

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// record collects the output of a logger.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// TestLogger: a long wait of a communicator, and of one split off from it, is a warning of its logger.
func TestLogger(t *testing.T) {
	var logged record
	l := slog.New(slog.NewTextHandler(&logged, nil))
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		part, err := c.Dup(t.Context(), WithStallReport(30*time.Millisecond))
		if err != nil {
			return err
		}
		defer part.Close()
		for _, of := range []*Comm{c, part} {
			if c.Rank() == 1 {
				const report = "rank 0 has waited"
				before := strings.Count(logged.String(), report)
				for begin := time.Now(); strings.Count(logged.String(), report) == before &&
					time.Since(begin) < testutil.Limit; {
					time.Sleep(10 * time.Millisecond)
				}
			}
			if err := Barrier(t.Context(), of); err != nil {
				return err
			}
		}
		return nil
	}, WithLogger(l), WithStallReport(30*time.Millisecond), WithName("jobs"))
	for _, want := range []string{"level=WARN", "rank 0 has waited", "Barrier", "jobs/split#1"} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("no %q in the log:\n%s", want, logged.String())
		}
	}
}
