//go:build cgo && linux

package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/treerun/treerun/cuda"
)

// messenger is a rank with open devices and memory for its messages.
type messenger struct {
	*Comm
	s         *cuda.Stream
	out, into cuda.Slice[int32]
	got, want []int32
}

// messengers runs body on this rank, with n elements in each direction.
func messengers(t *testing.T, n int, body func(ctx context.Context, m *messenger) error) {
	t.Helper()
	if err := tryMessengers(t, n, body); err != nil {
		t.Errorf("rank %d: %v", member.Rank(), err)
	}
}

func tryMessengers(t *testing.T, n int, body func(ctx context.Context, m *messenger) error, opts ...Option) error {
	t.Helper()
	return onDevice(t, func(c *Comm, s *cuda.Stream) (err error) {
		ctx, cancel := context.WithTimeout(t.Context(), patienceOnDevice)
		defer cancel()
		m := &messenger{Comm: c, s: s, got: make([]int32, n), want: make([]int32, n)}
		for _, x := range []*cuda.Slice[int32]{&m.out, &m.into} {
			if *x, err = cuda.Alloc[int32](s.Device(), n); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, x.Free()) }()
		}
		if err := errors.Join(BarrierDevice(ctx, c, s), c.SyncDevice(ctx, s)); err != nil {
			return err
		}
		return body(ctx, m)
	}, opts...)
}

func contents(of []int32, from, to, k int) {
	for i := range of {
		of[i] = int32(1000000*from + 100000*to + 1000*k + i%997)
	}
}

// fill writes the contents of the k-th message to a rank.
func (m *messenger) fill(ctx context.Context, n, to, k int) error {
	contents(m.got[:n], m.Rank(), to, k)
	return errors.Join(m.out.Slice(0, n).CopyFrom(ctx, m.s, m.got[:n]),
		m.s.Memset(m.into.Addr(), 0xEE, m.into.Bytes()))
}

// check compares the received message with the one expected.
func (m *messenger) check(ctx context.Context, n, from, k int) error {
	if err := errors.Join(m.SyncDevice(ctx, m.s), m.into.CopyTo(ctx, m.s, m.got)); err != nil {
		return err
	}
	for i := range m.want {
		m.want[i] = -0x11111112
	}
	contents(m.want[:n], from, m.Rank(), k)
	if !slices.Equal(m.got, m.want) {
		i := 0
		for m.got[i] == m.want[i] {
			i++
		}
		return fmt.Errorf("message %d from %d, element %d of %d: %d, want %d", k, from, i, n, m.got[i], m.want[i])
	}
	return nil
}
