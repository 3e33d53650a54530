package cuda

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/cuda/internal/driver"
)

// Hold keeps device memory for somebody who knows it by its address, such as other
// processes that have it mapped: an address alone does not tell whether the memory
// is still the same.
type Hold struct {
	memory *memory
	at     Addr
	by     string
}

// Hold holds the memory of s, which is not empty, for somebody whose name is by, until
// Release: Free is ErrHeld meanwhile, and the collector leaves the memory alone. Memory
// of Wrap is not this package's to keep: there Check tells whether it is the same.
func (s Slice[T]) Hold(by string) (*Hold, error) {
	h := &Hold{memory: s.memory, at: s.Addr(), by: by}
	if err := h.Check(); err != nil {
		return nil, err
	}
	if r := s.memory.r; r != nil {
		r.mu.Lock()
		r.holds = append(r.holds, h)
		r.mu.Unlock()
	}
	return h, nil
}

// Check returns an error that wraps ErrFreed when the memory was freed, whatever lies
// at its address now.
func (h *Hold) Check() error {
	m := h.memory
	if m.r != nil {
		return m.r.Check()
	}
	p, err := m.device.describe(h.at)
	if err == nil && (p.Kind != driver.DeviceMemory && !p.Managed || p.ID != m.id) {
		err = fmt.Errorf("cuda: memory at %#x of %s, which this package has not allocated, was %w", uint64(h.at), m.device,
			ErrFreed)
	}
	return err
}

// Release ends the hold. A second Release does nothing.
func (h *Hold) Release() {
	if r := h.memory.r; r != nil {
		r.mu.Lock()
		r.holds = slices.DeleteFunc(r.holds, func(other *Hold) bool { return other == h })
		r.mu.Unlock()
	}
}

// holder returns who holds r, "" if nobody does.
func (r *resource) holder() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.holds) == 0 {
		return ""
	}
	return r.holds[0].by
}
