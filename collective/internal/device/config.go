package device

import (
	"errors"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/transport"
)

// Config holds the resources of a Group. All of them remain the caller's, which frees them after Close.
type Config struct {
	Layout  *Layout // the layout, as this rank sees it
	Device  *cuda.Device
	Kernels Kernels // the kernels of Device

	// Slots is where Device sees the slots of every link that this rank fills or reads, 0 for those of
	// others and those of network links.
	Slots []cuda.Addr

	// Near reports whether the staging memory of a rank is that of Device.
	Near func(rank int) bool

	// Flags is the segment of this host, zero before its first
	// rank makes a Group of it, and FlagsAddr where Device sees it. Ranks that
	// have only network links may have one each.
	Flags     []byte
	FlagsAddr cuda.Addr

	// Endpoint has the network links of this rank. nil where it has none. Only the
	// Group uses them.
	Endpoint transport.Endpoint

	// Streams is the largest number of streams that the Group makes, 0: defaultStreams. There are fewer, or none and every
	// call stays on its own, where other Groups of the device have its queues.
	Streams int

	// First is the value that flags count from, 0 except in tests. It is the same on all ranks.
	First uint32

	// Failed, if not nil, is called once, from a goroutine of the Group, when the
	// Group has failed by itself: an error of the device or of the Endpoint, or
	// another rank of the segment has aborted (ErrAborted).
	Failed func(error)

	// Watch, if not nil, is called by a goroutine of the Group, now and then while calls
	// are under way, and once when they are done.
	Watch func()
}

// defaultStreams is the number of streams that a Group makes unless Config has another one, or its plans need fewer.
const defaultStreams = 16

// The reasons why a Group is unusable. Err returns the error given to Abort, or one of these, or an error of the device
// or the Endpoint.
var (
	errClosed  = errors.New("device: the group is closed")
	ErrAborted = errors.New("device: another rank of this host has aborted")
)
