package peers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/treerun/treerun/cuda"
)

const (
	maxBytes     = 16 << 20  // of a copy that is timed
	minBytes     = 1 << 20   // where there is little memory
	plenty       = 128 << 20 // free bytes of a device that has enough for maxBytes
	patternBytes = 1 << 20
)

// ErrHung is the end of all work on a device: when any memory is freed, including the caller's, the driver waits for
// the copy.
var ErrHung = errors.New("the copy does not end")

var errRefused = errors.New("the driver does not let these GPUs reach each other's memory")

// A copy that is measured gets patience times slice, 10 s: others may use the GPU at the same time, and a link that
// works must not be left out for that. A process that was stopped does not take its own absence for the GPU's.
const slice = 500 * time.Millisecond

var patience = 20 // tests of links that hang have less

// attempts is the number of hanging copies after which a rank tries no more links.
const attempts = 2

// buffers are the memory, streams and events of a rank's measurements. Everything is allocated before anything is
// tried: while a copy hangs the driver may wait for it when it allocates.
type buffers struct {
	dev      *cuda.Device
	bytes    int64             // of each of its parts
	pattern  int64             // bytes of these that hold a pattern
	patience int               // slices that a copy gets
	source   cuda.Slice[uint8] // read by other ranks
	targets  cuda.Slice[uint8] // destinations of copies, one part for each attempt
	streams  [attempts]*cuda.Stream
	from, to *cuda.Event
	hung     int  // attempts that are spent
	inUse    bool // a copy of another rank may still use memory
}

// newBuffers makes the buffers of a rank. Ranks that share a GPU see the same free memory and then take it together, so
// a rank that finds too little uses buffers of the least size.
func newBuffers(dev *cuda.Device) (*buffers, error) {
	free, err := dev.FreeMemory()
	if err != nil {
		return nil, fmt.Errorf("%v: %w", dev, err)
	}
	if free >= plenty {
		k, err := buffersOf(dev, maxBytes, patternBytes, patience)
		if !errors.Is(err, cuda.ErrOutOfMemory) {
			return k, err
		}
	}
	return buffersOf(dev, minBytes, patternBytes, patience)
}

// buffersOf makes buffers for copies of that many bytes; nothing is left of one that
// cannot be made.
func buffersOf(dev *cuda.Device, bytes, pattern int64, patience int) (_ *buffers, err error) {
	k := &buffers{dev: dev, bytes: bytes, pattern: pattern, patience: patience}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%v: %w", dev, errors.Join(err, k.close()))
		}
	}()
	if k.source, err = AllocBlocks(dev, k.bytes); err != nil {
		return nil, err
	}
	if k.targets, err = cuda.Alloc[uint8](dev, int(attempts*k.bytes)); err != nil {
		return nil, err
	}
	for i := range k.streams {
		if k.streams[i], err = dev.NewStream(); err != nil {
			return nil, err
		}
	}
	if k.from, err = dev.NewEvent(true); err != nil {
		return nil, err
	}
	k.to, err = dev.NewEvent(true)
	return k, err
}

// abandoned keeps, for the rest of the process, everything that hanging copies may still use: to give it back would
// wait for them forever.
var abandoned sync.Map

// close gives everything back, unless something may still be used. k may be nil.
func (k *buffers) close() error {
	if k == nil {
		return nil
	}
	if k.hung > 0 || k.inUse {
		abandoned.Store(k, true)
		return nil
	}
	var all []error
	for _, s := range k.streams {
		if s != nil {
			all = append(all, s.Close())
		}
	}
	for _, e := range []*cuda.Event{k.from, k.to} {
		if e != nil {
			all = append(all, e.Close())
		}
	}
	return errors.Join(append(all, k.source.Free(), k.targets.Free())...)
}

// spent reports whether all attempts are used up: too many copies hang.
func (k *buffers) spent() bool { return k.hung == attempts }

func (k *buffers) stream() *cuda.Stream { return k.streams[k.hung] }

// target is the destination of the next copy.
func (k *buffers) target() cuda.Slice[uint8] {
	return k.targets.Slice(k.hung*int(k.bytes), (k.hung+1)*int(k.bytes))
}

// patternOf returns the pattern of a rank in a turn, which others read.
func (k *buffers) patternOf(number uint64, rank int) []byte {
	g := rand.New(rand.NewPCG(number+1, uint64(rank)+1))
	b := make([]byte, k.pattern)
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], g.Uint64())
	}
	return b
}

// fill writes a pattern to the memory that others read.
func (k *buffers) fill(ctx context.Context, pattern []byte) error {
	if k.spent() {
		return nil
	}
	return k.source.Slice(0, int(k.pattern)).CopyFrom(ctx, k.stream(), pattern)
}

// pull copies n bytes of a peer's memory.
func (k *buffers) pull(ctx context.Context, from cuda.Addr, n int64) error {
	if err := k.stream().Memset(k.target().Addr(), 0xa5, k.pattern); err != nil {
		return err
	}
	return k.copy(ctx, k.target().Addr(), from, n)
}

// copy copies n bytes, and waits.
func (k *buffers) copy(ctx context.Context, to, from cuda.Addr, n int64) error {
	if err := k.stream().Memcpy(to, from, n); err != nil {
		return err
	}
	return k.wait(ctx)
}

// compare compares the beginning of this rank's memory with a pattern.
func (k *buffers) compare(ctx context.Context, memory cuda.Slice[uint8], pattern []byte) error {
	if k.spent() {
		return ErrHung
	}
	got := make([]byte, k.pattern)
	if err := memory.Slice(0, len(got)).CopyTo(ctx, k.stream(), got); err != nil {
		return err
	}
	wrong, first := 0, -1
	for i := range got {
		if got[i] != pattern[i] {
			wrong++
			if first < 0 {
				first = i
			}
		}
	}
	if wrong == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d bytes differ, the first at %d: does ACS or an IOMMU redirect what peers send? (hint: "+
		"dmesg, and turn ACS off on PCIe switches, or intel_iommu=off)", wrong, len(got), first)
}

// wait waits for this rank's copies, up to the longest time that a copy can take.
func (k *buffers) wait(ctx context.Context) error {
	for i := 0; ; i++ {
		within, cancel := context.WithTimeout(ctx, slice)
		err := k.stream().Synchronize(within)
		late := within.Err() != nil
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil || !late:
			return err
		case i == k.patience-1:
			k.hung++
			return fmt.Errorf("%w within %v: does ACS or an IOMMU redirect what peers send? (hint: dmesg, and turn ACS off on "+
				"PCIe switches, or intel_iommu=off)", ErrHung, slice*time.Duration(k.patience))
		}
	}
}

// Copies that are timed take about this long together.
const timed = 2 * time.Millisecond

// time returns the rate of copies of n bytes from or to a peer's memory, in GB/s, and the time of a copy of a few
// bytes, in microseconds: the best of some.
func (k *buffers) time(ctx context.Context, to, from cuda.Addr, n int64) (rate, latency float64, err error) {
	one, err := k.copies(ctx, to, from, n, 1)
	if err != nil {
		return 0, 0, err
	}
	times := min(max(int(timed/max(one, time.Microsecond)), 1), 32)
	for range 3 {
		took, err := k.copies(ctx, to, from, n, times)
		if err != nil {
			return 0, 0, err
		}
		rate = max(rate, float64(n)*float64(times)/float64(max(took, 1)))
	}
	const small, many = 8, 32
	for range 3 {
		took, err := k.copies(ctx, to, from, small, many)
		if err != nil {
			return 0, 0, err
		}
		us := float64(max(took, 1)) / 1e3 / many
		if latency == 0 || us < latency {
			latency = us
		}
	}
	return rate, latency, nil
}

// copies returns the time that some copies take, by the device's clock.
func (k *buffers) copies(ctx context.Context, to, from cuda.Addr, n int64, times int) (time.Duration, error) {
	if err := k.stream().Record(k.from); err != nil {
		return 0, err
	}
	for range times {
		if err := k.stream().Memcpy(to, from, n); err != nil {
			return 0, err
		}
	}
	if err := k.stream().Record(k.to); err != nil {
		return 0, err
	}
	if err := k.wait(ctx); err != nil {
		return 0, err
	}
	return k.to.Since(k.from)
}
