//go:build cgo && linux

package collective

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
)

// TestDeviceTimes measures AllReduce on ranks with a GPU each, or on two ranks with one GPU, per call of several in a
// row: the time of the processors for the calls (host), of the device by its own clock (device), and of the caller
// until it has the results (wall); and the caller's time for a single call (alone). It records its figures as
// attributes, like the probes in package cuda.
func TestDeviceTimes(t *testing.T) {
	ranks := 2
	if n, _ := cuda.HostGPUs(); fakegpu.Real() {
		ranks = max(n, ranks)
	}
	if !asProcesses(t, ranks, "dgx1v/0-1") {
		return
	}
	sizes, inARow := []int{8, 4 << 10, 64 << 10}, 3
	if os.Getenv(fakegpu.Variable) == "" {
		sizes, inARow = append(sizes, 256<<10, 1<<20, 4<<20, 16<<20, 64<<20, 256<<20), 20
	}
	mustRunOnDevice(t, func(c *Comm, s *cuda.Stream) error {
		for _, bytes := range sizes {
			if err := times(t, c, s, bytes, inARow); err != nil {
				return fmt.Errorf("%d bytes: %w", bytes, err)
			}
		}
		return nil
	})
}

// times measures AllReduces of random numbers.
func times(t *testing.T, c *Comm, s *cuda.Stream, bytes, inARow int) (err error) {
	ctx, dev := t.Context(), s.Device()
	var e [2]*cuda.Event
	var x [2]cuda.Slice[float32]
	host := make([]float32, bytes/4)
	for i := range host {
		host[i] = rand.Float32()
	}
	for i := range x {
		if x[i], err = cuda.Alloc[float32](dev, len(host)); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, x[i].Free()) }()
		if e[i], err = dev.NewEvent(true); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, e[i].Close()) }()
	}
	call := func(n int) (err error) {
		for range n {
			err = errors.Join(err, AllReduceDevice(ctx, c, s, x[0], x[1], Sum))
		}
		return err
	}
	if err := errors.Join(x[0].CopyFrom(ctx, s, host), call(3), c.SyncDevice(ctx, s), Barrier(ctx, c)); err != nil {
		return err
	}
	began, used := time.Now(), processors()
	err = errors.Join(s.Record(e[0]), call(inARow), s.Record(e[1]))
	used = processors() - used
	if err = errors.Join(err, c.SyncDevice(ctx, s)); err != nil {
		return err
	}
	wall := time.Since(began)
	device, err := e[1].Since(e[0])
	if err := errors.Join(err, Barrier(ctx, c)); err != nil {
		return err
	}
	alone := make([]time.Duration, inARow)
	for i := range alone {
		began := time.Now()
		if err := errors.Join(call(1), c.SyncDevice(ctx, s)); err != nil {
			return err
		}
		alone[i] = time.Since(began)
	}
	slices.Sort(alone)
	if c.Rank() > 0 {
		return nil
	}
	n := time.Duration(inARow)
	for name, d := range map[string]time.Duration{"host": used / n, "device": device / n, "wall": wall / n,
		"alone": alone[inARow/2]} {
		t.Attr(fmt.Sprint(bytes, "-", name), fmt.Sprintf("%.2f us", float64(d.Nanoseconds())/1e3))
	}
	moved := 2 * float64(c.Size()-1) / float64(c.Size()) * float64(bytes)
	t.Attr(fmt.Sprint(bytes, "-busbw"), fmt.Sprintf("%.3f GB/s", moved/(device/n).Seconds()/1e9))
	return nil
}

// processors returns the processor time that this process has used.
func processors() time.Duration {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
