package omni

import (
	"encoding/binary"
	"fmt"

	"github.com/treerun/treerun/collective/sparse/internal/block"
)

// Node is a rank's place in the star of one aggregator, which is the root: there it is the Aggregator, and
// the Worker of that rank, if it has one; elsewhere the Worker of the rank, as far as its
// streams are with this aggregator. It is driven as a merge.Node is.
type Node struct {
	worker   *Worker // nil: this rank only aggregates
	agg      *Aggregator
	children []int // at the root: the workers below it
	queue    []int // streams for which the worker has a packet
	open     int   // streams of the worker that have not ended
	counts   block.Counts
	packet   []byte // of the worker at the root
	result   []byte // of the aggregator, for all children; nil: none
}

// NewNode returns the place of a rank with this worker, nil for none. agg is the aggregator if
// the rank is the root, with the workers that are its children.
func NewNode(worker *Worker, agg *Aggregator, children []int) *Node {
	return &Node{worker: worker, agg: agg, children: children}
}

// Begin starts the next tensor, which the Worker has begun. aggregator is the number of that in
// this star.
func (n *Node) Begin(aggregator int, tensor uint32, s Shape) error {
	n.counts, n.open, n.queue = block.Counts{}, 0, n.queue[:0]
	if n.worker != nil {
		for stream := aggregator; stream < s.Live(); stream += s.Aggregators {
			n.queue = append(n.queue, stream)
			n.open++
		}
	}
	if n.agg == nil {
		return nil
	}
	if len(n.packet) < s.MaxPacket() {
		n.packet = make([]byte, s.MaxPacket())
	}
	return n.agg.Begin(tensor, s)
}

// Done reports whether worker and aggregator are done, and the children have been sent all results.
func (n *Node) Done() bool {
	return n.open == 0 && n.result == nil && (n.agg == nil || n.agg.Done())
}

// Counts returns what was sent and received since Begin.
func (n *Node) Counts() block.Counts { return n.counts }

// Hungry reports whether a packet of the child is awaited, and can be taken in.
func (n *Node) Hungry(child int) bool {
	return n.result == nil && n.agg.Awaits(n.children[child])
}

// Feed gives the aggregator a packet of a child.
func (n *Node) Feed(_ int, packet []byte) error {
	answer, err := n.agg.Handle(packet)
	n.counts.ReceivedBlocks += blocksOf(packet)
	if err != nil {
		return err
	}
	return n.pass(answer.Packet)
}

// pass takes in what the aggregator has answered, nil if that is nothing.
func (n *Node) pass(result []byte) error {
	if len(n.children) > 0 {
		n.result = result
	}
	if result == nil || n.worker == nil {
		return nil
	}
	return n.store(result)
}

// Merge gives the aggregator a packet of the worker at the root, if there is one.
func (n *Node) Merge(int) bool {
	if n.agg == nil || n.result != nil || len(n.queue) == 0 {
		return false
	}
	answer, err := n.agg.Handle(n.packet[:n.compose(n.packet)])
	if err == nil {
		err = n.pass(answer.Packet)
	}
	if err != nil {
		panic(fmt.Sprintf("omni: worker and aggregator of one rank differ: %v", err))
	}
	return true
}

// compose composes the worker's next packet.
func (n *Node) compose(window []byte) int {
	stream := n.queue[0]
	n.queue = n.queue[:copy(n.queue, n.queue[1:])]
	return n.worker.Compose(stream, window)
}

// LeastWindow returns how many bytes a window must have at least for a packet.
func (n *Node) LeastWindow() int {
	if n.worker == nil {
		return n.agg.shape.MaxPacket()
	}
	return n.worker.shape.MaxPacket()
}

// Window returns how large a packet for the aggregator may be, of at most so many bytes.
func (n *Node) Window(most int) int { return most }

// Up composes the next packet for the aggregator, and returns its size, 0 if there is none.
func (n *Node) Up(window []byte) int {
	if len(n.queue) == 0 {
		return 0
	}
	size := n.compose(window)
	n.counts.SentBlocks += blocksOf(window)
	n.counts.SentBytes += size
	return size
}

// Listens reports whether the aggregator has still to send a result: one that is done may be gone.
func (n *Node) Listens() bool { return n.agg == nil && n.open > 0 }

// Down gives the worker a result.
func (n *Node) Down(packet []byte) error {
	n.counts.ReceivedBlocks += blocksOf(packet)
	return n.store(packet)
}

// store gives the worker a result.
func (n *Node) store(result []byte) error {
	step, err := n.worker.Handle(result)
	n.counts.Union += blocksOf(result)
	if step.Send {
		n.queue = append(n.queue, step.Stream)
	}
	if step.Ended {
		n.open--
	}
	return err
}

// ToChildren writes the result that is for all children, and returns its size, 0 if there is none.
func (n *Node) ToChildren(window []byte) int {
	if n.result == nil {
		return 0
	}
	size := copy(window, n.result)
	n.counts.SentBlocks += len(n.children) * blocksOf(n.result)
	n.result = nil
	return size
}

// ToChild is ToChildren for an only child: what several get is the same.
func (n *Node) ToChild(_ int, window []byte) int {
	if len(n.children) > 1 {
		return 0
	}
	return n.ToChildren(window)
}

// blocksOf returns how many blocks a packet says it carries.
func blocksOf(packet []byte) int {
	if len(packet) < HeaderBytes {
		return 0
	}
	return int(binary.LittleEndian.Uint16(packet[2:]))
}
