package merge

import (
	"fmt"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
)

// Job is one tensor, or the part of it that one tree carries, as one rank of the
// tree has it.
type Job struct {
	Tensor uint32 // its number, the same on all ranks
	Grid   block.Grid
	Op     kernel.Op
	DType  kernel.DType
	Blocks block.Set // the non-zero blocks of Send, of those that the tree carries
	Send   []byte    // the tensor; only read. Nil at a root that only adds up what others have
	Alone  bool      // no other rank has a tensor: what it has not sent is nobody's zeros
	Thin   bool      // blocks travel without their zeros where they have many
	Before int       // how many children's blocks are added before own ones
	Recv   []byte    // gets the blocks of the result, partial ones before; may be the very memory of Send
	// Union gets the blocks of the result that the tree carried; nil: nobody asks.
	Union block.Set
	// Finder puts blocks into Blocks while others travel; nil: they are all there.
	Finder Finder
}

// Finder finds a rank's blocks piece by piece, in their order, for all trees.
type Finder interface {
	// Known returns before which block all have been looked at.
	Known() int
	// Find looks at some more. Precondition: not all are known.
	Find()
}

// Node is one rank's place in one tree. It goes from Job to Job (Begin). One
// goroutine at a time may use it. The caller drives it until Done:
//
//   - while Hungry(child): Feed the child's next chunk. It must stay as it is
//     until the Node is Hungry for the child's next one, or Done;
//   - Merge, which does the reductions, a bounded piece at a time;
//   - below the root: whatever Up composes goes to the parent, and what comes
//     from the parent to Down;
//   - what ToChild composes goes to the child.
//
// Chunks of a link come in the order in which they were composed. Where there are
// several trees, a rank does well to begin with another tree than the others, and
// to take the trees in turn, a chunk of each: if all begin with tree 0, its root's
// card gets all of the first chunks (up to 15 % in the simulation of the package's
// tests). An error is an block.ErrProtocol or block.ErrMismatch, after which the Node is of no
// further use.
type Node struct {
	children int
	root     bool
	job      Job
	counts   block.Counts

	in    []input   // own blocks, then the children
	sole  []uint16  // by block: 1 + the child that alone had it, 0 otherwise; valid for merged blocks
	have  block.Set // blocks merged here
	parts [][]byte  // scratch: what is reduced
	later kernel.Pieces

	merged []result // runs for the parent, in Recv
	up     outlet   // how far they have been sent
	upNext uint32   // what the last chunk for the parent said is next
	upEnd  bool     // it was the last one

	log      []result // what goes down, as far as it is known
	promise  int      // which block of the result comes after the log, past the last at the end
	heard    bool     // the parent has sent a chunk
	final    int      // blocks of the result before it are in Recv
	down     []outlet // by child
	incoming []run    // memory for a chunk of the parent
	outgoing []run    // memory for a chunk to write
	thin     block.Thin
}

// outlet is how far a log has been sent.
type outlet struct {
	at, off int // entry, and blocks of it; the last entry may still grow
	ended   bool
}

// pending returns what of log is to be sent next, no blocks if all is.
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

// NewNode returns the place of a rank with so many children, the root or one
// below it.
func NewNode(children int, root bool) *Node {
	return &Node{children: children, root: root}
}

// Begin starts a Job. Preconditions: that before it is Done; Send and Recv have
// the bytes of the Grid, Blocks its words; Op is Sum, Min or Max: a block that is not sent is no
// factor of a product.
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
	n.in[0] = input{set: j.Blocks, finder: j.Finder, blocks: blocks, heard: true}
	n.in[0].own(0)
	for i := range n.in[1:] {
		n.in[1+i] = input{memory: n.in[1+i].memory, thin: n.in[1+i].thin}
	}
	if n.children > 0 {
		n.sole, n.have = block.Sized(n.sole, blocks), block.Sized(n.have, block.Words(blocks))
		clear(n.have)
	}
	n.merged, n.up, n.upNext, n.upEnd = n.merged[:0], outlet{}, 0, n.root
	n.log, n.promise, n.heard, n.final = n.log[:0], 0, n.root, 0
	n.down = block.Sized(n.down, n.children)
	clear(n.down)
	return nil
}

// Done reports whether Recv has the result and everything was composed that
// others wait for.
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

// Counts returns what was sent and received since Begin.
func (n *Node) Counts() block.Counts { return n.counts }

func (n *Node) refuse(who string, err error) error {
	return fmt.Errorf("merge: tensor %d, chunk of %s: %w", n.job.Tensor, who, err)
}
