package collective

import (
	"fmt"

	"github.com/treerun/treerun/internal/kernel"
)

// Alloc returns n zero elements in memory that all ranks of this host can read
// where it lies: calls of c on it, or on parts of it, from some kilobytes on,
// are spared the copies into and out of the links. Every rank may call it, any
// number of times, and only those that do have the advantage.
//
// The memory belongs to c, whose calls alone profit from it. It is the caller's
// until Free, or until the process ends; closing c does not end it. Where the
// addresses of one of the ranks are limited (ulimit -v) it is ordinary memory, and calls
// copy it. Any goroutine may call
// Alloc and Free.
func Alloc[T Number](c *Comm, n int) ([]T, error) {
	elem := dtypeOf[T]().Size()
	if n < 0 || n > maxAlloc/elem || c == nil {
		return nil, c.inner().ArgumentError("Alloc", "%d elements", n)
	}
	if n == 0 {
		return []T{}, nil
	}
	if c.inner().Plans.HeapBytes == 0 {
		return make([]T, n), nil
	}
	b, err := c.inner().Endpoint.Alloc(n * elem)
	if err != nil {
		return nil, fmt.Errorf("collective: Alloc of %d bytes on rank %d: %w", n*elem, c.inner().Rank, err)
	}
	return elementsOf[T](b), nil
}

// Free gives back what Alloc returned, before c is closed. Nobody may use it
// any more, nor a call that is under way.
func Free[T Number](c *Comm, s []T) error {
	if len(s) == 0 || c.inner().Plans.HeapBytes == 0 {
		return nil
	}
	if err := c.inner().Endpoint.Free(kernel.BytesOf(s)); err != nil {
		return fmt.Errorf("collective: Free on rank %d: %w", c.inner().Rank, err)
	}
	return nil
}

// maxAlloc bounds one Alloc, in bytes.
const maxAlloc = 1 << 46
