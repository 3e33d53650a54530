// Package drive runs the sparse AllReduces' protocols between the ranks of a
// communicator: it moves the packets of omni's workers and aggregators, and the
// frames of merge's streams, over links, in the goroutine of the caller, and waits
// as collectives do. What is in a packet is the protocols' affair; which of them
// runs, package sparse's, which alone imports it.
package drive

import (
	"errors"
	"fmt"
	"slices"

	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
)

// Lanes says which links a set of trees has: per tree a lane up, from every rank
// to its parent, and a lane down. Trees that are alike share theirs.
type Lanes struct {
	trees []topo.Tree
	lane  []int // by tree: the first of its two
}

// Add puts a tree into l and returns its number.
func (l *Lanes) Add(t topo.Tree) int {
	lane := 2 * len(l.trees)
	for i, have := range l.trees {
		if slices.Equal(have.Parent, t.Parent) {
			lane = l.lane[i]
			break
		}
	}
	l.trees, l.lane = append(l.trees, t), append(l.lane, lane)
	return len(l.trees) - 1
}

// Layout returns the links of all trees.
func (l *Lanes) Layout(size, slots, slotBytes int) transport.Layout {
	out := transport.Layout{Size: size, Slots: slots, SlotBytes: slotBytes}
	for i, t := range l.trees {
		if l.lane[i] != 2*i {
			continue // another tree's
		}
		for v, p := range t.Parent {
			if p >= 0 {
				out.Links = append(out.Links, transport.Link{Lane: 2 * i, Src: v, Dst: p},
					transport.Link{Lane: 2*i + 1, Src: p, Dst: v})
			}
		}
	}
	return out
}

// Of returns the lanes of tree i, up and down.
func (l *Lanes) Of(i int) (up, down int) { return l.lane[i], l.lane[i] + 1 }

// Most returns the most links that go out of one rank.
func (l *Lanes) Most(size int) int {
	out := make([]int, size)
	layout := l.Layout(size, 2, 64)
	for _, k := range layout.Links {
		out[k.Src]++
	}
	return slices.Max(out)
}

// Links is one rank's ends of the links of all trees. One goroutine at a time
// may use it.
type Links struct {
	rank, size int
	ep         transport.Endpoint
	trees      []ends
}

// ends is a rank's place in a tree.
type ends struct {
	root     int
	parent   int // -1 at the root
	toParent transport.Sender
	ofParent transport.Receiver
	children []child
}

type child struct {
	rank int
	to   transport.Sender
	of   transport.Receiver
}

// Open looks up the links of rank in ep, which was made with the Layout of l.
func Open(ep transport.Endpoint, l *Lanes, rank, size int) (*Links, error) {
	k := &Links{rank: rank, size: size, ep: ep}
	for i, t := range l.trees {
		up, down := l.Of(i)
		e := ends{root: t.Root, parent: t.Parent[rank]}
		var first, second error
		if e.parent >= 0 {
			e.toParent, first = ep.Sender(up, e.parent)
			e.ofParent, second = ep.Receiver(down, e.parent)
		}
		if err := errors.Join(first, second); err != nil {
			return nil, fmt.Errorf("sparse: rank %d, tree %d, parent %d: %w", rank, i, e.parent, err)
		}
		for v, p := range t.Parent {
			if p != rank {
				continue
			}
			c := child{rank: v}
			c.to, first = ep.Sender(down, v)
			c.of, second = ep.Receiver(up, v)
			if err := errors.Join(first, second); err != nil {
				return nil, fmt.Errorf("sparse: rank %d, tree %d, child %d: %w", rank, i, v, err)
			}
			e.children = append(e.children, c)
		}
		k.trees = append(k.trees, e)
	}
	return k, nil
}

// Traffic is what a rank has sent to other ranks and got from them.
type Traffic struct {
	SentBytes, ReceivedBytes       int64 // packets with everything in them
	SentBlocks, ReceivedBlocks     int64
	SentMessages, ReceivedMessages int64
}

func (t *Traffic) sent(n int)     { t.SentBytes += int64(n); t.SentMessages++ }
func (t *Traffic) received(n int) { t.ReceivedBytes += int64(n); t.ReceivedMessages++ }

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
