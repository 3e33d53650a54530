package sparse

import (
	"fmt"
	"math"
	"time"
)

// Stats is what a sparse AllReduce did, as its rank saw it.
type Stats struct {
	Form   Form // in which it ran
	Blocks int  // of the tensor

	// Servers is how many ranks served the call (Serve): they alone aggregated.
	Servers int

	// NonZero is how many blocks of this rank's have something in them, Union those
	// that any rank had. Where the Dense form ran on price they were not counted:
	// they are -1, and Density and UnionDensity are estimates of all ranks.
	NonZero, Union int

	Density      float64 // part of the blocks that this rank sent, 0 to 1
	UnionDensity float64 // part of the blocks that any rank had

	// What this rank sent to others and got from them, headers included, as worker,
	// aggregator and inner rank of trees; 0 in the Dense form. What goes to several ranks
	// counts for each of them. But Shared writes what all others read to memory once, and
	// once it counts as sent. Compact counts the blocks of the union, which are the tensor of its dense
	// plan, and the ranks' sets of blocks.
	SentBytes, ReceivedBytes       int64
	SentMessages, ReceivedMessages int64

	// SentBlocks and ReceivedBlocks are the blocks in those messages. WorkerBlocks and
	// WorkerBytes are the part of what was sent in which this rank gave its own blocks
	// to aggregators on other ranks.
	SentBlocks, ReceivedBlocks int64
	WorkerBlocks, WorkerBytes  int64

	// What the forms were predicted to take when this one was chosen; 0 where nothing was
	// predicted.
	Predicted [formEnd]time.Duration

	// Finding is how long the search for blocks took, which is a part of the call.
	Finding time.Duration
}

// String says what happened, for people.
func (s Stats) String() string {
	form := s.Form.String()
	if s.Servers > 0 {
		form += fmt.Sprintf(" (ranks that serve: %d)", s.Servers)
	}
	text := fmt.Sprintf("%s: %d of %d blocks (%s), union %s, sent %d bytes, received %d",
		form, s.NonZero, s.Blocks, percent(s.Density), percent(s.UnionDensity), s.SentBytes, s.ReceivedBytes)
	if s.NonZero < 0 {
		text = fmt.Sprintf("%s: %d blocks, which nobody has counted", s.Form, s.Blocks)
		if s.Density > 0 {
			text += fmt.Sprintf(" (estimated: %s, union %s)", percent(s.Density), percent(s.UnionDensity))
		}
	}
	return text
}

// percent prints a part with two digits that count.
func percent(p float64) string {
	digits := 0
	if p > 0 {
		digits = max(0, -int(math.Floor(math.Log10(100*p)))+1)
	}
	return fmt.Sprintf("%.*f %%", min(digits, 4), 100*p)
}
