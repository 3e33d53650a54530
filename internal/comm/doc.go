// Package comm is the inside of a communicator: how it is set up (ranks compare settings,
// measure or read the graph, hear rank 0's plans, open links), the order of its calls, its
// end and its parts, and its ranks' devices. Packages collective and collective/sparse are
// the API around it. A *Comm is not for users; they have a *collective.Comm, of which Of
// returns the inside.
package comm

// Handle is what a type of another package embeds to be a communicator for Of.
type Handle struct{ c *Comm }

// NewHandle returns a handle of c.
func NewHandle(c *Comm) Handle { return Handle{c} }

func (h Handle) comm() *Comm { return h.c }
