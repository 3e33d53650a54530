package merge

import (
	"fmt"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
)

// Job is one tensor, or the part of it that one tree carries, on one rank of the tree.
type Job struct {
	Tensor uint32 // its number, the same on all ranks
	Grid   block.Grid
	Op     kernel.Op
	DType  kernel.DType
	Blocks block.Set // the non-zero blocks of Send, of those that the tree carries
	Send   []byte    // the tensor; only read. Nil at a root that only adds up others' blocks
	Alone  bool      // no other rank has a tensor: blocks that it has not sent get no zeros added
	Thin   bool      // blocks are sent without their zeros where they have many
	Before int       // number of children whose blocks are added before own ones
	Recv   []byte    // gets the blocks of the result, partial ones before; may be the same memory as Send
	// Union gets the blocks of the result that the tree carried; nil: not needed.
	Union block.Set
	// Finder adds blocks to Blocks during the merge; nil: they are all there.
	Finder Finder
}

// Finder finds a rank's blocks piece by piece, in their order, for all trees.
type Finder interface {
	// Known returns the block before which all blocks have been searched.
	Known() int
	// Find searches some more blocks. Precondition: not all are known.
	Find()
}

// Node is one rank's place in one tree. It runs one Job after the other (Begin). One goroutine at a time may use it.
// The caller drives it until Done:
//
//   - while NeedsChunk(child): Feed the child's next chunk. It must not change until the Node needs the child's next
//     one, or is Done;
//   - Merge, which makes the reductions, a bounded piece at a time;
//   - below the root: send chunks that Up composes to the parent, and pass chunks of the parent to Down;
//   - send chunks that ToChild composes to the child.
//
// Chunks of a link arrive in the order in which they were composed. With several trees, each rank should begin with a
// different tree, and serve the trees in turn, a chunk of each: if all begin with tree 0, its root's card gets all of
// the first chunks (up to 15 % in the simulation of the package's tests). An error is a block.ErrProtocol or
// block.ErrMismatch, after which the Node is unusable.
type Node struct {
	children int
	root     bool
	job      Job
	counts   block.Counts

	in    []input   // own blocks, then the children
	sole  []uint16  // by block: 1 + the child that alone had it, 0 otherwise; valid for merged blocks
	have  block.Set // blocks merged here
	parts [][]byte  // scratch: sources of a reduction
	later kernel.Pieces

	merged []result // runs for the parent, in Recv
	up     outlet   // progress of sending
	upNext uint32   // the next block, as the last chunk for the parent announced
	upEnd  bool     // it was the last one

	log       []result // result to be sent down, as far as it is known
	promise   int      // the block of the result after the log, past the last at the end
	hasResult bool     // the parent has sent a chunk
	final     int      // blocks of the result before it are in Recv
	down      []outlet // by child
	incoming  []run    // memory for a chunk of the parent
	outgoing  []run    // memory for a chunk to write
	thin      block.Thin
}

// outlet is the progress of sending a log.
type outlet struct {
	at, off int // entry, and blocks of it; the last entry may still grow
	ended   bool
}

// pending returns the next run of log to be sent, without blocks if all is sent.
func (o *outlet) pending(log []result) result {
	if o.at < len(log)-1 && o.off == log[o.at].n {
		o.at, o.off = o.at+1, 0
	}
	if o.at >= len(log) {
		return result{}
	}
	e := log[o.at]
	return result{e.first + o.off, e.n - o.off, e.sole}
}

// result is a run of blocks whose value is known, with their only source.
type result struct {
	first, n int
	sole     uint16
}

// NewNode returns the place of a rank with the given number of children, the root or one below it.
func NewNode(children int, root bool) *Node {
	return &Node{children: children, root: root}
}

// Begin starts a Job. Preconditions: the previous one is Done; Send and Recv have the bytes of the Grid, Blocks its
// words; Op is Sum, Min or Max: a block that is not sent is no factor of a product.
func (n *Node) Begin(j Job) error {
	if err := j.Grid.Validate(); err != nil {
		return err
	}
	if size := j.Grid.Bytes(); len(j.Send) != size && !(j.Send == nil && n.root) || len(j.Recv) != size ||
		len(j.Blocks) != block.Words(j.Grid.Blocks()) {
		return fmt.Errorf("merge: tensor %d of %d bytes with buffers of %d and %d bytes and %d words of blocks", j.Tensor,
			size, len(j.Send), len(j.Recv), len(j.Blocks))
	}
	blocks := j.Grid.Blocks()
	n.job, n.counts = j, block.Counts{}
	n.in = block.Sized(n.in, n.children+1)
	n.in[0] = input{set: j.Blocks, finder: j.Finder, blocks: blocks, started: true}
	n.in[0].own(0)
	for i := range n.in[1:] {
		n.in[1+i] = input{memory: n.in[1+i].memory, thin: n.in[1+i].thin}
	}
	if n.children > 0 {
		n.sole, n.have = block.Sized(n.sole, blocks), block.Sized(n.have, block.Words(blocks))
		clear(n.have)
	}
	n.merged, n.up, n.upNext, n.upEnd = n.merged[:0], outlet{}, 0, n.root
	n.log, n.promise, n.hasResult, n.final = n.log[:0], 0, n.root, 0
	n.down = block.Sized(n.down, n.children)
	clear(n.down)
	return nil
}

// Done reports whether Recv has the result and every chunk that other ranks wait for was composed.
func (n *Node) Done() bool {
	if !n.upEnd || n.promise < infinity {
		return false
	}
	for _, d := range n.down {
		if !d.ended {
			return false
		}
	}
	return true
}

// Counts returns the counts since Begin.
func (n *Node) Counts() block.Counts { return n.counts }

func (n *Node) chunkError(origin string, err error) error {
	return fmt.Errorf("merge: tensor %d, chunk of %s: %w", n.job.Tensor, origin, err)
}
