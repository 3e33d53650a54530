// Package kernels is not for users: it combines, scales, copies and searches arrays in the memory of a GPU: the
// operations of package internal/kernel on the host, with the same bits in every result. The kernels are written in the
// small common part of CUDA and C++ (*.cu) and need no header of the toolkit. Their PTX is part of this package, and
// the driver compiles it for its GPU. go generate makes the PTX again.
//
// The package knows neither ranks nor messages. Package collective and its
// internals use it; it imports package cuda, and the element types and operations of
// internal/kernel.
//
// # Arrays
//
// Arrays begin at any address that is a multiple of their element size, in
// memory that the stream's device can reach: its own, a peer's, or pinned memory.
// A result may be the very memory of a source; apart from that results do not overlap
// with anything. The methods of a Set put work into a stream and return: errors of the
// work itself come from the stream. Nothing but the arrays is read or written.
package kernels

//go:generate ../../scripts/ptx.sh .

import (
	"strings"

	"github.com/treerun/treerun/internal/kernel"
)

// The files of kernels that are not those of an element type.
const (
	Copies = "copy"
	Blocks = "blocks"
)

// Of returns the file with the kernels of an element type: integers of a size share one.
func Of(d kernel.DType) string { return strings.TrimPrefix(d.String(), "u") }
