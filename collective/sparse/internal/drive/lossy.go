package drive

import (
	"fmt"
	"time"

	"github.com/treerun/treerun/collective/sparse/omni"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/datagram"
)

// Lossy runs Algorithm 2: this rank's worker, and the aggregator that it may have
// besides, over datagrams. Aggregator a is on the rank that is the root of tree a of
// the Links, a star, over which only one message goes per tensor: a worker that has
// all results tells the aggregator, which serves until all have done so, since any
// datagram, the last ones too, can be lost. An aggregator that is no rank hears there
// of the call, too. It is used again for one tensor after the other.
type Lossy struct {
	Carried

	links    *Links
	sock     *datagram.Socket
	aggs     []int // trees, by aggregator
	own      int   // the aggregator on this rank, -1 for none
	head     transport.Header
	progress bool      // a packet that was new came in this Poll
	began    time.Time // the zero of the clock
	now      int64     // of the present Poll, on this clock
	checked  int64     // when the links were looked at

	asking    // the worker
	answering // the aggregator
}

// NewLossy makes the exchanges of a rank. aggs are the trees of the aggregators.
// sock reaches all ranks with which this one shares a star.
func NewLossy(k *Links, aggs []int, sock *datagram.Socket, timeout time.Duration) *Lossy {
	o := &Lossy{links: k, sock: sock, aggs: aggs, own: -1, began: time.Now()}
	o.timeout = timeout
	for a, t := range aggs {
		if k.trees[t].root == k.rank {
			o.own, o.agg = a, omni.NewAggregator(a)
		}
	}
	if !k.IsAggregator(k.rank) {
		o.worker = omni.NewWorker(k.rank)
		o.tells = len(aggs) > 0 && k.IsAggregator(k.trees[aggs[0]].root)
	}
	return o
}

// Begin starts the next tensor, which has the same number on all ranks.
// Precondition: s.MaxPacket() is at most datagram.MaxPayload.
func (o *Lossy) Begin(tensor uint32, s omni.Shape, in omni.Input) error {
	if err := o.begin(tensor, &s); err != nil {
		return err
	}
	return o.beginWorker(tensor, s, in)
}

// begin is what worker and aggregator have in common.
func (o *Lossy) begin(tensor uint32, s *omni.Shape) error {
	o.Carried = Carried{}
	o.head = transport.Header{Seq: uint64(tensor), Count: uint64(s.Grid.Elements), Op: uint8(s.Op), DType: uint8(s.DType), Root: -1}
	if n := s.MaxPacket(); n > datagram.MaxPayload {
		return fmt.Errorf("sparse: packets of %d bytes do not fit a datagram, which holds %d", n, datagram.MaxPayload)
	}
	o.tick()
	o.unsent, o.leaves, o.left = o.unsent[:0], 0, nil
	if o.agg == nil {
		return nil
	}
	if o.own < s.Live() || o.worker == nil {
		o.leaves = len(o.star().children)
		o.left = make([]bool, o.leaves)
	}
	return o.agg.Begin(tensor, *s)
}

// star is the tree of the own aggregator.
func (o *Lossy) star() *ends { return &o.links.trees[o.aggs[o.own]] }

// tick takes the time. A rank that was itself stopped for long holds no silence
// against the others.
func (o *Lossy) tick() {
	before := o.now
	o.now = int64(time.Since(o.began))
	if o.now-before > int64(o.timeout)/4 {
		for a := range o.silence {
			o.silence[a] = o.now
		}
	}
}

// Done reports whether the worker of this rank has all results and the aggregators
// know, and whether all workers have those of the aggregator of this rank.
func (o *Lossy) Done() bool {
	return o.worker.Done() && o.parted == len(o.aggs) && o.leaves == 0
}

// Poll moves what can be moved now.
func (o *Lossy) Poll() (moved bool, err error) {
	o.tick()
	if moved, err = o.call(); err != nil {
		return moved, err
	}
	if err = o.takeIn(); err != nil {
		return false, err
	}
	sent, err := o.send()
	if err != nil {
		return false, err
	}
	o.again()
	o.sock.Flush()
	if moved = moved || sent || o.progress; !o.worker.Done() {
		return moved, nil
	}
	parted, err := o.part()
	if err != nil {
		return moved, err
	}
	seen, err := o.seeOff(nil)
	return moved || parted || seen, err
}

// mostPackets is how many datagrams a rank takes in before it sends.
const mostPackets = 64

// takeIn handles datagrams that have come.
func (o *Lossy) takeIn() error {
	o.progress = false
	for range mostPackets {
		if o.sendResult(); len(o.unsent) > 0 {
			break
		}
		from, packet, ok, err := o.sock.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if err := o.take(from, packet); err != nil {
			return err
		}
	}
	return nil
}

// take handles a datagram.
func (o *Lossy) take(from int, packet []byte) error {
	h, err := omni.Decode(packet)
	switch {
	case err != nil:
		return failed("a datagram of", from, err)
	case h.Worker >= 0 && h.Worker != from || h.Worker < 0 && o.links.trees[o.aggs[h.Stream%len(o.aggs)]].root != from:
		return failed("a datagram of", from, fmt.Errorf("%w: it is of worker %d, stream %d", omni.ErrProtocol, h.Worker, h.Stream))
	}
	o.received(len(packet) + datagram.Overhead)
	o.ReceivedBlocks += int64(h.Blocks)
	switch {
	case h.Worker < 0 && o.worker != nil:
		a := h.Stream % len(o.aggs)
		o.silence[a], o.asked[a] = o.now, 0
		return failed("a result from the aggregator on", from, o.store(packet))
	case h.Worker < 0:
		return failed("a datagram of", from, fmt.Errorf("%w: there is no worker here", omni.ErrProtocol))
	case o.agg == nil:
		return failed("a datagram of", from, fmt.Errorf("%w: there is no aggregator here", omni.ErrProtocol))
	}
	return o.handle(packet, from)
}

// How long a rank sleeps when only others have something to do: it still serves those
// who have lost something.
const servingNap = time.Millisecond

// linksEvery is how often a rank that waits looks at the links, for peers that have
// closed.
const linksEvery = 100 * time.Millisecond

// Sleep waits for a datagram, for the next time to send one again, or for longest.
// The bell is prepared.
func (o *Lossy) Sleep(bell transport.Bell, longest time.Duration) error {
	if o.worker.Done() {
		bell.Sleep(min(longest, servingNap))
		return nil
	}
	bell.Cancel()
	if at, ok := o.pace.Next(); ok {
		longest = min(longest, time.Duration(at-int64(time.Since(o.began))))
	}
	return o.await(longest, nil)
}

// await waits for a datagram, and looks now and then for peers that have closed; heard
// is that of seeOff.
func (o *Lossy) await(longest time.Duration, heard []bool) error {
	o.sock.Wait(longest)
	if o.now-o.checked < int64(linksEvery) {
		return nil
	}
	o.checked = o.now
	if err := o.lookUp(); err != nil {
		return err
	}
	return o.lookDown(heard)
}

// WaitsFor says what is missing.
func (o *Lossy) WaitsFor() string {
	for a, n := range o.open {
		if n > 0 && a != o.own {
			who := o.links.trees[o.aggs[a]].root
			name := o.links.nameOf(who)
			if !o.links.IsAggregator(who) {
				name = "the aggregator on " + name
			}
			return fmt.Sprintf("results of %s, over UDP (%d packets were sent again)", name, o.Resent)
		}
	}
	if who := o.waitsForWorker(); who != "" {
		return who
	}
	return "aggregators to take leave of this rank"
}
