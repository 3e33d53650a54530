package block

// Counts are what a rank's place in a tree has sent and received, in both directions.
type Counts struct {
	SentChunks, SentBlocks, SentBytes             int
	ReceivedChunks, ReceivedBlocks, ReceivedBytes int // bytes: whole chunks
	Union                                         int // blocks of the result that the tree carried
	// blocks that were not sent down, because their only source was there
	Kept int
}
