// Package comm is the inside of a communicator: the order of its calls and messages, its end,
// its parts, and what it does with its ranks' devices. What it stands on is made by package
// setup, the devices are opened by package device. Packages collective and collective/sparse
// are the API around it. A *Comm is not for users; they have a *collective.Comm, of which Of
// returns the inside.
package comm

// Handle is what a type of another package embeds to be a communicator for Of.
type Handle struct{ c *Comm }

// NewHandle returns a handle of c.
func NewHandle(c *Comm) Handle { return Handle{c} }

func (h Handle) comm() *Comm { return h.c }
