//go:build linux

package rank

import (
	"context"
	"errors"
	"testing"
)

// A context that ends because a rank has failed does not hide which rank: the
// failure is the error, and not that the context has ended.
func TestFailureIsTheBetterReason(t *testing.T) {
	j := newTestJob(t, 2).start()
	w := j.worlds[0]
	w.mesh.MarkFailed(1, "was killed by SIGKILL")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.AllGather(ctx, []byte("blob"))
	var e *Error
	if !errors.As(err, &e) || e.AtFault() != 1 || !errors.Is(err, ErrFailed) {
		t.Errorf("error %v, want that of rank 1", err)
	}
}
