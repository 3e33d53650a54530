package collective

import (
	"fmt"

	"github.com/treerun/treerun/internal/kernel"
)

// Alloc returns n zero elements in memory that all ranks of this host can read in place: calls of c on it, or on parts
// of it, do not copy into and out of the links from some kilobytes on. Every rank may call it, any number of times, and
// only the ranks that do benefit.
//
// The memory belongs to c, and only calls of c benefit. The caller may use it until Free, or until the process ends;
// Close of c does not free it. If one of the ranks has a limit on its addresses (ulimit -v), Alloc returns ordinary
// memory, and calls copy it. Any goroutine may call Alloc and Free.
func Alloc[T any](c *Comm, n int) ([]T, error) {
	elem := sizeOf[T]()
	if dtypeOf[T]() == 0 {
		return nil, c.inner().ArgumentError("Alloc", "%s", unmovable[T]())
	}
	if n < 0 || n > maxAlloc/elem || c == nil {
		return nil, c.inner().ArgumentError("Alloc", "%d elements", n)
	}
	if n == 0 {
		return []T{}, nil
	}
	if c.inner().Setup.HeapBytes == 0 {
		return make([]T, n), nil
	}
	b, err := c.inner().Endpoint.Alloc(n * elem)
	if err != nil {
		return nil, fmt.Errorf("collective: Alloc of %d bytes on rank %d: %w", n*elem, c.inner().Rank, err)
	}
	return elementsOf[T](b), nil
}

// Free frees memory that Alloc returned, before c is closed. The memory must not be used any more, nor by a call in
// flight.
func Free[T any](c *Comm, s []T) error {
	if len(s) == 0 || c.inner().Setup.HeapBytes == 0 {
		return nil
	}
	if err := c.inner().Endpoint.Free(kernel.BytesOf(s)); err != nil {
		return fmt.Errorf("collective: Free on rank %d: %w", c.inner().Rank, err)
	}
	return nil
}

// maxAlloc bounds one Alloc, in bytes.
const maxAlloc = 1 << 46
