package mismatch

import (
	"fmt"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
)

// Fault is the fault of two ranks whose calls of the same number differ: theirs is that of rank
// peer, mine that of this one. Its text begins with the rank at fault. Any goroutine may call it.
func (c *Calls) Fault(peer int, theirs, mine call.ID) transport.Fault {
	if mine.CountsByPair() && !mine.CountsAtRoot() && theirs.Count != mine.Count && sameButCount(theirs, mine) {
		return transport.Faultf(transport.FaultMismatch, peer, "rank %d sends %d %s to rank %d, which receives %d "+
			"from it, in %v", peer, theirs.Count, mine.Unit(), c.rank, mine.Count, mine)
	}
	second, suspect := c.rank, c.suspect(peer, theirs, mine)
	if suspect == second { // the text begins with the rank at fault
		peer, second = second, peer
		theirs, mine = mine, theirs
	}
	text := fmt.Sprintf("rank %d called %v while rank %d called %v", peer, theirs, second, mine)
	its, own := theirs, mine
	its.Number, own.Number = 0, 0
	counted := theirs
	counted.Parts = mine.Parts
	switch {
	case theirs.OfBuckets() != mine.OfBuckets():
		text += ": from the first Ready of a pass of Buckets to its Wait, ranks make no other call on the communicator"
	case mine.CountsAtRoot() && sameButChain(theirs, mine) && theirs.Chain == mine.Chain:
		root, r, has, counted := second, peer, theirs.Count, mine.Count
		if second != int(mine.Root) {
			root, r, has, counted = peer, second, mine.Count, theirs.Count
		}
		return transport.Faultf(transport.FaultMismatch, -1, "rank %d has a part of %d %s in %v, the counts of rank "+
			"%d have %d for it", r, has, mine.Unit(), mine, root, counted)
	case theirs.Number != mine.Number && sameButChain(its, own):
		text = inAnotherOrder(peer, second, theirs, mine)
	case sameButChain(theirs, mine):
		text = fmt.Sprintf("rank %d and rank %d run %v by different plans, or have made different calls before it", peer,
			second, mine)
	case sameButChain(counted, mine):
		text = fmt.Sprintf("rank %d called %v with different counts than rank %d", peer, theirs, second)
	}
	return transport.Fault{Kind: transport.FaultMismatch, Rank: suspect, Text: text}
}

// inAnotherOrder is the text of two calls that differ in their Numbers only.
func inAnotherOrder(peer, second int, theirs, mine call.ID) string {
	number, other := theirs.Number+1, mine.Number+1
	if mine.OfBuckets() {
		return fmt.Sprintf("rank %d called %v, as bucket %d of equal ones, while rank %d called bucket %d: ranks make "+
			"several Buckets, and their passes, in the same order", peer, theirs, number-call.FirstOfBuckets, second,
			other-call.FirstOfBuckets)
	}
	theirs.Number = 0
	return fmt.Sprintf("rank %d called %v as Init %d of equal calls, while rank %d called Init %d (a plain call is as "+
		"Init 1): ranks make and start equal persistent calls in the same order", peer, theirs, number, second, other)
}

// suspect returns the rank to blame for a mismatch between this rank and peer:
// the one with whose call fewer ranks are known to agree, -1 when that does not
// decide. A single rank that differs can so never make another one look guilty.
func (c *Calls) suspect(peer int, theirs, mine call.ID) int {
	with, against := 1, 1
	for r := range c.size {
		if r == c.rank || r == peer {
			continue
		}
		switch id := c.ep.Status(r).Call.ID(); {
		case sameButCount(id, mine):
			with++
		case sameButCount(id, theirs):
			against++
		}
	}
	switch {
	case with > against:
		return peer
	case against > with:
		return c.rank
	}
	return -1
}
