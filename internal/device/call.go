package device

import (
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/transport"
)

// Call is one execution of a Program. Enqueue copies what it needs.
type Call struct {
	// Header names the call, with Count in elements, of one part where there are
	// parts. It travels with the chunks of relayed links.
	Header transport.Header

	// In is what this rank gives, 0 where its plan never reads it, and Out what it
	// gets, 0 where its plan never writes it. They may be the same memory, as
	// plan.Buf says, and must not change, or be freed, before the stream is through.
	In, Out cuda.Addr

	kernel.Work

	Chunk int // the largest chunk, in bytes, a multiple of 64: the same on all ranks; 0: a slot

	// Lent, if not nil, is where the ranks' buffers lie, so that devices read them
	// there where that spares a copy to a slot. All ranks of the communicator have
	// it in this call, or none.
	Lent *Lent
}

// Lent is where this rank's device sees the buffers of a call's ranks, by rank:
// of those in Layout.Sources, and of no others. A rank that has none has 0.
type Lent struct {
	In, Out []cuda.Addr
	InPlace bool // some rank makes the call in place: the same on all ranks
}

// quantum is the grain, in bytes, of lane shares and chunks. It keeps every
// chunk aligned for the kernels' wide accesses and every element whole.
const quantum = 64

// minChunk is the smallest chunk, in bytes, into which a message is cut for the
// sake of pipelining: what a device moves in about the time that it takes to
// begin with the next step.
const minChunk = 128 << 10
