//go:build cgo

package collective

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/device"
	"github.com/treerun/treerun/internal/testutil"
)

// TREERUN_STALE_TRIES is how often TestStaleMemory tries each of its ways: without it once, or 3
// times in all rounds.

// TestStaleMemory: memory that is freed, or forgotten, while it is registered never is
// what other ranks read in the place of what was allocated afterwards: at the same
// address, the driver willing. All elements of all results are compared.
func TestStaleMemory(t *testing.T) {
	if !onRanks(t, 4, "dgx1v") {
		return
	}
	tries := testutil.Count(1, 3)
	if text := os.Getenv("TREERUN_STALE_TRIES"); text != "" {
		var err error
		if tries, err = strconv.Atoi(text); err != nil || tries < 1 {
			t.Fatalf("TREERUN_STALE_TRIES=%q is no number", text)
		}
	}
	mustRunOnDevice(t, func(c *Comm, s *cuda.Stream) error {
		k := &staleTrial{t: t, c: c, s: s}
		for i := range tries {
			for _, way := range []struct {
				name string
				try  func() error
			}{{"freed", k.freed}, {"collected", k.collected}, {"freed by another library", k.wrapped}, {"in parts", k.inParts}} {
				if err := way.try(); err != nil {
					return fmt.Errorf("memory %s, try %d: %w", way.name, i+1, err)
				}
			}
		}
		return nil
	})
}

// staleTrial is one rank of TestStaleMemory.
type staleTrial struct {
	t    *testing.T
	c    *Comm
	s    *cuda.Stream
	seed int // of the latest input
}

const staleCount = 100_000 // elements: enough to be read where they lie

func (k *staleTrial) alloc(n int) (cuda.Slice[int32], error) {
	x, err := cuda.Alloc[int32](k.s.Device(), n)
	if err == nil {
		err = k.s.Memset(x.Addr(), 0x55, x.Bytes())
	}
	return x, err
}

// sum makes an AllReduce of x in place, on new input, and compares all of it.
func (k *staleTrial) sum(x cuda.Slice[int32]) error {
	ctx, n := k.t.Context(), k.c.Size()
	k.seed++
	host := make([]int32, x.Len())
	for i := range host {
		host[i] = int32(i%1000 + k.c.Rank() + 17*k.seed)
	}
	if err := x.CopyFrom(ctx, k.s, host); err != nil {
		return err
	}
	if err := AllReduceDevice(ctx, k.c, k.s, x, x, Sum); err != nil {
		return err
	}
	if err := k.c.SyncDevice(ctx, k.s); err != nil {
		return err
	}
	if err := x.CopyTo(ctx, k.s, host); err != nil {
		return err
	}
	wrong := 0
	for i, v := range host {
		if v != int32(n*(i%1000)+n*(n-1)/2+n*17*k.seed) {
			wrong++
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d elements are wrong on rank %d", wrong, len(host), k.c.Rank())
	}
	return nil
}

// held says what is wrong with the error of Free of memory that is registered.
func (k *staleTrial) held(err error) error {
	if want := fmt.Sprintf("RegisterDevice on rank %d", k.c.Rank()); !errors.Is(err, cuda.ErrHeld) ||
		!strings.Contains(err.Error(), want) {
		return fmt.Errorf("Free of registered memory: %v, want ErrHeld by %s", err, want)
	}
	return nil
}

// freed frees memory with Free while it is registered.
func (k *staleTrial) freed() error {
	x, err := k.alloc(staleCount)
	if err != nil {
		return err
	}
	m, err := RegisterDevice(k.t.Context(), k.c, x)
	if err != nil {
		return err
	}
	refused := k.held(x.Free())
	y, err := k.alloc(staleCount)
	if err != nil {
		return err
	}
	if err := errors.Join(refused, k.sum(y)); err != nil {
		return err
	}
	return errors.Join(k.sum(x), m.Close(k.t.Context()), x.Free(), k.sum(y), y.Free())
}

// forgotten is how much device memory this process has left to the collector.
var forgotten int64

// collected lets nothing refer to the memory while it is registered.
func (k *staleTrial) collected() error {
	before := cuda.Stats().Allocations
	register := func() (*DeviceMemory, error) {
		x, err := k.alloc(staleCount)
		if err != nil {
			return nil, err
		}
		return RegisterDevice(k.t.Context(), k.c, x)
	}
	m, err := register()
	if err != nil {
		return err
	}
	for range 3 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	y, err := k.alloc(staleCount)
	if err != nil {
		return err
	}
	if err := k.sum(y); err != nil {
		return err
	}
	if err := errors.Join(m.Close(k.t.Context()), y.Free()); err != nil {
		return err
	}
	forgotten++
	for began := time.Now(); cuda.Stats().Allocations != before; time.Sleep(time.Millisecond) {
		if runtime.GC(); time.Since(began) > time.Minute {
			return errors.New("the memory stays when its registration has ended")
		}
	}
	return nil
}

// wrapped frees memory that is somebody else's for the one who has registered it.
func (k *staleTrial) wrapped() error {
	ctx := k.t.Context()
	theirs, err := k.alloc(staleCount)
	if err != nil {
		return err
	}
	x, err := cuda.Wrap[int32](k.s.Device(), theirs.Addr(), staleCount)
	if err != nil {
		return err
	}
	m, err := RegisterDevice(ctx, k.c, x)
	if err != nil {
		return err
	}
	if err := errors.Join(k.sum(x), theirs.Free(), k.gone(x)); err != nil {
		return err
	}
	y, err := k.alloc(staleCount)
	if err != nil {
		return err
	}
	if y.Addr() != x.Addr() {
		return fmt.Errorf("the address %#x was not used again, but %#x: this tests nothing", uint64(x.Addr()),
			uint64(y.Addr()))
	}
	if err := k.gone(y); err != nil {
		return errors.Join(err, k.sum(y))
	}
	_, err = RegisterDevice(ctx, k.c, x)
	var failed *RankError
	if !errors.As(err, &failed) || !errors.Is(err, ErrDevice) ||
		errors.Is(err, cuda.ErrFreed) != (failed.Rank == k.c.Rank()) || !strings.Contains(err.Error(), "was freed") {
		return fmt.Errorf("registering memory that is gone: %w", err)
	}
	if err := errors.Join(m.Close(ctx), k.sum(y)); err != nil {
		return err
	}
	if m, err = RegisterDevice(ctx, k.c, y); err != nil {
		return err
	}
	return errors.Join(k.sum(y), m.Close(ctx), y.Free())
}

// gone makes a call with memory that lies where registered memory was freed.
func (k *staleTrial) gone(x cuda.Slice[int32]) error {
	err := AllReduceDevice(k.t.Context(), k.c, k.s, x, x, Sum)
	if !errors.Is(err, ErrArgument) || !errors.Is(err, cuda.ErrFreed) ||
		!strings.Contains(err.Error(), fmt.Sprintf("on rank %d", k.c.Rank())) ||
		!strings.Contains(err.Error(), "DeviceMemory.Close") {
		return fmt.Errorf("a call where registered memory is gone: %v", err)
	}
	return nil
}

// inParts registers parts of one allocation, under two names, and all of it.
func (k *staleTrial) inParts() error {
	ctx := k.t.Context()
	all, err := k.alloc(3 * staleCount)
	if err != nil {
		return err
	}
	part := all.Slice(staleCount, 2*staleCount)
	again, err := cuda.Wrap[int32](k.s.Device(), part.Addr(), staleCount)
	if err != nil {
		return err
	}
	a, err := RegisterDevice(ctx, k.c, part)
	if err != nil {
		return err
	}
	b, err := RegisterDevice(ctx, k.c, again)
	if err != nil {
		return err
	}
	for _, x := range []cuda.Slice[int32]{part, again, all.Slice(0, staleCount)} {
		if _, lent, err := k.c.in.Devices.Find(device.BufferOf("x", x)); lent != (x.Addr() == part.Addr()) || err != nil {
			return fmt.Errorf("%#x is read where it lies: %v, %w", uint64(x.Addr()), lent, err)
		}
		if err := k.sum(x); err != nil {
			return err
		}
	}
	if err := errors.Join(a.Close(ctx), k.sum(part), b.Close(ctx), k.sum(part)); err != nil {
		return err
	}
	if a, err = RegisterDevice(ctx, k.c, all); err != nil {
		return err
	}
	return errors.Join(k.held(part.Free()), k.sum(all.Slice(7, staleCount+7)), a.Close(ctx), all.Free())
}
