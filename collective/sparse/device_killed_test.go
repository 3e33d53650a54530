//go:build cgo && linux

package sparse

import (
	"errors"
	"fmt"
	"testing"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
)

// A rank that is killed in the middle of sparse AllReduces ends the others' calls and
// streams.
func TestDeviceRankKilled(t *testing.T) {
	_, err := asJob(t, fakegpu.Job{Hosts: []string{"dgx1v/0-3"}, Kills: true}, oneHost(4),
		func(c *collective.Comm, s *cuda.Stream) (err error) { return untilKilled(t, c, s, Trees) })
	if err != nil {
		t.Error(err)
	}
}

// untilKilled makes calls in a form until rank 1 is killed, and a little longer.
func untilKilled(t *testing.T, c *collective.Comm, s *cuda.Stream, form Form) (err error) {
	ctx := t.Context()
	x, err := cuda.Alloc[float32](s.Device(), 75_000)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Free()) }()
	if err := s.Memset(x.Addr(), 0, x.Bytes()); err != nil {
		return err
	}
	if err := s.Memset(x.Addr(), 1, x.Bytes()/3); err != nil {
		return err
	}
	err = fakegpu.Kill(t, c.Rank(), func(int) error {
		_, err := AllReduceDevice(ctx, c, s, x, x, collective.Max, Use(form))
		return err
	}, func(err error) error {
		var failed *collective.RankError
		if !errors.As(err, &failed) || failed.Rank != 1 || !errors.Is(err, collective.ErrRankLost) {
			return fmt.Errorf("want the loss of rank 1, not %w", err)
		}
		return s.Synchronize(ctx)
	})
	if closed := c.Close(); !errors.Is(closed, collective.ErrRankLost) {
		err = errors.Join(err, closed)
	}
	return err
}
