package plan

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

// Of returns the size of the chunks, in bytes, of a lane that carries so many over links
// with slots of so many. The last chunk may be smaller.
func (c Chunks) Of(bytes, slot int) int {
	const quantum = 64
	least, most := MinChunk, slot
	if c.Min > 0 {
		least = c.Min
	}
	if c.Max > 0 {
		most = min(slot, c.Max)
	}
	return min(max(((bytes+3)/4+quantum-1)&^(quantum-1), least), most)
}
