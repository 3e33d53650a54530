//go:build linux

package rank

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/treerun/treerun/internal/job"
)

// opens registers with w a communicator whose Close returns err and reports it, as those of package collective do.
func opens(w *World, closed *[]error, err error) {
	wait := w.Waits().NewWait("test", nil)
	wait.SetLeave(func() error {
		*closed = append(*closed, err)
		if err != nil {
			wait.Failed(err)
		}
		wait.Close()
		return err
	})
}

// TestCloseClosesCommunicators: open communicators are closed, the latest first, while the launcher still takes
// reports, and their errors are returned.
func TestCloseClosesCommunicators(t *testing.T) {
	j := newTestJob(t, 2).start()
	w, first, last := j.worlds[1], errors.New("first"), errors.New("last")
	var closed []error
	opens(w, &closed, first)
	opens(w, &closed, nil)
	opens(w, &closed, last)
	err := w.Close()
	if !errors.Is(err, first) || !errors.Is(err, last) {
		t.Errorf("Close returns %v", err)
	}
	if !slices.Equal(closed, []error{last, nil, first}) {
		t.Errorf("closed in the order %v", closed)
	}
	for range 2 { // idempotent
		if again := w.Close(); again != err || len(closed) != 3 {
			t.Errorf("again: %v, %d", again, len(closed))
		}
	}
	j.close() // the launcher reads to the end
	j.wg.Wait()
	if !slices.Equal(j.text, []string{"last", "first"}) || j.messages[job.Closing] != 2 {
		t.Errorf("the launcher got %q and %d times Closing", j.text, j.messages[job.Closing])
	}
}

// TestFailureTextHasABound: the launcher accepts a long text up to its limit.
func TestFailureTextHasABound(t *testing.T) {
	j := newTestJob(t, 1).start()
	w := j.worlds[0]
	var closed []error
	opens(w, &closed, errors.New("x"+strings.Repeat("ä", job.MaxFailure)+"\xff"))
	w.Close()
	j.close() // the launcher reads to the end
	j.wg.Wait()
	if len(j.text) != 1 || len(j.text[0]) < job.MaxFailure-1 || !utf8.ValidString(j.text[0]) {
		t.Errorf("the launcher got %d texts", len(j.text))
	}
}

// TestFailureWithoutALauncher: without a launcher the logger gets the failure.
func TestFailureWithoutALauncher(t *testing.T) {
	var log bytes.Buffer
	j := newTestJob(t, 2)
	j.log = slog.New(slog.NewTextHandler(&log, nil))
	j.meetAtSeed()
	var closed []error
	opens(j.worlds[1], &closed, errors.New("a message was not received"))
	j.worlds[1].Close()
	if text := log.String(); !strings.Contains(text, "a message was not received") || !strings.Contains(text, "rank=1") {
		t.Errorf("logged: %s", text)
	}
}
