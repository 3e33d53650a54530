package segment

import (
	"errors"
)

// Reach reads and writes memory that is another rank's own. A set has it on all ranks or on none. An error other than
// ErrVanished means that the system does not allow it to this rank, now or any more: the sender then passes lent
// payloads through slots.
type Reach interface {
	// Address returns the address that this rank publishes for a window in its own memory.
	Address(window []byte) uint64

	// Read fills b from such an address of a rank. It wraps ErrVanished when the rank's process is no
	// longer there.
	Read(rank int, address uint64, b []byte) error

	// Write copies b to such an address of a rank. Errors are those of Read.
	Write(rank int, address uint64, b []byte) error

	// Ended reports whether the process of a rank has ended: no thread of it runs any more.
	Ended(rank int) bool
}

// ErrVanished is returned by a Reach for a process that has ended.
var ErrVanished = errors.New("transport: the process has ended")

// SetReach lets links lend any memory, or if r is nil records why they cannot. It is called before the links are used.
func (e *Endpoint) SetReach(r Reach, why string) { e.reach, e.noReach = r, why }

// Reaches reports whether the ranks of the set read each other's own memory.
func (e *Endpoint) Reaches(int) (bool, string) { return e.reach != nil, e.noReach }
