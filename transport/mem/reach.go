package mem

import "github.com/treerun/treerun/transport"

var _ transport.SharedHeap = (*endpoint)(nil)

// Scratch is Alloc: memory of goroutines goes when nothing refers to it.
func (e *endpoint) Scratch(n int) ([]byte, error) { return e.Alloc(n) }

// reach is how goroutines read each other's memory: by the slice itself, which
// the link's words order like a payload, so that the race detector sees it all.
type reach map[transport.Link][][]byte

func newReach(l *transport.Layout) reach {
	r := make(reach, len(l.Links))
	for _, k := range l.Links {
		r[k] = make([][]byte, l.Slots)
	}
	return r
}

// Address keeps the window. There is nothing to publish.
func (r reach) Address(k transport.Link, slot int, window []byte) uint64 {
	r[k][slot] = window
	return 0
}

// Read copies what the sender lent.
func (r reach) Read(k transport.Link, slot int, _ uint64, at int, b []byte) error {
	copy(b, r[k][slot][at:])
	return nil
}
