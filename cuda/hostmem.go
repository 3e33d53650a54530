package cuda

import (
	"fmt"
	"math"

	"github.com/treerun/treerun/cuda/internal/driver"
)

// Pinned is host memory that all devices of this process can use, and that
// copies run fastest with.
type Pinned[T Number] struct {
	r    *resource
	host []T
	addr Addr
}

// AllocPinned allocates n > 0 elements of pinned host memory. d is the device
// whose context does it.
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
	a, r := c.HostAddr(b)
	if r != driver.Success {
		c.FreeHost(b)
		return nil, failed(d, "cuMemHostGetDevicePointer", "", r)
	}
	p := &Pinned[T]{host: ofBytes[T](b, n), addr: a, r: &resource{
		device: d, context: c, kind: kindPinned, call: "cuMemFreeHost",
		release: func(c driver.Context) driver.Result { return c.FreeHost(b) },
	}}
	own(p, p.r)
	return p, nil
}

// Host returns the memory as the host sees it, valid until Free or until
// nothing refers to p. nil after Free.
func (p *Pinned[T]) Host() []T {
	if p.r.closed.Load() {
		return nil
	}
	return p.host
}

// Addr returns the memory as devices see it; 0 after Free.
func (p *Pinned[T]) Addr() Addr {
	if p.r.closed.Load() {
		return 0
	}
	return p.addr
}

// Free gives the memory back; no work may use it any more. A second Free does
// nothing.
func (p *Pinned[T]) Free() error {
	return p.r.Close()
}

// Registered is host memory of the caller's that devices can use until Close; it stays
// the caller's.
type Registered struct {
	*resource
	addr Addr
}

// RegisterHost pins b and lets all devices of this process use it. b is memory
// that the system gave, such as a mapping that processes share: not memory of
// Go's. It begins at a page and stays mapped until Close. The limit on locked
// memory counts it (ulimit -l).
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
	a, r := c.HostAddr(b)
	if r != driver.Success {
		c.UnregisterHost(b)
		return nil, failed(d, "cuMemHostGetDevicePointer", "", r)
	}
	g := &Registered{addr: a, resource: &resource{
		device: d, context: c, kind: kindRegistered, call: "cuMemHostUnregister",
		release: func(c driver.Context) driver.Result { return c.UnregisterHost(b) },
	}}
	own(g, g.resource)
	return g, nil
}

// Addr returns the memory as devices see it; 0 after Close.
func (g *Registered) Addr() Addr {
	if g.closed.Load() {
		return 0
	}
	return g.addr
}
