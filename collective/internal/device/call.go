package device

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
)

// Call is one execution of a Program. Enqueue copies the values that it needs.
type Call struct {
	// Header names the call, with Count in elements, of one part where there are
	// parts. It travels with the chunks of network links.
	Header call.Header

	// In is the input of this rank, 0 where its plan never reads it, and Out its output, 0 where its plan never writes it.
	// They may be the same memory, as described at plan.Buf, and must not change, or be freed, before the stream has
	// passed the call.
	In, Out cuda.Addr

	kernel.Work

	Chunks plan.Chunks // how the message is cut: the same on all ranks. Min 0: minChunk
}

// minChunk is the smallest chunk, in bytes, into which a message is cut for pipelining: a device moves it in about the
// time that it needs to begin the next step.
const minChunk = 128 << 10
