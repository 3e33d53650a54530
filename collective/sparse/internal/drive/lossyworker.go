package drive

import (
	"errors"
	"fmt"
	"time"

	"github.com/treerun/treerun/collective/sparse/omni"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/datagram"
)

// asking is what a worker of Algorithm 2 keeps.
type asking struct {
	worker  *omni.Worker  // nil: this is an aggregator that is no rank
	timeout time.Duration // after which an aggregator that is silent is lost
	pace    *omni.Pace
	shape   omni.Shape
	buf     []byte

	tells  bool   // aggregators are no ranks, and are told of calls
	told   []byte // what they are told
	called int    // how many have been

	ready  []int  // streams of other ranks' aggregators with a packet to send
	mine   []int  // streams of the own aggregator with one
	begun  []bool // by stream: the result of its first round has come
	open   []int  // by aggregator: streams that have not ended here
	parted int    // aggregators that know that this worker has all results

	silence []int64 // by aggregator: since when nothing has come
	asked   []int   // by aggregator: packets that were to go again since then
}

// beginWorker starts the worker's next tensor.
func (o *Lossy) beginWorker(tensor uint32, s omni.Shape, in omni.Input) error {
	if err := o.worker.Begin(tensor, s, in); err != nil {
		return err
	}
	if o.pace == nil || s.Streams != o.shape.Streams {
		o.pace = omni.NewPace(s.Streams)
	}
	if o.buf == nil {
		o.buf = make([]byte, datagram.MaxPayload)
	}
	o.shape = s
	if o.called = 0; o.tells {
		o.told = (&omni.Call{Tensor: tensor, Shape: s}).Encode()
	}
	n := len(o.aggs)
	o.open, o.parted, o.begun = make([]int, n), 0, make([]bool, s.Streams)
	o.ready, o.mine = o.ready[:0], o.mine[:0]
	for stream := range s.Live() {
		o.open[stream%n]++
		o.queue(stream)
	}
	o.silence, o.asked = make([]int64, n), make([]int, n)
	for a := range o.silence {
		o.silence[a] = o.now
	}
	return nil
}

// queue notes that the worker has a packet for a stream.
func (o *Lossy) queue(stream int) {
	if stream%len(o.aggs) == o.own {
		o.mine = append(o.mine, stream)
	} else {
		o.ready = append(o.ready, stream)
	}
}

// call tells aggregators that are no ranks of the call.
func (o *Lossy) call() (moved bool, err error) {
	for o.tells && o.called < len(o.aggs) {
		if ok, err := o.links.trees[o.aggs[o.called]].tell(o.told, o.head); err != nil || !ok {
			return moved, err
		}
		o.sent(len(o.told))
		o.called++
		moved = true
	}
	return moved, nil
}

// store gives the worker a result.
func (o *Lossy) store(packet []byte) error {
	step, err := o.worker.Handle(packet)
	a := step.Stream % len(o.aggs)
	switch {
	case err != nil:
		return err
	case step.Stale:
		return nil
	case step.Heard:
		o.pace.Heard(step.Stream)
		return nil
	}
	o.progress = true
	o.Union += int(blocksOf(packet))
	if a != o.own {
		o.pace.Answered(step.Stream, o.now, !o.begun[step.Stream])
	}
	o.begun[step.Stream] = true
	if step.Send {
		o.queue(step.Stream)
	}
	if step.Ended {
		o.open[a]--
	}
	return nil
}

// send hands over what the worker has: to the own aggregator, and to others as far
// as the window and the system have room.
func (o *Lossy) send() (moved bool, err error) {
	for len(o.mine) > 0 && len(o.unsent) == 0 {
		stream := o.mine[0]
		o.mine = o.mine[:copy(o.mine, o.mine[1:])]
		if err := o.handle(o.buf[:o.worker.Compose(stream, o.buf)], o.links.rank); err != nil {
			return moved, err
		}
		moved = true
	}
	n := 0
	for n < len(o.ready) && o.pace.Ready() && o.transmit(o.ready[n]) {
		o.pace.Sent(o.ready[n], o.now, !o.begun[o.ready[n]])
		n++
	}
	o.ready = o.ready[:copy(o.ready, o.ready[n:])]
	return moved || n > 0, nil
}

// transmit sends the packet of a stream's present round to its aggregator. false:
// there is no room.
func (o *Lossy) transmit(stream int) bool {
	n := o.worker.Compose(stream, o.buf)
	if !o.sock.Send(o.links.trees[o.aggs[stream%len(o.aggs)]].root, o.buf[:n]) {
		return false
	}
	o.sent(n + datagram.Overhead)
	blocks := blocksOf(o.buf[:n])
	o.SentBlocks += blocks
	o.WorkerBlocks += blocks
	o.WorkerBytes += int64(n + datagram.Overhead)
	return true
}

// again sends what got no answer once more.
func (o *Lossy) again() {
	for s := o.pace.Expired(o.now); s >= 0; s = o.pace.Expired(o.now) {
		o.asked[s%len(o.aggs)]++
		if o.transmit(s) { // without room it is as if it were lost
			o.Resent++
		}
	}
}

// part is the end of a tensor for the worker: it tells the aggregators that it has
// all results.
func (o *Lossy) part() (moved bool, err error) {
	for ; o.parted < len(o.aggs); o.parted++ {
		if o.parted == o.own || o.parted >= o.shape.Live() && !o.tells {
			continue
		}
		e := &o.links.trees[o.aggs[o.parted]]
		window, ok, err := e.toParent.TryReserve(1)
		if err != nil || !ok {
			return moved, failed("taking leave of the aggregator on", e.parent, err)
		}
		window[0] = 0
		e.toParent.Commit(&o.head)
		moved = true
	}
	return moved, nil
}

// ErrSilent is in the errors of a rank from which no datagram comes any more.
var ErrSilent = errors.New("no datagram comes from there")

// leastAsked is how many packets must have got no answer before a rank is given up.
const leastAsked = 3

// lookUp reports an aggregator that has left although this worker needs it, and one
// that does not answer.
func (o *Lossy) lookUp() error {
	var h transport.Header
	for a, n := range o.open {
		if a == o.own || n == 0 {
			continue
		}
		e := &o.links.trees[o.aggs[a]]
		_, _, err := e.ofParent.TryPeek(&h)
		if silent := time.Duration(o.now - o.silence[a]); err == nil && silent > o.timeout && o.asked[a] >= leastAsked {
			err = fmt.Errorf("%w: not for %v, though %d were sent again (%s)", ErrSilent, silent.Round(time.Millisecond), o.asked[a], o.hint())
		}
		if err != nil {
			return failed("waiting for the aggregator on", e.parent, err)
		}
	}
	return nil
}

// hint says what may be wrong when nothing comes.
func (o *Lossy) hint() string {
	if err := o.sock.Failure(); err != nil {
		return fmt.Sprintf("the system refused to send some: %v", err)
	}
	return "hint: --peer-timeout is the limit; does a firewall let UDP pass?"
}
