package block

// Counts contains the chunks, blocks and bytes that a rank has sent and received, in both directions of a tree.
type Counts struct {
	SentChunks, SentBlocks, SentBytes             int
	ReceivedChunks, ReceivedBlocks, ReceivedBytes int // bytes: whole chunks
	Union                                         int // blocks of the result
}

// Add adds d to c.
func (c *Counts) Add(d Counts) {
	c.SentChunks += d.SentChunks
	c.SentBlocks += d.SentBlocks
	c.SentBytes += d.SentBytes
	c.ReceivedChunks += d.ReceivedChunks
	c.ReceivedBlocks += d.ReceivedBlocks
	c.ReceivedBytes += d.ReceivedBytes
	c.Union += d.Union
}
