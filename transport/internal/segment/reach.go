package segment

import (
	"errors"

	"github.com/treerun/treerun/transport"
)

// Reach reads memory that is another rank's own. A set has it on all ranks or
// on none.
type Reach interface {
	// Address returns what the sender of link k publishes, in a slot, of a
	// window in its own memory.
	Address(k transport.Link, slot int, window []byte) uint64

	// Read copies len(b) bytes, from byte at of what lies at that address of k's
	// sender, to b. It wraps
	// ErrVanished when the sender's process is no longer there. What else is
	// wrong with the address is an error, too: it is the peer's word.
	Read(k transport.Link, slot int, address uint64, at int, b []byte) error
}

// Push writes to memory that is another rank's own: a Reach may be one.
type Push interface {
	// Target returns what the receiver of a payload publishes of the place for it.
	Target(place []byte) uint64

	// Write copies b to such an address of k's receiver. Errors are those of
	// Reach.Read.
	Write(k transport.Link, address uint64, b []byte) error

	// Ended reports whether the process of a rank has ended: nothing of it runs any more.
	Ended(rank int) bool
}

// ErrVanished is returned by a Reach for a process that has ended.
var ErrVanished = errors.New("transport: the process has ended")

// SetReach lets links lend any memory, or if r is nil says why they cannot. It
// is called before the links are used.
func (e *Endpoint) SetReach(r Reach, why string) {
	e.reach, e.noReach = r, why
	e.push, _ = r.(Push)
}

// Reaches reports whether the ranks of the set read each other's own memory.
func (e *Endpoint) Reaches(int) (bool, string) { return e.reach != nil, e.noReach }
