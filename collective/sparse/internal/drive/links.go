// Package drive runs the protocols of sparse AllReduces between the ranks of a communicator: it moves the chunks of
// merge's streams and the parts of pool over links, in the goroutine of the caller, and waits in the same way as
// collectives. The protocols define the contents of chunks, and package sparse, the only importer, selects the
// protocol.
package drive

import (
	"errors"

	"github.com/treerun/treerun/collective/sparse/internal/merge"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
)

// rankLinks is a rank with its ends of links.
type rankLinks struct {
	ep   transport.Endpoint
	rank int
}

func (p *rankLinks) at() *rankLinks { return p }

// tree is a rank's place in a tree, and the ends of its links.
type tree struct {
	number   int
	node     *merge.Node
	parent   peer   // of rank -1 at the root
	children []peer // by rising rank
	before   int    // children of lower ranks
	busy     bool   // the Node is not done
}

// peer is a rank at the other end of links.
type peer struct {
	rank int
	to   transport.Sender
	of   transport.Receiver
	fed  bool // the Node, or this step of a Pool, uses the message that its link still holds
}

// openPeer looks up the links to and from a rank, by their lanes.
func openPeer(ep transport.Endpoint, rank, to, of int) (peer, error) {
	p := peer{rank: rank}
	var first, second error
	p.to, first = ep.Sender(to, rank)
	p.of, second = ep.Receiver(of, rank)
	return p, transport.OnLink(errors.Join(first, second), "links with", rank)
}

// openTree looks up the links of a rank in tree number i. If the rank is no part of the tree there is no Node.
func openTree(ep transport.Endpoint, i int, t topo.Tree, rank int) (e tree, err error) {
	e.number, e.parent.rank = i, t.Parent[rank]
	up, down := 2*i, 2*i+1
	if e.parent.rank >= 0 {
		if e.parent, err = openPeer(ep, e.parent.rank, up, down); err != nil {
			return e, err
		}
	}
	for v, p := range t.Parent {
		if p != rank {
			continue
		}
		c, err := openPeer(ep, v, down, up)
		if err != nil {
			return e, err
		}
		e.children = append(e.children, c)
		if v < rank {
			e.before++
		}
	}
	if e.parent.rank >= 0 || t.Root == rank {
		e.node = merge.NewNode(len(e.children), e.parent.rank < 0)
	}
	return e, nil
}
