package device

import (
	"github.com/treerun/treerun/collective/plan"
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

	Chunks plan.Chunks // how the message is cut: the same on all ranks. Min 0: minChunk
}

// quantum is the grain, in bytes, of lane shares and chunks. It keeps every
// chunk aligned for the kernels' wide accesses and every element whole.
const quantum = 64

// minChunk is the smallest chunk, in bytes, into which a message is cut for the
// sake of pipelining: what a device moves in about the time that it takes to
// begin with the next step.
const minChunk = 128 << 10
