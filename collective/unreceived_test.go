package collective

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
)

// TestSendNobodyReceived: a message that has arrived when a rank closes, and that it has not received, is an error of
// its Close, whether it has probed for messages or not. The other ranks close without an error.
func TestSendNobodyReceived(t *testing.T) {
	for name, hosts := range map[string][]int{"one host": {0, 0, 0}, "two hosts": {0, 1, 0}, "three hosts": {0, 1, 2}} {
		for what, receive := range map[string]func(c *Comm) error{
			"no Recv":        func(*Comm) error { return nil },
			"one of two":     func(c *Comm) error { return received(t.Context(), c, make([]int16, 3), 0, 7) },
			"another tag":    func(c *Comm) error { return received(t.Context(), c, make([]int16, 3), 0, 8) },
			"found by Probe": func(c *Comm) error { _, err := Probe(t.Context(), c, AnySource, AnyTag); return err },
			"another rank's": func(c *Comm) error { return received(t.Context(), c, make([]byte, 1<<20), 2, 9) },
			"to itself": func(c *Comm) error {
				return errors.Join(Send(t.Context(), c, []int32{1, 2}, 1, 4), received(t.Context(), c, make([]int32, 2), 1, 4))
			},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				errs := runHosts(t, hosts, nil, func(_ *testutil.Hosted, c *Comm) (err error) {
					switch {
					case c.Rank() == 0:
						err = errors.Join(Send(t.Context(), c, []int16{1, 2, 3}, 1, 7), Send(t.Context(), c, []int16{1, 2, 3}, 1, 8))
					case c.Rank() == 1:
						err = receive(c)
					case what == "another rank's":
						err = Send(t.Context(), c, make([]byte, 1<<20), 1, 9)
					}
					return errors.Join(err, Barrier(t.Context(), c), closesNaming(c, "rank 0 has sent 3 int16 with tag "))
				}, WithGraph(testutil.GraphOn(hosts)))
				if err := errors.Join(errs...); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// closesNaming closes c; the error must name a message on rank 1 alone.
func closesNaming(c *Comm, want string) error {
	err, e := c.Close(), (*RankError)(nil)
	if c.Rank() == 1 && errors.As(err, &e) && e.Op == "Close" && errors.Is(err, ErrMismatch) &&
		strings.Contains(err.Error(), want) {
		return nil
	}
	if c.Rank() == 1 {
		return fmt.Errorf("rank 1 closed with %v, want %q", err, want)
	}
	return err
}

// TestOwnMessageNotReceived: a rank may have sent it to itself.
func TestOwnMessageNotReceived(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		if c.Rank() == 1 {
			if err := Send(t.Context(), c, []int16{1, 2, 3}, 1, 5); err != nil {
				return err
			}
		}
		return closesNaming(c, "rank 1 has sent 3 int16 with tag 5, which rank 1 has not received")
	})
}
