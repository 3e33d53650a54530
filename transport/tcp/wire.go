package tcp

import "github.com/treerun/treerun/transport/internal/osys"

// wire moves bytes to and from the peer without ever blocking. One goroutine
// sends and one receives at a time.
type wire interface {
	// send sends the bytes of v, as far as there is room. It returns osys.ErrAgain when there is none.
	send(v *osys.Vectors) (int, error)
	// recv fills v with available bytes; at the end it returns 0 and no error. It returns osys.ErrAgain when there
	// is nothing yet.
	recv(v *osys.Vectors) (int, error)
	// push sends the bytes that send has taken and not yet sent, and reports whether none are left.
	push() (bool, error)
	// buffersInput reports whether there may be something to receive that the socket
	// does not show.
	buffersInput() bool
}

// plain is the socket itself.
type plain int

func (p plain) send(v *osys.Vectors) (int, error) { return v.Send(int(p)) }
func (p plain) recv(v *osys.Vectors) (int, error) { return v.Recv(int(p)) }
func (p plain) push() (bool, error)               { return true, nil }
func (p plain) buffersInput() bool                { return false }
