package plan

import "fmt"

// Chunks says how what a lane carries is cut: into four chunks, so that the ranks of a
// tree overlap, but into fewer where these were smaller than Min, and into more where
// they were larger than Max. Both are in bytes and multiples of 64. It is the same on
// all ranks.
type Chunks struct {
	Max int // 0: a slot of the link
	Min int // 0: MinChunk
}

// MinChunk is the smallest chunk, in bytes, into which a message is cut for the sake of
// pipelining, unless Chunks says otherwise. Below it the cost of a chunk outweighs the
// overlap.
const MinChunk = 8 << 10

const (
	chunkQuantum = 64
	mostChunk    = 1 << 30
)

// Check reports chunks of a size that no message is cut into.
func (c Chunks) Check() error {
	for _, bytes := range []int{c.Max, c.Min} {
		if bytes < 0 || bytes > mostChunk || bytes%chunkQuantum != 0 {
			return fmt.Errorf("chunks of %d bytes, want a multiple of %d up to %d", bytes, chunkQuantum, mostChunk)
		}
	}
	return nil
}

// Of returns the size of the chunks, in bytes, of a lane that carries so many over links
// with slots of so many. The last chunk may be smaller.
func (c Chunks) Of(bytes, slot int) int {
	least, most := MinChunk, slot
	if c.Min > 0 {
		least = c.Min
	}
	if c.Max > 0 {
		most = min(slot, c.Max)
	}
	return min(max(((bytes+3)/4+chunkQuantum-1)&^(chunkQuantum-1), least), most)
}
