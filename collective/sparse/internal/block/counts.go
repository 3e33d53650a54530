package block

// Counts are what a rank has sent and received, in both directions.
type Counts struct {
	SentChunks, SentBlocks, SentBytes             int
	ReceivedChunks, ReceivedBlocks, ReceivedBytes int // bytes: whole chunks
	Union                                         int // blocks of the result
	// blocks that were not sent down, because their only source was there
	Kept int
}

// Add adds what d counts to c.
func (c *Counts) Add(d Counts) {
	c.SentChunks += d.SentChunks
	c.SentBlocks += d.SentBlocks
	c.SentBytes += d.SentBytes
	c.ReceivedChunks += d.ReceivedChunks
	c.ReceivedBlocks += d.ReceivedBlocks
	c.ReceivedBytes += d.ReceivedBytes
	c.Union += d.Union
	c.Kept += d.Kept
}
