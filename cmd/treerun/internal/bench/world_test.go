//go:build linux

package bench

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/treerun/treerun/collective"
)

// world is a collective.World whose ranks are goroutines in a ring.
type world struct {
	rank int
	meet []chan [][]byte // by rank: the channel from the rank before it
}

func (w *world) Rank() int               { return w.rank }
func (w *world) Size() int               { return len(w.meet) }
func (w *world) HostOf(int) int          { return 0 }
func (w *world) Failed() <-chan struct{} { return nil }
func (w *world) Failure() (int, error)   { return -1, nil }
func (w *world) DeriveKey(string) []byte { return make([]byte, 32) }
func (w *world) JobID() string           { return "bench" }
func (w *world) Setting(string) string   { return "" }
func (w *world) pass(blobs [][]byte)     { w.meet[(w.rank+1)%len(w.meet)] <- blobs }
func (w *world) take() (blobs [][]byte)  { return <-w.meet[w.rank] }

// AllGather sends the list of blobs around the ring, once to fill it and once to pass the full list to every rank.
func (w *world) AllGather(_ context.Context, blob []byte) ([][]byte, error) {
	if w.rank == 0 {
		w.pass([][]byte{blob})
		full := w.take()
		w.pass(full)
		return w.take(), nil
	}
	w.pass(append(w.take(), blob))
	full := w.take()
	w.pass(full)
	return full, nil
}

// onRanks runs body on np ranks that share memory, as processes would.
func onRanks(t *testing.T, np int, body func(c *collective.Comm) error) {
	t.Helper()
	worlds(t, np, func(w *world) error {
		c, err := collective.New(t.Context(), w, collective.WithTopoCache(""))
		if err != nil {
			return err
		}
		return errors.Join(body(c), c.Close())
	})
}

// worlds runs body on np ranks.
func worlds(t *testing.T, np int, body func(w *world) error) {
	t.Helper()
	meet := make([]chan [][]byte, np)
	for i := range meet {
		meet[i] = make(chan [][]byte, 1)
	}
	errs := make([]error, np)
	var all sync.WaitGroup
	for r := range np {
		all.Go(func() { errs[r] = body(&world{r, meet}) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
