// Package drive runs the sparse AllReduces' protocols between the ranks of a
// communicator: it moves the chunks of merge's streams and the parts of pool over links,
// in the goroutine of the caller, and waits as collectives do. What is in a chunk is the
// protocols' affair; which of them runs, package sparse's, which alone imports it.
package drive

import (
	"errors"
	"fmt"

	"github.com/treerun/treerun/collective/sparse/internal/merge"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
)

// place is that of a rank: its ends of links.
type place struct {
	ep   transport.Endpoint
	rank int
}

func (p *place) at() *place { return p }

// tree is a rank's place in a tree, and the ends of its links.
type tree struct {
	number   int
	node     *merge.Node
	parent   int // -1 at the root
	toParent transport.Sender
	ofParent transport.Receiver
	children []child // by rising rank
	before   int     // children of lower ranks
	busy     bool    // the Node is not done
}

type child struct {
	rank int
	to   transport.Sender
	of   transport.Receiver
	fed  bool // the Node has a chunk of it, which its link still holds
}

// openTree looks up the links of a rank in tree number i: those of lane 2i, up, and 2i+1, down. It may be no
// part of the tree: then there is no Node.
func openTree(ep transport.Endpoint, i int, t topo.Tree, rank int) (tree, error) {
	e := tree{number: i, parent: t.Parent[rank]}
	up, down := 2*i, 2*i+1
	var first, second error
	if e.parent >= 0 {
		e.toParent, first = ep.Sender(up, e.parent)
		e.ofParent, second = ep.Receiver(down, e.parent)
	}
	for v, p := range t.Parent {
		if err := errors.Join(first, second); err != nil {
			return e, fmt.Errorf("sparse: rank %d, tree %d, parent %d, children %v: %w", rank, i, e.parent, e.children, err)
		}
		if p != rank {
			continue
		}
		c := child{rank: v}
		c.to, first = ep.Sender(down, v)
		c.of, second = ep.Receiver(up, v)
		e.children = append(e.children, c)
		if v < rank {
			e.before++
		}
	}
	if e.parent >= 0 || t.Root == rank {
		e.node = merge.NewNode(len(e.children), e.parent < 0)
	}
	return e, errors.Join(first, second)
}

// peerError is what went wrong with the link to or from a rank.
type peerError struct {
	doing string
	peer  int
	err   error
}

func (e *peerError) Error() string {
	return fmt.Sprintf("%s rank %d: %v", e.doing, e.peer, e.err)
}

func (e *peerError) Unwrap() error { return e.err }

func failed(doing string, peer int, err error) error {
	if err == nil {
		return nil
	}
	return &peerError{doing: doing, peer: peer, err: err}
}
