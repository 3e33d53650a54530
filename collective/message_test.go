package collective

import (
	"errors"
	"runtime"
	"strings"
	"testing"
)

// TestNameOfAMessageThatWentOut: an error names the message that the call was for, also where
// that had gone out before the fault was seen.
func TestNameOfAMessageThatWentOut(t *testing.T) {
	errs := newFakeJob(2).run(t, func(w *fakeWorld) error {
		c, err := New(t.Context(), w, overMem, WithTopoCache(""))
		if err != nil {
			return err
		}
		defer c.Close()
		if c.Rank() == 1 {
			c.Abort(errors.New("enough"))
			return nil
		}
		for failed := false; !failed; _, failed = c.in.Endpoint.Aborted() {
			runtime.Gosched()
		}
		return Send(t.Context(), c, []int32{1, 2, 3}, 1, 5)
	})
	if !errors.Is(errs[0], ErrAborted) || !strings.Contains(errs[0].Error(), "Send (3 int32, tag 5)") {
		t.Errorf("%v, want the Send of 3 int32", errs[0])
	}
}
