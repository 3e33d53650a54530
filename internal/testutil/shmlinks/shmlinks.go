// Package shmlinks opens links over shared memory for tests. It stands beside testutil, which the tests of package shm
// import.
package shmlinks

import (
	"errors"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/shm"
)

// Open opens the links of a layout between ranks that are goroutines of the test, by rank.
func Open(t testing.TB, l transport.Layout) []transport.Endpoint {
	t.Helper()
	all := make([]transport.Endpoint, l.Size)
	errs := testutil.NewJob(testutil.OneHost(l.Size)...).Run(t, func(w *testutil.World) (err error) {
		all[w.Rank()], err = shm.Connect(t.Context(), shm.Config{Rank: w.Rank(), Layout: l,
			Key: make([]byte, shm.KeyBytes), JobID: "test", Exchange: w.AllGather})
		return err
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return all
}
