package cuda

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/cuda/internal/driver"
)

// connections is the driver's variable for the number of hardware queues, 1 to 32, that the streams of a process share:
// in one queue a stream that waits holds up those behind it.
const connections = "CUDA_DEVICE_MAX_CONNECTIONS"

// wantQueues requests the largest number of queues. MPS hands the same queues out to all its clients: there the setting
// is left to the administrator of MPS.
func wantQueues() error {
	_, mps := os.LookupEnv("CUDA_MPS_PIPE_DIRECTORY")
	if _, err := os.Stat("/tmp/nvidia-mps/control"); err == nil || mps || os.Getenv(connections) != "" {
		return nil
	}
	return os.Setenv(connections, "32")
}

// queues returns the number of queues that the streams of a device share.
func queues() int {
	n, err := strconv.Atoi(os.Getenv(connections))
	if err != nil {
		n = 8 // the driver's
	}
	return max(1, min(n, 32))
}

// callersQueues are left to streams that NewWaitingStreams has not made.
const callersQueues = 4

// NewWaitingStreams makes up to n streams that may wait for each other, whatever their order, and whose kernels go
// before those of others. Each has a queue of the hardware for itself: there are fewer than n, or none, while others
// have the queues. It tries whether the last one runs while all others wait.
func (d *Device) NewWaitingStreams(n int) (list []*Stream, err error) {
	for len(list) < n && int(d.waiting.Add(1)) <= queues()-callersQueues {
		s, err := d.newStream(-100) // the driver takes the nearest existing priority
		if err != nil {
			d.waiting.Add(-1)
			return nil, closeAll(list, err)
		}
		destroy := s.release
		s.release = func(c driver.Context) driver.Result {
			d.waiting.Add(-1)
			return destroy(c)
		}
		list = append(list, s)
	}
	if len(list) < n {
		d.waiting.Add(-1)
	}
	err = d.try(list)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("cuda: %s: %d streams that wait hold up another one, so there are fewer queues than the %d that "+
			"%s promises: set it to as many as there are; with 1 every call stays on its own stream: %w", d, len(list)-1,
			queues(), connections, err)
	}
	if err != nil {
		return nil, closeAll(list, err)
	}
	return list, nil
}

func closeAll(list []*Stream, err error) error {
	for _, s := range list {
		err = errors.Join(err, s.Close())
	}
	return err
}

// TryStreamMemOps finds out whether streams of this device can wait for values in
// memory and write them, on a stream of its own: some systems have the calls and
// refuse them, which is ErrNotSupported.
func (d *Device) TryStreamMemOps() error {
	s, err := d.NewStream()
	if err == nil {
		err = errors.Join(d.try([]*Stream{s}), s.Close())
	}
	if err != nil {
		err = fmt.Errorf("cuda: %s: streams that wait for memory and write it: %w", d, err)
	}
	return err
}

// tryDeadline is the time limit of the operations of try.
const tryDeadline = 5 * time.Second

// try lets all of some streams wait for a word that the last one writes.
func (d *Device) try(list []*Stream) error {
	if len(list) == 0 {
		return nil
	}
	word, err := AllocPinned[uint32](d, 1)
	if err != nil {
		return err
	}
	atomic.StoreUint32(&word.Host()[0], 0)
	wait := MemOp{Addr: word.Addr(), Value: 1, Wait: true}
	last := len(list) - 1
	for _, s := range list[:last] {
		err = cmp.Or(err, s.MemOps([]MemOp{wait}))
	}
	err = cmp.Or(err, list[last].MemOps([]MemOp{{Addr: wait.Addr, Value: 1}, wait}))
	ctx, cancel := context.WithTimeout(context.Background(), tryDeadline)
	defer cancel()
	for _, s := range list {
		if err == nil {
			err = s.Synchronize(ctx)
		}
	}
	atomic.StoreUint32(&word.Host()[0], 1) // the streams that still wait are released
	return errors.Join(err, word.Free())
}
