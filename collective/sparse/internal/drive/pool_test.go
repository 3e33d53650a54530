package drive

import (
	"errors"
	"testing"

	"github.com/treerun/treerun/transport"
)

// keeper is an Endpoint that gives out memory and takes none back.
type keeper struct{ transport.Endpoint }

var errKept = errors.New("kept")

func (keeper) Scratch(n int) ([]byte, error) { return make([]byte, n), nil }
func (keeper) Free([]byte) error             { return errKept }

// Memory that cannot be freed is an error of the call that frees it, and not used any more.
func TestMemoryThatStays(t *testing.T) {
	for name, free := range map[string]func(p *Pool) error{
		"more memory": func(p *Pool) error { _, err := p.Room(1000); return err },
		"trim":        func(p *Pool) error { return p.Trim(0) },
	} {
		p := &Pool{Keep: 10, rankLinks: rankLinks{ep: keeper{}}}
		if b, err := p.Room(100); len(b) < 100 || err != nil {
			t.Fatal(len(b), err)
		}
		if err := free(p); !errors.Is(err, errKept) || len(p.part) > 0 {
			t.Errorf("%s: %v, %d bytes in use", name, err, len(p.part))
		}
	}
}
