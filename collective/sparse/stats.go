package sparse

import (
	"fmt"
	"math"
	"time"
)

// Stats contains the statistics of a sparse AllReduce on its rank.
type Stats struct {
	Form   Form // form in which it ran
	Blocks int  // of the tensor

	// Servers is the number of ranks that served the call (Serve), and were its only aggregators.
	Servers int

	// NonZero is the number of non-zero blocks of this rank, Union the number of blocks in the union of all ranks.
	// If the Dense form was chosen by price they were not counted and are -1, and Density and UnionDensity are
	// estimates over all ranks.
	NonZero, Union int

	Density      float64 // part of the blocks that this rank sent, 0 to 1
	UnionDensity float64 // part of the blocks in the union

	// Traffic of this rank to and from the others, headers included, as worker, aggregator and inner rank of trees;
	// 0 in the Dense form. A message to several ranks counts once for each of them. But in the form Shared a rank
	// writes its blocks to memory once for all readers, and they count as sent once. Compact counts the blocks of
	// the union, which are the tensor of its dense plan, and the ranks' sets of blocks.
	SentBytes, ReceivedBytes       int64
	SentMessages, ReceivedMessages int64

	// SentBlocks and ReceivedBlocks are the blocks in those messages. WorkerBlocks and WorkerBytes count only this
	// rank's own blocks sent to aggregators on other ranks.
	SentBlocks, ReceivedBlocks int64
	WorkerBlocks, WorkerBytes  int64

	// Predicted contains the predicted times of the forms when this one was chosen; 0 without a prediction.
	Predicted [formEnd]time.Duration

	// Finding is the time of the search for blocks, which is a part of the call.
	Finding time.Duration
}

// String returns a description of the call, for people.
func (s Stats) String() string {
	form := s.Form.String()
	if s.Servers > 0 {
		form += fmt.Sprintf(" (ranks that serve: %d)", s.Servers)
	}
	text := fmt.Sprintf("%s: %d of %d blocks (%s), union %s, sent %d bytes, received %d",
		form, s.NonZero, s.Blocks, percent(s.Density), percent(s.UnionDensity), s.SentBytes, s.ReceivedBytes)
	if s.NonZero < 0 {
		text = fmt.Sprintf("%s: %d blocks, which were not counted", s.Form, s.Blocks)
		if s.Density > 0 {
			text += fmt.Sprintf(" (estimated: %s, union %s)", percent(s.Density), percent(s.UnionDensity))
		}
	}
	return text
}

// percent formats a part with two significant digits.
func percent(p float64) string {
	digits := 0
	if p > 0 {
		digits = max(0, -int(math.Floor(math.Log10(100*p)))+1)
	}
	return fmt.Sprintf("%.*f %%", min(digits, 4), 100*p)
}
