package sparse

import (
	"context"
	"errors"
	"time"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/kernel"
)

// stage is host and device memory for the blocks of device tensors during an exchange. A communicator has one, from its
// first call on device memory on; its size is that of the largest calls.
type stage struct {
	device  *cuda.Device
	kernels *kernels.Set
	done    *cuda.Event // recorded after the latest call's work on the stage

	sets   *cuda.Pinned[uint64] // by own, united and before
	bits   cuda.Slice[uint64]   // the same, as kernels address them
	host   *cuda.Pinned[uint8]  // the tensor's blocks in their places, and undefined bytes in between
	packed cuda.Slice[uint8]    // in the form Compact, the blocks of the union
}

// The sets of a call.
const (
	own    = iota // blocks of this rank
	united        // blocks of the union
	before        // as written by count
	sets
)

// stageFor makes a stage on a device, or reuses the existing one, with room for sets of the given number of words.
func (s *state) stageFor(dev *cuda.Device, words int) (err error) {
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
	if n.bits.Len() >= sets*words {
		return nil
	}
	if err := n.drain(); err != nil {
		return err
	}
	if n.sets, err = pinned(dev, n.sets, sets*words); err != nil {
		return err
	}
	n.bits, err = grown(dev, n.bits, sets*words)
	return err
}

// vector is the number of bytes that a kernel moves at once, from addresses that are multiples of it.
const vector = 16

// pinned returns old, or pinned memory in its place, with n elements. Nothing uses old any more.
func pinned[T cuda.Number](dev *cuda.Device, old *cuda.Pinned[T], n int) (*cuda.Pinned[T], error) {
	if old != nil {
		if len(old.Host()) >= n {
			return old, nil
		}
		if err := old.Free(); err != nil {
			return old, err
		}
	}
	return cuda.AllocPinned[T](dev, n)
}

// grown is like pinned for device memory.
func grown[T cuda.Number](dev *cuda.Device, old cuda.Slice[T], n int) (cuda.Slice[T], error) {
	if old.Len() >= n {
		return old, nil
	}
	if err := old.Free(); err != nil {
		return old, err
	}
	return cuda.Alloc[T](dev, n)
}

// drainMax is the maximum time that a stage waits for the work of its last call.
const drainMax = 5 * time.Second

// drain waits until no work uses the memory any more.
func (n *stage) drain() error {
	within, cancel := context.WithTimeout(context.Background(), drainMax)
	defer cancel()
	if err := n.done.Synchronize(within); err != nil && within.Err() != nil {
		return err // the device still uses the memory, which stays
	}
	return nil
}

func (n *stage) close() error {
	errs := []error{n.drain()}
	if errs[0] == nil {
		errs = append(errs, n.bits.Free(), n.packed.Free())
		if n.sets != nil {
			errs = append(errs, n.sets.Free())
		}
		if n.host != nil {
			errs = append(errs, n.host.Free())
		}
	}
	return errors.Join(append(errs, n.done.Close(), n.kernels.Close())...)
}

// tensor returns the memory of a tensor's blocks.
func (n *stage) tensor(g block.Grid) []byte { return n.host.Host()[:g.Bytes():g.Bytes()] }

// set returns one of the sets, of the given number of words. at returns its address for kernels.
func (n *stage) set(which, words int) block.Set {
	return n.sets.Host()[which*words : (which+1)*words : (which+1)*words]
}

func (n *stage) at(which, words int) cuda.Addr { return n.bits.Addr() + cuda.Addr(8*which*words) }

// uploadSets enqueues, in stream s, the copy to the device of number sets, the first of which is from.
func (n *stage) uploadSets(s *cuda.Stream, from, number, words int) error {
	return s.Memcpy(n.at(from, words), n.sets.Addr()+cuda.Addr(8*from*words), int64(8*number*words))
}

// find enqueues, in stream s, the search for the non-zero blocks, and the copy of the set to the host.
func (n *stage) find(s *cuda.Stream, send cuda.Addr, dt kernel.DType, g block.Grid) error {
	size, elements := int64(g.Size), int64(g.Elements)
	return errors.Join(
		s.Wait(n.done), // the latest call may have been on another stream
		n.kernels.NonZero(s, dt, n.bits.Addr(), send, elements, size),
		s.Memcpy(n.sets.Addr(), n.bits.Addr(), kernels.BitmapBytes(elements, size)),
		s.Record(n.done))
}

// gather enqueues, in stream s, the copy of the blocks that were found.
func (n *stage) gather(s *cuda.Stream, send cuda.Addr, dt kernel.DType, g block.Grid) (err error) {
	if n.host, err = pinned(n.device, n.host, g.Bytes()); err != nil {
		return err
	}
	return errors.Join(
		n.kernels.CopyBlocks(s, dt, n.host.Addr(), send, n.bits.Addr(), int64(g.Elements), int64(g.Size), false),
		s.Record(n.done))
}

// scatter enqueues, in stream s, the copy of the result's blocks, and zeros around them.
func (n *stage) scatter(s *cuda.Stream, recv cuda.Addr, dt kernel.DType, g block.Grid) error {
	words := block.Words(g.Blocks())
	return errors.Join(
		n.uploadSets(s, united, 1, words),
		n.kernels.CopyBlocks(s, dt, recv, n.host.Addr(), n.at(united, words), int64(g.Elements), int64(g.Size), true),
		s.Record(n.done))
}

// compact enqueues, in stream s, the packing of the blocks of the union, of the given number of bytes, and returns
// their location: its offset from a multiple of a vector is that of the tensor.
func (n *stage) compact(s *cuda.Stream, dt kernel.DType, send cuda.Addr, bytes int, g block.Grid) (c kernels.Compaction,
	err error) {
	if n.packed, err = grown(n.device, n.packed, bytes+vector); err != nil {
		return c, err
	}
	words := block.Words(g.Blocks())
	c = kernels.Compaction{Whole: send, Packed: n.packed.Addr() + send%vector, Own: n.at(own, words),
		Any: n.at(united, words), Before: n.at(before, words), Elements: int64(g.Elements), Block: int64(g.Size)}
	return c, errors.Join(n.uploadSets(s, united, sets-united, words), n.kernels.Compact(s, dt, c), s.Record(n.done))
}

// expand enqueues, in stream s, the copy of the packed blocks to their places, and zeros around them.
func (n *stage) expand(s *cuda.Stream, dt kernel.DType, c kernels.Compaction) error {
	return errors.Join(n.kernels.Expand(s, dt, c), s.Record(n.done))
}
