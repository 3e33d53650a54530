package cuda

import (
	"cmp"
	"fmt"
	"runtime"

	"github.com/treerun/treerun/cuda/internal/driver"
)

// Addr is an address that devices understand: of device memory, or of pinned
// host memory as devices see it. 0 is none. Bytes are counted: a+4 is the next
// 32-bit word.
type Addr = driver.Addr

// Stream is a queue of work for one device, done in order. Its methods only put work at the end, except where they are
// documented to wait. Errors of the work itself come from later calls, at the latest from Synchronize. Query reports
// whether all work is done, and Synchronize waits for that. Close ends a stream once its work is done, and does not
// wait for that.
type Stream struct {
	*progress
	handle driver.Stream
}

// NewStream makes a stream.
func (d *Device) NewStream() (*Stream, error) { return d.newStream(0) }

func (d *Device) newStream(priority int) (*Stream, error) {
	c, err := d.context()
	if err != nil {
		return nil, err
	}
	h, r := c.NewStream(priority)
	if r != driver.Success {
		return nil, failed(d, "cuStreamCreateWithPriority", "", r)
	}
	return &Stream{d.progress(c, kindStream, h.Destroy, h.Query), h}, nil
}

// WrapStream makes a Stream of a CUstream that another library has made in the primary context of d, as CUDA's runtime
// does: work that is put into it comes behind that library's earlier work, and before its later work. The stream stays
// the library's, which destroys it after Close; until then it must live, as the driver may crash on an invalid handle.
// Close ends its use here and leaves it alone. The default streams, 0 to 2, are refused: work that waits in them holds
// up others. A stream of another device or context is ErrWrongDevice.
func WrapStream(d *Device, handle uintptr) (*Stream, error) {
	refuse := func(why error) (*Stream, error) {
		return nil, fmt.Errorf("cuda: use the stream %#x on %s: %w", handle, d, why)
	}
	const perThread = 2 // CU_STREAM_PER_THREAD, the last of them
	if handle <= perThread {
		return refuse(fmt.Errorf("%w: it is a default stream", ErrNotSupported))
	}
	c, err := d.context()
	if err != nil {
		return nil, err
	}
	h := driver.Stream(handle)
	switch of, r := h.Context(c); {
	case r != driver.Success:
		return refuse(failed(d, "cuStreamGetCtx", "", r))
	case of != c:
		return refuse(fmt.Errorf("%w: it is a stream of another device, or of a context of its own", ErrWrongDevice))
	}
	keep := func(driver.Context) driver.Result { return driver.Success }
	return &Stream{d.progress(c, kindStream, keep, h.Query), h}, nil
}

// Handle returns the driver's CUstream, for other libraries. It is valid until
// Close, which the collector leaves to the caller from now on.
func (s *Stream) Handle() uintptr {
	s.lent.Store(true)
	return uintptr(s.handle)
}

// CheckUncaptured returns an error where s is closed, or is being captured by another library that
// has its Handle: work for it would become part of a CUDA graph.
func (s *Stream) CheckUncaptured() error {
	if err := s.Check(); err != nil {
		return err
	}
	if r := s.handle.Uncaptured(s.context); r == driver.CaptureUnsupported {
		return s.done("cuStreamIsCapturing", r, nil)
	}
	return nil // a device that fails returns its error when it is given work
}

// done makes an error of r, the result of a driver's call. what describes the arguments; it is nil where there are
// none. s is kept alive until then.
func (s *Stream) done(call string, r driver.Result, what func() string) error {
	runtime.KeepAlive(s.progress)
	if r == driver.Success || what == nil {
		return failed(s.device, call, "", r)
	}
	return failed(s.device, call, what(), r)
}

// Wait makes s wait for the work before the last Record of e, in whichever
// stream, device or process that was. An event never recorded is not waited
// for.
func (s *Stream) Wait(e *Event) error {
	if err := s.with(e.resource); err != nil {
		return err
	}
	r := s.handle.WaitEvent(s.context, e.handle)
	runtime.KeepAlive(e.progress)
	return s.done("cuStreamWaitEvent", r, nil)
}

// Record makes e stand for all work that is in s now. e must be of the same
// device.
func (s *Stream) Record(e *Event) error {
	if err := s.with(e.resource); err != nil {
		return err
	}
	if e.device != s.device {
		return fmt.Errorf("cuda: record an event of %s in a stream of %s: %w", e.device, s.device, ErrWrongDevice)
	}
	r := e.handle.Record(s.context, s.handle)
	runtime.KeepAlive(e.progress)
	return s.done("cuEventRecord", r, nil)
}

// with checks that s and something else are open.
func (s *Stream) with(other *resource) error { return cmp.Or(s.Check(), other.Check()) }

// MemOp sets the 32-bit word at Addr to Value, after all that the stream did before is
// visible to all devices and the host; or it waits until the word has reached Value, as
// int32(word-Value) >= 0: counters may wrap. The word is device memory or pinned memory,
// divisible by 4, and may be written by any stream, device or host thread.
type MemOp = driver.MemOp

// MaxMemOps is the largest number of operations of one call of MemOps.
const MaxMemOps = driver.MaxBatch

// MemOps does several operations in one call of the driver, for less than they
// cost one by one. They are done in order. Only where Device.TryStreamMemOps.
func (s *Stream) MemOps(ops []MemOp) error {
	if len(ops) == 0 {
		return nil
	}
	if len(ops) > MaxMemOps {
		return fmt.Errorf("cuda: %d operations in one call on a stream of %s, at most %d: %w", len(ops), s.device,
			MaxMemOps, ErrOutOfRange)
	}
	if err := s.Check(); err != nil {
		return err
	}
	return s.done("cuStreamBatchMemOp", s.handle.Batch(s.context, ops), nil)
}

// checkSize checks that s is open, and the number of bytes of an operation.
func (s *Stream) checkSize(operation string, n int64) error {
	if err := s.Check(); err != nil || n >= 0 {
		return err
	}
	return fmt.Errorf("cuda: %s %d bytes on %s: %w", operation, n, s.device, ErrOutOfRange)
}

// Memcpy copies n bytes from src to dst: device memory of any device or
// process, or pinned memory, both as devices see it. The two may not overlap.
// An address that the driver does not know counts as ordinary memory of this
// process: with a wrong one the process may crash.
// Between devices without access to each other it goes through the host.
func (s *Stream) Memcpy(dst, src Addr, n int64) error {
	if err := s.checkSize("copy of", n); err != nil || n == 0 {
		return err
	}
	return s.done("cuMemcpyAsync", s.handle.Copy(s.context, dst, src, n), func() string {
		return fmt.Sprintf("of %d bytes from %#x to %#x", n, uint64(src), uint64(dst))
	})
}

// Memset sets n bytes at dst to v.
func (s *Stream) Memset(dst Addr, v byte, n int64) error {
	if err := s.checkSize("set", n); err != nil || n == 0 {
		return err
	}
	return s.done("cuMemsetD8Async", s.handle.Set(s.context, dst, v, n), func() string {
		return fmt.Sprintf("of %d bytes at %#x", n, uint64(dst))
	})
}

// Launch runs k with grid blocks of block threads each. args is the one
// parameter that it takes, a struct as the device sees it; it is copied.
func (s *Stream) Launch(k *Kernel, grid, block uint32, args []byte) error {
	if err := s.with(k.module.resource); err != nil {
		return err
	}
	if k.module.device != s.device {
		return fmt.Errorf("cuda: launch kernel %s of %s in a stream of %s: %w", k.name, k.module.device, s.device,
			ErrWrongDevice)
	}
	if len(args) > driver.MaxArgs {
		return fmt.Errorf("cuda: launch kernel %s on %s: %d bytes of arguments, at most %d: %w", k.name, s.device,
			len(args), driver.MaxArgs, ErrOutOfRange)
	}
	r := s.handle.Launch(s.context, k.handle, grid, block, args)
	runtime.KeepAlive(k)
	return s.done("cuLaunchKernel", r, func() string {
		return fmt.Sprintf("of %s with %d blocks of %d threads", k.name, grid, block)
	})
}
