package sparse

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/kernel"
)

// stage is where blocks of device memory are while the ranks exchange them: pinned
// memory of the host, with the tensor's blocks in their places and nothing of worth
// in between. A communicator has one, from its first call on device memory on.
type stage struct {
	device  *cuda.Device
	kernels *kernels.Set
	done    *cuda.Event // the latest call's work on the stage

	host   *cuda.Pinned[uint8]
	sets   *cuda.Pinned[uint64] // what this rank has, and then what any rank has
	bitmap cuda.Slice[uint64]   // either of them, as kernels see it
}

// stageFor makes a stage on a device, or the one there is large enough for a tensor.
func (s *state) stageFor(dev *cuda.Device, g block.Grid) (err error) {
	if s.stage == nil {
		n := &stage{device: dev}
		if n.kernels, err = kernels.Load(dev, kernels.Blocks); err != nil {
			return err
		}
		if n.done, err = dev.NewEvent(false); err != nil {
			return errors.Join(err, n.kernels.Close())
		}
		s.stage = n
		s.c.OnClose(n.close)
	}
	n := s.stage
	bytes, words := g.Bytes(), block.Words(g.Blocks())
	if n.host != nil && len(n.host.Host()) >= bytes && n.bitmap.Len() >= words {
		return nil
	}
	if err := n.free(); err != nil {
		return err
	}
	if n.host, err = cuda.AllocPinned[uint8](dev, bytes); err != nil {
		return fmt.Errorf("pinned memory for the blocks of %d bytes: %w", bytes, err)
	}
	if n.sets, err = cuda.AllocPinned[uint64](dev, 2*words); err != nil {
		return err
	}
	n.bitmap, err = cuda.Alloc[uint64](dev, words)
	return err
}

// drainMax is how long a stage waits for the work of its last call.
const drainMax = 5 * time.Second

// free gives the memory back, when no work uses it any more.
func (n *stage) free() error {
	within, cancel := context.WithTimeout(context.Background(), drainMax)
	defer cancel()
	if err := n.done.Synchronize(within); err != nil && within.Err() != nil {
		return err // the device still uses the memory, which stays
	}
	var errs []error
	if n.host != nil {
		errs = append(errs, n.host.Free())
	}
	if n.sets != nil {
		errs = append(errs, n.sets.Free())
	}
	errs = append(errs, n.bitmap.Free())
	n.host, n.sets, n.bitmap = nil, nil, cuda.Slice[uint64]{}
	return errors.Join(errs...)
}

func (n *stage) close() error {
	return errors.Join(n.free(), n.done.Close(), n.kernels.Close())
}

// tensor returns the memory of a tensor's blocks.
func (n *stage) tensor(g block.Grid) []byte { return n.host.Host()[:g.Bytes():g.Bytes()] }

// set returns one of the two sets, of so many words.
func (n *stage) set(from, words int) block.Set { return n.sets.Host()[from : from+words : from+words] }

// find puts the search for the blocks that count into stream s, and the copy of what
// it finds to the host.
func (n *stage) find(s *cuda.Stream, send cuda.Addr, dt kernel.DType, g block.Grid) error {
	bytes := int64(8 * block.Words(g.Blocks()))
	at := n.bitmap.Addr()
	return errors.Join(
		s.Wait(n.done), // the latest call may have been on another stream
		s.Memset(at, 0, bytes),
		n.kernels.NonZero(s, dt, at, send, int64(g.Elements), int64(g.Size)),
		s.Memcpy(n.sets.Addr(), at, bytes),
		s.Record(n.done))
}

// gather puts the copy of the blocks that were found into stream s.
func (n *stage) gather(s *cuda.Stream, send cuda.Addr, dt kernel.DType, g block.Grid) error {
	return errors.Join(
		n.kernels.CopyBlocks(s, dt, n.host.Addr(), send, n.bitmap.Addr(), int64(g.Elements), int64(g.Size),
			false),
		s.Record(n.done))
}

// scatter puts the copy of the result's blocks into stream s, with zeros around them.
func (n *stage) scatter(s *cuda.Stream, recv cuda.Addr, dt kernel.DType, g block.Grid) error {
	words := block.Words(g.Blocks())
	return errors.Join(
		s.Memcpy(n.bitmap.Addr(), n.sets.Addr()+cuda.Addr(8*words), int64(8*words)),
		n.kernels.CopyBlocks(s, dt, recv, n.host.Addr(), n.bitmap.Addr(), int64(g.Elements), int64(g.Size),
			true),
		s.Record(n.done))
}
