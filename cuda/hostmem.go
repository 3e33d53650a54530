package cuda

import (
	"fmt"
	"math"

	"github.com/treerun/treerun/cuda/internal/driver"
)

// Pinned is host memory that all devices of this process can use until Close; copies of it are the fastest.
type Pinned[T Number] struct {
	*resource
	host []T
	addr Addr
}

// Registered is host memory of the caller's that devices can use until Close; it stays
// the caller's.
type Registered = Pinned[byte]

// AllocPinned allocates n > 0 elements of pinned host memory, in the context of d.
func AllocPinned[T Number](d *Device, n int) (*Pinned[T], error) {
	size := sizeOf[T]()
	if n <= 0 || int64(n) > math.MaxInt64/size {
		return nil, fmt.Errorf("cuda: allocate %d elements of %d bytes of pinned memory: %w", n, size, ErrOutOfRange)
	}
	c, err := d.context()
	if err != nil {
		return nil, err
	}
	bytes := n * int(size)
	b, r := c.AllocHost(bytes)
	if r != driver.Success {
		return nil, failed(d, "cuMemHostAlloc", fmt.Sprintf("of %d bytes", bytes), r)
	}
	return pin(&Pinned[T]{host: ofBytes[T](b, n)}, &resource{device: d, context: c, kind: kindPinned,
		release: func(c driver.Context) driver.Result { return c.FreeHost(b) }})
}

// RegisterHost pins b and lets all devices of this process use it. b is memory of the system, such as a mapping that
// processes share: not memory of Go's. It begins at a page and stays mapped until Close. It counts towards the limit on
// locked memory (ulimit -l).
func (d *Device) RegisterHost(b []byte) (*Registered, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("cuda: register no memory with %s: %w", d, ErrOutOfRange)
	}
	c, err := d.context()
	if err != nil {
		return nil, err
	}
	if r := c.RegisterHost(b); r != driver.Success {
		return nil, failed(d, "cuMemHostRegister", fmt.Sprintf("of %d bytes", len(b)), r)
	}
	return pin(&Registered{host: b}, &resource{device: d, context: c, kind: kindRegistered,
		release: func(c driver.Context) driver.Result { return c.UnregisterHost(b) }})
}

// pin completes p, whose memory is pinned.
func pin[T Number](p *Pinned[T], memory *resource) (*Pinned[T], error) {
	var r driver.Result
	if p.addr, r = memory.context.HostAddr(bytesOf(p.host)); r != driver.Success {
		memory.release(memory.context)
		return nil, failed(memory.device, "cuMemHostGetDevicePointer", "", r)
	}
	p.resource = own(p, memory)
	return p, nil
}

// Host returns the memory as the host sees it, valid until Free or until
// nothing refers to p. nil after Free.
func (p *Pinned[T]) Host() []T {
	if p.closed.Load() {
		return nil
	}
	return p.host
}

// Addr returns the memory as devices see it; 0 after Free.
func (p *Pinned[T]) Addr() Addr {
	if p.closed.Load() {
		return 0
	}
	return p.addr
}

// Free is Close.
func (p *Pinned[T]) Free() error { return p.Close() }
