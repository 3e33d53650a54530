package engine

import (
	"math"

	"github.com/treerun/treerun/collective/internal/p2p"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/transport"
)

// sharedFrom is the size of a message, in bytes, from which memory that other
// ranks can read is lent to them and not copied.
const sharedFrom = 4 << 10

// sharedOversubscribedFrom is sharedFrom for memory that Endpoint.Alloc gave out, in a Broadcast between ranks that
// share cores: the root has to wait for all of them to run before its lent memory is returned, but can leave at once
// when it has copied. 16 KiB take 3.1 and 3.5 us through slots with four and eight ranks on two cores, and 6 and 14
// lent; 128 KiB 15.7 and 45, and 13.4 and 40.
const sharedOversubscribedFrom = 128 << 10

// lendsOwn reports whether a message of the given number of bytes (of one part, where there are parts) is lent from the
// memory of this process to ranks that have to read it by a system call, process_vm_readv. The result is the same on
// all ranks.
//
// From which size on it pays is measured when the communicator is made (probe.Lending). On AMD EPYC (Zen 5, virtual)
// with two ranks on two cores an AllGather of 32 KiB takes 10.8 us by that call and 5.7 through slots, 128 KiB 15.1 and
// 13.6, 1 MiB 121 and 112; a Broadcast 8.1 and 3.6, 9.3 and 7.2, 30 and 51: the sender, which has nothing else to do,
// copies half of it (see help). Where cores share a cache, slots, which stay there, can be quicker for any size
// (Lending.SlotsAlone). The figures below are of an Intel Xeon.
//
// A reduction gains nothing: the ranks of an AllReduce are busy anyway, and a rank must read again the bytes that it
// has read. 2 MiB take 343 us through slots, 407 with inputs lent, 504 with results lent, and 458 with both.
//
// Where ranks share cores every copy counts, also that of the sender. But the
// call itself is dear there, and a payload that goes to several ranks is copied
// to a slot once: with four ranks on two cores an AllToAll of parts of 64 KiB
// takes 31 us and 108 through slots, of 16 KiB 20 and 21, of 4 KiB 15 and 9;
// Broadcast, AllGather and Gather gain nothing.
func (e *Engine) lendsOwn(kind call.Kind, bytes int64) bool {
	switch {
	case bytes < e.lending.From, e.lending.SlotsAlone && e.helps(kind):
		return false
	case e.oversubscribed:
		return (kind == call.AllToAll || kind == call.Scatter) && bytes >= p2p.LentOversubscribed
	case kind == call.AllGather, kind == call.ExScan, kind == call.AllToAll && bytes >= partsFrom, bytes >= slotsFrom:
		return !e.lending.below(clearGain)
	}
	return e.helps(kind) || !e.lending.below(exchangeGain)
}

// Where copies to slots are quick (see cpu.Copy) and ranks have cores of their own, lent memory pays less
// often than its measured gain: two copies in the caches are quicker than one by the system call. On two cores of an
// AMD EPYC that share a cache, where the gain is 0.4, and in brackets on cores that do not, where it is 1, us lent and
// through slots:
//
//	ExScan    1 MiB  67, 25 (74, 44)    8 MiB   750, 230   (810, 370)
//	AllGather 1 MiB  98, 77 (138, 99)   8 MiB 1,650, 1,090 (2,340, 1,210)
//	AllToAll  1 MiB 114, 89 (127, 125)  8 MiB 2,360, 1,510 (2,080, 1,460)
//	SendRecv  1 MiB  68, 53 (58, 84)    8 MiB 1,060, 610   (800, 750)
//	Gather    1 MiB         (62, 64)    8 MiB              (770, 600)
const (
	exchangeGain = 0.6     // below it ranks that send and receive use slots,
	clearGain    = 1.5     // and below it so do an AllGather, an ExScan,
	partsFrom    = 1 << 20 // an AllToAll with parts of that many bytes,
	slotsFrom    = 8 << 20 // and whatever is of that many
)

// below reports whether lent memory is known to gain less than that.
func (l *Lending) below(gain float64) bool { return l.Gain > 0 && l.Gain < gain }

// messages returns the sizes from and below which messages are lent.
func (l *Lending) messages(oversubscribed bool) (from, below int64) {
	switch {
	case oversubscribed || !l.below(clearGain):
		return l.From, math.MaxInt64
	case l.below(exchangeGain):
		return math.MaxInt64, math.MaxInt64
	}
	return l.From, slotsFrom
}

// prepareLending determines which buffers of c can be lent.
func (e *Engine) prepareLending(c *Call) {
	c.lendIn, c.lendOut, c.mayIn, c.mayOut, c.lent = false, false, false, false, false
	c.inPlace = kernel.OverlapOf(c.In, c.Out) != kernel.Apart
	bytes := c.bytes()
	if len(c.Pieces) > 0 || bytes < sharedFrom {
		return
	}
	c.mayIn, c.mayOut = !c.Scale && len(c.In) > 0, c.Divide < 2 && !c.Truths && len(c.Out) > 0
	shared := !e.oversubscribed || bytes >= sharedOversubscribedFrom || c.ID.Kind != call.Broadcast
	c.lendIn = c.mayIn && (c.wide || shared && e.ep.Shared(c.In))
	c.lendOut = c.mayOut && (c.wide || shared && e.ep.Shared(c.Out))
}

// lends reports whether the value that s sends can be read where it lies in the caller's memory: it must not change
// before all receivers have read it.
func (c *Call) lends(s *step) bool {
	switch buf, _, _ := s.value(); buf {
	case plan.In:
		lasts := s.keepsIn || c.Op == 0 && c.Func == nil && c.ID.Kind != call.AllToAll
		return (c.lendIn || c.mayIn && s.zeroCopy) && (lasts || !c.inPlace)
	case plan.Out:
		return s.keepsOut && (c.lendOut || c.mayOut && s.zeroCopy)
	}
	return false
}

// lends reports whether t lends n bytes that s sends. In a wide call, tracks with short parts lend nothing.
func (t *track) lends(s *step, n int) bool {
	return n > transport.MaxInline && t.wide == t.call.wide && t.call.lends(s)
}

// lend computes the value of s where it belongs, and lends it to the receivers.
func (t *track) lend(s *step, from, n int) {
	c := t.call
	if s.Dst != plan.None {
		t.move(s, nil, from, n)
	}
	b, part, _ := s.value()
	window := t.buffer(b, part, c.In, c.Out, t.Start+from, n)
	c.lent = true
	helps := t.e.helps(c.ID.Kind)
	for _, o := range s.outs {
		o.link.Lend(&t.head, window, helps)
	}
}

// returned reports whether all that t has lent has come back.
func (t *track) returned() bool {
	for i := range t.steps {
		for _, o := range t.steps[i].outs {
			if !o.link.Returned() {
				return false
			}
		}
	}
	return true
}

// helps reports whether this rank copies parts of the memory that it lends in calls of a kind: it has a core of its own
// and no other work than to wait for the receivers. A rank that receives as well has its own copying to do: of two that
// exchange 256 KiB each takes 13 us, 20 if they help each other.
func (e *Engine) helps(kind call.Kind) bool {
	switch kind {
	case call.Broadcast, call.Gather, call.Scatter:
		return !e.oversubscribed
	}
	return false
}

// help sends lent memory of t that its receivers cannot read, and where this rank helps copies a part of it to the
// receivers' memory.
func (t *track) help() error {
	if !t.call.lent {
		return nil
	}
	idle := t.e.helps(t.call.ID.Kind)
	for i := range t.steps {
		for _, o := range t.steps[i].outs {
			if ok, err := o.link.Help(idle); ok || err != nil {
				t.e.steps++
				return transport.OnLink(err, "sending to", int(o.to))
			}
		}
	}
	return nil
}
