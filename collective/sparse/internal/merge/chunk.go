package merge

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/treerun/treerun/collective/sparse/internal/block"
)

// A chunk of a stream, little endian but for elements:
//
//	u32  number of the tensor
//	u32  the block with which the next chunk begins, infinity in the last one
//	u32  blocks carried
//	u32  runs of the table | thin << 31
//	...  the blocks, by rising number; thin ones as block.Thin leaves them
//	per run: u32 first block, u32 number of blocks | kept << 31
//
// Blocks of a kept run are not carried: the receiver's own are final.

// Sizes in a chunk.
const (
	HeaderBytes = 16
	RunBytes    = 8
)

const (
	infinity = math.MaxUint32
	keptFlag = 1 << 31
	thinFlag = 1 << 31
)

// run is a run of blocks.
type run struct {
	first, n int
	kept     bool
}

// chunk is a decoded chunk.
type chunk struct {
	tensor uint32
	next   uint32
	runs   []run
	body   []byte // the blocks
}

// decode reads an untrusted chunk, and makes all checks that are possible without earlier chunks: runs rise, lie within
// the tensor and before next, and the blocks are there. runs is memory for the result, thin that for thin blocks. kept
// reports whether there may be kept runs.
func decode(p []byte, g block.Grid, runs []run, thin *block.Thin, kept bool) (chunk, error) {
	if len(p) < HeaderBytes {
		return chunk{}, fmt.Errorf("%w: %d bytes, less than a header", block.ErrProtocol, len(p))
	}
	c := chunk{tensor: binary.LittleEndian.Uint32(p), next: binary.LittleEndian.Uint32(p[4:]), runs: runs[:0]}
	blocks, flags := int(binary.LittleEndian.Uint32(p[8:])), binary.LittleEndian.Uint32(p[12:])
	n := int(flags &^ thinFlag)
	if n > (len(p)-HeaderBytes)/RunBytes {
		return chunk{}, fmt.Errorf("%w: %d runs in %d bytes", block.ErrProtocol, n, len(p))
	}
	split := len(p) - n*RunBytes
	c.body = p[HeaderBytes:split:split]
	free, carried, size := 0, 0, 0 // the first block that the next run may begin with
	for i := range n {
		r := parseRun(p[split+i*RunBytes:])
		end := min(int(c.next), g.Blocks())
		if r.n == 0 || r.first < free || r.first >= end || r.n > end-r.first || r.kept && !kept {
			return chunk{}, fmt.Errorf("%w: run %d of %d blocks from %d on, in a tensor of %d blocks, the next chunk begins "+
				"with %d",
				block.ErrProtocol, i, r.n, r.first, g.Blocks(), c.next)
		}
		free = r.first + r.n
		if !r.kept {
			from, to := g.Range(r.first, r.n)
			carried, size = carried+r.n, size+to-from
		}
		c.runs = append(c.runs, r)
	}
	if flags != uint32(n) {
		var err error
		if c.body, err = thin.Spread(c.body, size); err != nil {
			return chunk{}, fmt.Errorf("%w: %w", block.ErrProtocol, err)
		}
	}
	if carried != blocks || size != len(c.body) {
		return chunk{}, fmt.Errorf("%w: %d blocks in %d bytes, the runs have %d in %d", block.ErrProtocol, blocks,
			len(c.body), carried, size)
	}
	if c.next != infinity && int(c.next) >= g.Blocks() {
		return chunk{}, fmt.Errorf("%w: block %d of %d is next", block.ErrProtocol, c.next, g.Blocks())
	}
	return c, nil
}

func parseRun(p []byte) run {
	n := binary.LittleEndian.Uint32(p[4:])
	return run{first: int(binary.LittleEndian.Uint32(p)), n: int(n &^ keptFlag), kept: n&keptFlag != 0}
}

// writer composes a chunk: first the blocks, and the table after them.
type writer struct {
	grid    block.Grid
	window  []byte
	runs    []run
	carried int // blocks
	size    int // their bytes
}

// room returns the number of the n blocks from b on that fit, as a run of their own or together with the last.
func (w *writer) room(b, n int, kept bool) int {
	left := len(w.window) - HeaderBytes - w.size - len(w.runs)*RunBytes
	if !w.joins(b, kept) {
		left -= RunBytes
	}
	switch {
	case left < 0:
		return 0
	case kept:
		return n
	}
	if from, to := w.grid.Range(b, n); to-from <= left {
		return n
	}
	return left / w.grid.BlockBytes()
}

// joins reports whether a run that begins with b continues the last one.
func (w *writer) joins(b int, kept bool) bool {
	if len(w.runs) == 0 {
		return false
	}
	last := w.runs[len(w.runs)-1]
	return last.first+last.n == b && last.kept == kept
}

// add appends n blocks from b on, for which there is room. They lie in tensor.
func (w *writer) add(b, n int, tensor []byte, kept bool) {
	if w.joins(b, kept) {
		w.runs[len(w.runs)-1].n += n
	} else {
		w.runs = append(w.runs, run{b, n, kept})
	}
	if !kept {
		w.size += copy(w.window[HeaderBytes+w.size:], w.grid.Of(tensor, b, n))
		w.carried += n
	}
}

// finish writes the rest and returns the size of the chunk. thin squeezes the blocks; nil: they are not squeezed.
func (w *writer) finish(tensor, next uint32, thin *block.Thin) int {
	p, size, flags := w.window, w.size, uint32(len(w.runs))
	if thin != nil {
		if size = thin.Squeeze(p[HeaderBytes : HeaderBytes+w.size]); size < w.size {
			flags |= thinFlag
		}
	}
	binary.LittleEndian.PutUint32(p, tensor)
	binary.LittleEndian.PutUint32(p[4:], next)
	binary.LittleEndian.PutUint32(p[8:], uint32(w.carried))
	binary.LittleEndian.PutUint32(p[12:], flags)
	at := HeaderBytes + size
	for _, r := range w.runs {
		n := uint32(r.n)
		if r.kept {
			n |= keptFlag
		}
		binary.LittleEndian.PutUint32(p[at:], uint32(r.first))
		binary.LittleEndian.PutUint32(p[at+4:], n)
		at += RunBytes
	}
	return at
}
