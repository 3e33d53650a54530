package cuda

import (
	"context"
	"fmt"
	"math"
	"runtime"

	"github.com/treerun/treerun/cuda/internal/driver"
)

// Number is the constraint of the elements of device memory: numbers of fixed size, and bools. The 16-bit ones stand
// for half-precision types as well.
type Number interface {
	~int8 | ~uint8 | ~int16 | ~uint16 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~int | ~uint | ~float32 | ~float64 |
		~complex64 | ~complex128 | ~bool
}

// memory is a range of device memory that slices share.
type memory struct {
	device *Device
	base   Addr
	r      *resource // nil for memory that another owner frees
}

// Slice is device memory as Go's slices are memory: a small value, copies and parts of which refer to the same
// elements. The zero Slice has no elements. The memory stays as long as a Slice of it is in use, or until Free; an Addr
// alone does not keep it.
type Slice[T Number] struct {
	memory *memory
	first  int
	count  int
}

// Alloc allocates n elements of device memory, which are not set to anything.
// The driver aligns it to 256 bytes at least.
func Alloc[T Number](d *Device, n int) (Slice[T], error) {
	size := sizeOf[T]()
	if n < 0 || int64(n) > math.MaxInt64/size {
		return Slice[T]{}, fmt.Errorf("cuda: allocate %d elements of %d bytes on %s: %w", n, size, d, ErrOutOfRange)
	}
	c, err := d.context()
	if err != nil {
		return Slice[T]{}, err
	}
	if n == 0 {
		return Slice[T]{memory: &memory{device: d}}, nil
	}
	bytes := int64(n) * size
	a, r := c.Alloc(bytes)
	if r != driver.Success {
		return Slice[T]{}, failed(d, "cuMemAlloc", fmt.Sprintf("of %d bytes", bytes), r)
	}
	m := &memory{device: d, base: a}
	m.r = own(m, &resource{device: d, context: c, kind: kindMemory, bytes: bytes,
		release: func(c driver.Context) driver.Result { return c.Free(a) }})
	return Slice[T]{memory: m, count: n}, nil
}

// Wrap makes a Slice of n elements of device memory that another library has allocated and will free, or another
// process (Mapping). It returns ErrNotDeviceMemory for host memory and for memory that the driver does not know,
// ErrWrongDevice where the memory is another device's, and ErrOutOfRange where the allocation ends before n elements.
func Wrap[T Number](d *Device, a Addr, n int) (Slice[T], error) {
	size := sizeOf[T]()
	refuse := func(why error) (Slice[T], error) {
		return Slice[T]{}, fmt.Errorf("cuda: use %d elements of %d bytes at %#x as memory of %s: %w", n, size, uint64(a), d,
			why)
	}
	switch {
	case n < 0 || int64(n) > math.MaxInt64/size:
		return refuse(ErrOutOfRange)
	case n == 0:
		return Slice[T]{memory: &memory{device: d}}, nil
	case int64(a)%size != 0:
		return refuse(fmt.Errorf("the address is not a multiple of %d", size))
	}
	p, err := d.describe(a)
	switch {
	case err != nil:
		return refuse(err)
	case p.Kind == driver.HostMemory && !p.Managed:
		return refuse(fmt.Errorf("%w but pinned host memory", ErrNotDeviceMemory))
	case p.Kind != driver.DeviceMemory && !p.Managed:
		return refuse(fmt.Errorf("%w: host memory, or freed", ErrNotDeviceMemory))
	case int(p.Device) != d.index && !p.Managed:
		return refuse(fmt.Errorf("%w: it is memory of device %d", ErrWrongDevice, p.Device))
	}
	if need := int64(n) * size; p.Size != 0 && uint64(a)-p.Start+uint64(need) > p.Size {
		return refuse(fmt.Errorf("%w: the allocation has %d bytes from there on, %d are needed", ErrOutOfRange,
			p.Start+p.Size-uint64(a), need))
	}
	return Slice[T]{memory: &memory{device: d, base: a}, count: n}, nil
}

// describe returns the driver's description of an address.
func (d *Device) describe(a Addr) (driver.Pointer, error) {
	c, err := d.context()
	if err != nil {
		return driver.Pointer{}, err
	}
	p, r := c.Describe(a)
	return p, failed(d, "cuPointerGetAttributes", fmt.Sprintf("of %#x", uint64(a)), r)
}

// Len returns the number of elements.
func (s Slice[T]) Len() int { return s.count }

// Bytes returns the size in bytes.
func (s Slice[T]) Bytes() int64 { return int64(s.count) * sizeOf[T]() }

// Addr returns the address of the first element; 0 where there is none, or the memory was freed. A caller that uses it
// must keep s (runtime.KeepAlive) meanwhile.
func (s Slice[T]) Addr() Addr {
	if s.count == 0 || s.Check() != nil {
		return 0
	}
	return s.memory.base + Addr(int64(s.first)*sizeOf[T]())
}

// Device returns the device whose memory it is, nil for the zero Slice.
func (s Slice[T]) Device() *Device {
	if s.memory == nil {
		return nil
	}
	return s.memory.device
}

// Check returns an error that wraps ErrFreed when the memory was freed.
func (s Slice[T]) Check() error {
	if s.memory == nil || s.memory.r == nil {
		return nil
	}
	return s.memory.r.Check()
}

// Slice returns the elements from i to j-1, as s[i:j] would. Like that, it
// panics when 0 <= i <= j <= Len does not hold.
func (s Slice[T]) Slice(i, j int) Slice[T] {
	if i < 0 || j < i || j > s.count {
		panic(fmt.Sprintf("cuda: Slice(%d, %d) of %d elements", i, j, s.count))
	}
	s.first += i
	s.count = j - i
	return s
}

// Free gives the whole allocation back that s is a part of: all Slices of it
// end. It waits for work on the device that uses it, so nothing may wait for
// this goroutine meanwhile. A second Free does nothing, nor does it for memory
// of Wrap.
func (s Slice[T]) Free() error {
	if s.memory == nil || s.memory.r == nil {
		return nil
	}
	return s.memory.r.Close()
}

// CopyFrom copies src to s, which has as many elements, in order with the other
// work of stream, and waits until that is done. When ctx ends before, src may
// have been copied or not, and must not be changed until stream is at its end.
func (s Slice[T]) CopyFrom(ctx context.Context, stream *Stream, src []T) error {
	return s.transfer(ctx, stream, src, "copy from the host", "cuMemcpyHtoDAsync", func(host []byte) driver.Result {
		return stream.handle.CopyIn(stream.context, s.Addr(), host)
	})
}

// CopyTo copies s to dst, which has as many elements, in order with the other
// work of stream, and waits until that is done. When ctx ends before, dst may
// change until stream is at its end.
func (s Slice[T]) CopyTo(ctx context.Context, stream *Stream, dst []T) error {
	return s.transfer(ctx, stream, dst, "copy to the host", "cuMemcpyDtoHAsync", func(host []byte) driver.Result {
		return stream.handle.CopyOut(stream.context, host, s.Addr())
	})
}

// transfer makes start put a copy of or to host memory into stream, and waits for it. It waits before, too, since the
// driver blocks a caller that copies ordinary memory behind other work, and no context ends that. host stays pinned
// until the copy is done, whatever happens to ctx.
func (s Slice[T]) transfer(ctx context.Context, stream *Stream, host []T, what, call string,
	start func([]byte) driver.Result) error {
	if len(host) != s.count {
		return fmt.Errorf("cuda: %s: %d elements on the device, %d on the host: %w", what, s.count, len(host), ErrOutOfRange)
	}
	if err := s.Check(); err != nil {
		return err
	}
	if err := stream.Check(); err != nil || len(host) == 0 {
		return err
	}
	if err := stream.Synchronize(ctx); err != nil {
		return err
	}
	var pin runtime.Pinner
	pin.Pin(&host[0])
	err := stream.done(call, start(bytesOf(host)), func() string { return fmt.Sprintf("of %d bytes", s.Bytes()) })
	if err != nil {
		pin.Unpin()
		return err
	}
	err = stream.Synchronize(ctx)
	if err == nil || ctx.Err() == nil {
		pin.Unpin()
		runtime.KeepAlive(s.memory)
		return err
	}
	go func() { // the device still reads or writes host
		_ = poll(context.Background(), stream.Query)
		pin.Unpin()
		runtime.KeepAlive(s.memory)
	}()
	return err
}
