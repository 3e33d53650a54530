//go:build cgo && linux

package collective

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
)

// A message of a rank to itself is copied in its place among the rank's calls, on whatever stream.
func TestDeviceMessageToItself(t *testing.T) {
	if !asProcesses(t, 2, "dgx1v/0-1") {
		return
	}
	messengers(t, 1000, func(ctx context.Context, m *messenger) error {
		other, err := m.s.Device().NewStream()
		if err != nil {
			return err
		}
		copied, err := cuda.Alloc[int32](m.s.Device(), len(m.got))
		if err != nil {
			return err
		}
		contents(m.got, 1, 1, 1)
		for i := range m.got {
			m.want[i] = 2 * m.got[i]
		}
		if err := errors.Join(m.out.CopyFrom(ctx, m.s, m.got), m.SyncDevice(ctx, m.s)); err != nil {
			return err
		}
		if m.Rank() == 1 {
			time.Sleep(100 * time.Millisecond) // rank 0 has enqueued both by then
		}
		err = errors.Join(AllReduceDevice(ctx, m.Comm, m.s, m.out, m.into, Sum),
			SendRecvDevice(ctx, m.Comm, other, m.into, m.Rank(), copied, m.Rank()),
			m.SyncDevice(ctx, other), copied.CopyTo(ctx, other, m.got))
		for i, want := range m.want {
			if err == nil && m.got[i] != want {
				err = fmt.Errorf("element %d is %d, want %d", i, m.got[i], want)
			}
		}
		return errors.Join(err, copied.Free(), other.Close())
	})
}

// A sender does not wait for a receiver whose stream has other work for longer than the stall timeout: the receiver has
// made the call.
func TestDeviceMessageBusyReceiver(t *testing.T) {
	for i, hosts := range [][]string{{"dgx1v/0-1"}, {"dgx1v/0", "dgx1v/1"}} {
		t.Run(fmt.Sprint(len(hosts), " hosts"), func(t *testing.T) {
			if !asRanks(t, fakegpu.Job{Hosts: hosts, Ranks: 2 / len(hosts)}) {
				return
			}
			n := []int{3000000, 1000}[i] // on one host it is more than the link holds
			err := tryMessengers(t, n, func(ctx context.Context, m *messenger) error {
				if m.Rank() == 0 {
					return errors.Join(SendDevice(ctx, m.Comm, m.s, m.out, 1), m.SyncDevice(ctx, m.s),
						BarrierDevice(ctx, m.Comm, m.s), m.SyncDevice(ctx, m.s))
				}
				p, err := cuda.AllocPinned[uint32](m.s.Device(), 16)
				if err != nil {
					return err
				}
				p.Host()[0] = 0
				time.AfterFunc(1300*time.Millisecond, func() { p.Host()[0] = 1 })
				return errors.Join(m.s.MemOps([]cuda.MemOp{{Addr: p.Addr(), Value: 1, Wait: true}}),
					RecvDevice(ctx, m.Comm, m.s, m.into, 0), BarrierDevice(ctx, m.Comm, m.s), m.SyncDevice(ctx, m.s), p.Free())
			}, WithStallTimeout(500*time.Millisecond))
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// A rank can load kernels while the device of another rank waits for it.
func TestLoadWhileOthersWait(t *testing.T) {
	if !asProcesses(t, 2, "dgx1v/0-1") {
		return
	}
	messengers(t, 1000, func(ctx context.Context, m *messenger) error {
		other, err := cuda.Alloc[float64](m.s.Device(), 8)
		if err != nil {
			return err
		}
		if m.Rank() == 1 {
			time.Sleep(300 * time.Millisecond) // rank 0 is loading
		}
		began := time.Now()
		err = errors.Join(AllReduceDevice(ctx, m.Comm, m.s, m.out, m.into, Sum),
			AllReduceDevice(ctx, m.Comm, m.s, other, other, Sum), m.SyncDevice(ctx, m.s))
		if took := time.Since(began); took > 8*time.Second { // it waits for 10 where it is kept
			t.Errorf("it took %v", took)
		}
		return errors.Join(err, other.Free())
	})
}
