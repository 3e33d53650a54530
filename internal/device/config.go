package device

import (
	"errors"
	"fmt"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/transport"
)

// Config is what a Group is made of. All of it stays the caller's, who frees it
// after Close.
type Config struct {
	Layout  *Layout // as this rank sees it
	Device  *cuda.Device
	Kernels Kernels // of Device

	// Staging holds where Device sees the staging memory of ranks: by rank, of
	// this one and of Layout.Sources, Layout.StagingBytes each. Ranks whose
	// number is 0 need none.
	Staging []cuda.Addr

	// Flags is the segment of this host, Layout.FlagBytes, zero before its first
	// rank makes a Group of it, and FlagsAddr where Device sees it. Ranks that
	// have no direct link may have one each.
	Flags     []byte
	FlagsAddr cuda.Addr

	// Endpoint has the relayed links of this rank. nil where it has none. Only the
	// Group uses them.
	Endpoint transport.Endpoint

	// Streams is how many streams the Group makes at most, 0: DefaultStreams.
	Streams int

	// First is what flags count from, 0 but in tests. It is the same on all ranks.
	First uint32

	// Failed, if not nil, is called once, from a goroutine of the Group, when the
	// Group has failed by itself: an error of the device or of the Endpoint, or
	// another rank of the segment has aborted (ErrAborted).
	Failed func(error)
}

// DefaultStreams is how many streams a Group makes unless Config says otherwise,
// or its plans need fewer. A device has 8 to 32 queues for the streams of a
// process.
const DefaultStreams = 16

// The reasons why a Group is of no further use. Err returns what Abort was told,
// or one of these, or an error of the device or the Endpoint.
var (
	ErrClosed  = errors.New("device: the group is closed")
	ErrAborted = errors.New("device: another rank of this host has aborted")
)

func (c *Config) validate() error {
	l := c.Layout
	switch {
	case l == nil || c.Device == nil || c.Kernels == nil:
		return errors.New("device: a group needs a layout, a device and kernels")
	case len(c.Staging) != l.size:
		return fmt.Errorf("device: rank %d: staging memory of %d ranks, want %d", l.rank, len(c.Staging), l.size)
	case len(c.Flags) < l.FlagBytes():
		return fmt.Errorf("device: rank %d: a flag segment of %d bytes, want %d", l.rank, len(c.Flags), l.FlagBytes())
	case c.FlagsAddr == 0:
		return fmt.Errorf("device: rank %d: the flag segment is not registered with the device", l.rank)
	case c.Streams < 0:
		return fmt.Errorf("device: rank %d: %d streams", l.rank, c.Streams)
	}
	for _, r := range append(l.Sources(l.rank), l.rank) {
		if l.staging[r] > 0 && c.Staging[r] == 0 {
			return fmt.Errorf("device: rank %d: no staging memory of rank %d", l.rank, r)
		}
	}
	if c.Endpoint == nil {
		for _, k := range l.Relayed() {
			if k.Src == l.rank || k.Dst == l.rank {
				return fmt.Errorf("device: rank %d: the link of lane %d from rank %d to rank %d needs an endpoint", l.rank, k.Lane,
					k.Src, k.Dst)
			}
		}
	}
	return nil
}
