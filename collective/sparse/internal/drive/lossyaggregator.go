package drive

import (
	"fmt"

	"github.com/treerun/treerun/collective/sparse/omni"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/datagram"
)

// answering is what an aggregator of Algorithm 2 keeps.
type answering struct {
	agg    *omni.Aggregator
	leaves int    // workers that have not told it that they have all results
	left   []bool // by child of the own star: it has
	result []byte // while some workers are to be sent it
	unsent []int  // ranks that are
	repeat bool   // they have been sent it before
}

// handle gives the aggregator a packet of the worker on a rank. Precondition: no
// result is unsent.
func (o *Lossy) handle(packet []byte, rank int) error {
	answer, err := o.agg.Handle(packet)
	o.progress = o.progress || answer.Taken
	switch {
	case err != nil:
		return failed("a packet of the worker on", rank, err)
	case answer.Packet == nil:
		return nil
	case answer.To >= 0: // only what came over the network comes again
		o.result, o.unsent = answer.Packet, append(o.unsent[:0], answer.To)
		o.repeat = true
		o.sendResult()
		return nil
	}
	o.result, o.unsent, o.repeat = answer.Packet, o.unsent[:0], false
	for i := range o.star().children {
		o.unsent = append(o.unsent, o.star().children[i].rank)
	}
	o.sendResult()
	if o.worker == nil {
		return nil
	}
	return failed("a result of the aggregator on", o.links.rank, o.store(answer.Packet))
}

// sendResult sends the result to the workers that are still to get it, as far as
// there is room.
func (o *Lossy) sendResult() {
	for len(o.unsent) > 0 && o.sock.Send(o.unsent[0], o.result) {
		o.unsent = o.unsent[:copy(o.unsent, o.unsent[1:])]
		o.sent(len(o.result) + datagram.Overhead)
		o.SentBlocks += blocksOf(o.result)
		if o.repeat {
			o.Resent++
		}
	}
}

// seeOff is the end of a tensor for the aggregator: workers say that they have all
// results. Those that have not been heard, by child, have not begun; nil: all have.
func (o *Lossy) seeOff(heard []bool) (moved bool, err error) {
	for i, left := range o.left {
		if left || heard != nil && !heard[i] {
			continue
		}
		c := &o.star().children[i]
		var h transport.Header
		_, ok, err := c.of.TryPeek(&h)
		if err == nil && ok && h != o.head {
			err = fmt.Errorf("%w: it is in another call (number %d, %d elements)", omni.ErrMismatch, h.Seq, h.Count)
		}
		if err != nil {
			return moved, failed("waiting for the worker on", c.rank, err)
		}
		if ok {
			c.of.Release()
			o.left[i], moved = true, true
			o.leaves--
		}
	}
	return moved, nil
}

// lookDown reports a worker that has closed although the aggregator of this rank
// needs it. heard is that of seeOff.
func (o *Lossy) lookDown(heard []bool) error {
	var h transport.Header
	for i, left := range o.left {
		if left || heard != nil && !heard[i] {
			continue
		}
		c := &o.star().children[i]
		if _, _, err := c.of.TryPeek(&h); err != nil {
			return failed("waiting for the worker on", c.rank, err)
		}
	}
	return nil
}

// waitsForWorker names a worker that has not got all results, "" if all have.
func (o *Lossy) waitsForWorker() string {
	for i, left := range o.left {
		if !left {
			return fmt.Sprintf("rank %d, which has not got all results over UDP", o.star().children[i].rank)
		}
	}
	return ""
}
