package peers

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/treerun/treerun/cuda"
)

// The bytes that ranks read of each other's memory to find out whether they can, and the time limit for it, in slices:
// 2 s.
const (
	CheckBytes    = 256
	checkPatience = 4
)

// Check tries to read other devices' memory, without measuring: the driver's report is not enough, as containers,
// IOMMUs and switches of PCIe also decide.
type Check struct {
	Probe   Probe // for the others
	buffers *buffers
}

// Probe is memory with a pattern that others try to read.
type Probe struct {
	Memory Offer
	Seed   uint64 // of the pattern
}

// NewCheck makes a check as one of the given number of ranks. The caller closes it when all ranks have read.
func NewCheck(ctx context.Context, dev *cuda.Device, ranks int) (*Check, error) {
	k, err := buffersOf(dev, int64(1+ranks)*CheckBytes, CheckBytes, checkPatience)
	if err != nil {
		return nil, err
	}
	c := &Check{Probe: Probe{Seed: rand.Uint64()}, buffers: k}
	if err = k.fill(ctx, k.patternOf(c.Probe.Seed, 0)); err == nil {
		c.Probe.Memory, err = OfferOf(dev, k.source.Addr())
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Read reads the pattern of a rank, where this rank's device can reach it, and writes its own there, as rank self.
// After ErrHung the check can do nothing more.
func (c *Check) Read(ctx context.Context, theirs *Probe, self int) error {
	k := c.buffers
	at, mapping, err := theirs.Memory.Open(k.dev, k.bytes)
	if err != nil {
		return err
	}
	if err = k.pull(ctx, at, CheckBytes); err == nil {
		err = k.compare(ctx, k.target(), k.patternOf(theirs.Seed, 0))
	}
	if err == nil {
		err = k.copy(ctx, at+cuda.Addr(1+self)*CheckBytes, k.source.Addr(), CheckBytes)
	}
	if errors.Is(err, ErrHung) {
		return err
	}
	return errors.Join(err, mapping.Close())
}

// Arrived returns an error unless the pattern that rank r wrote is in this rank's memory.
func (c *Check) Arrived(ctx context.Context, theirs *Probe, r int) error {
	k := c.buffers
	return k.compare(ctx, k.source.Slice((1+r)*CheckBytes, (2+r)*CheckBytes), k.patternOf(theirs.Seed, 0))
}

// Close gives the memory back. c may be nil.
func (c *Check) Close() error {
	if c == nil {
		return nil
	}
	return c.buffers.close()
}
