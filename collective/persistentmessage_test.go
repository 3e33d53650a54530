package collective

import (
	"errors"
	"fmt"
	"testing"
)

// TestPersistentMessages: prepared messages run many times, with the present contents of their slices, also of any
// source, to no rank, and to plain calls.
func TestPersistentMessages(t *testing.T) {
	for _, count := range []int{1, 30_000} {
		mustRun(t, 3, func(_ *fakeWorld, c *Comm) error {
			next, before := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
			out, in := make([]int64, count), make([]int64, count+1)
			send, err := SendInit(c, out, next, 6)
			recv, recvErr := RecvInit(c, in, AnySource, AnyTag)
			none, noneErr := SendInit(c, out, NoRank, 6)
			if err := errors.Join(err, recvErr, noneErr); err != nil {
				return err
			}
			for i := range int64(50) {
				got, err := recv.Start()
				if err != nil {
					return err
				}
				out[count-1] = 100*int64(c.Rank()) + i
				sent, err := send.Start()
				if i%5 == 0 && err == nil {
					err = errors.Join(sent.Wait(t.Context()), Send(t.Context(), c, out[:0], c.Rank(), 7))
				}
				nowhere, noneErr := none.Start()
				if err := errors.Join(err, noneErr, WaitAll(t.Context(), got, sent, nowhere)); err != nil {
					return err
				}
				if st := got.Status(); st == (Status{c.Rank(), 7, 0}) { // the empty one of this rank came first
					_, err = Recv(t.Context(), c, in, before, 6)
				} else if i%5 == 0 {
					_, err = Recv(t.Context(), c, in[:0], c.Rank(), 7)
				}
				if want := 100*int64(before) + i; err != nil || in[count-1] != want {
					return fmt.Errorf("round %d: %d, want %d: %w", i, in[count-1], want, err)
				}
			}
			_, err = SendInit(c, out, 3, 6)
			_, tagErr := RecvInit(c, out, 0, -5)
			_, typeErr := SendInit(c, []*int{nil}, 0, 0)
			for _, err := range []error{err, tagErr, typeErr} {
				if !errors.Is(err, ErrArgument) {
					return fmt.Errorf("%w, want ErrArgument", err)
				}
			}
			return Barrier(t.Context(), c)
		})
	}
}
