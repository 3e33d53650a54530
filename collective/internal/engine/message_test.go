package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/treerun/treerun/collective/internal/p2p"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/transport"
)

// everyPair runs f as every rank, with a lane for messages.
func everyPair(t *testing.T, size, slots, slotBytes int, f func(k *Engine, rank int, w *Waiter) error) []error {
	t.Helper()
	layout := transport.Layout{Size: size, Slots: slots, SlotBytes: slotBytes}
	eps, err := openAll(layout)
	if err != nil {
		t.Fatal(err)
	}
	errs := make([]error, size)
	var all sync.WaitGroup
	for r, ep := range eps {
		all.Go(func() {
			k, w := New(ep, r, &layout, 0, false, Lending{From: 8 << 10}), &Waiter{Spins: 10, Yields: 10}
			err := f(k, r, w)
			if err == nil { // messages that the others still wait for may be kept
				k.Flush(context.Background(), w)
			}
			if errs[r] = err; err != nil { // the others may wait for this one
				ep.Abort(transport.Fault{Rank: r, Text: err.Error()})
			}
		})
	}
	all.Wait()
	for _, ep := range eps {
		if err := ep.Close(); err != nil {
			t.Error(err)
		}
	}
	return errs
}

func message(peer, tag, count int, buf []byte) *p2p.Message {
	return &p2p.Message{Peer: peer, Tag: int32(tag), DType: kernel.Int32, Buf: buf[:4*count]}
}

// TestMessages sends messages of many sizes and tags between all pairs of ranks, and receives them in another order
// than they were sent in, except those with the same tag. The list of senders and messages is the same on all ranks.
func TestMessages(t *testing.T) {
	const size, messages, tags = 4, 60, 5
	countOf := func(from, to, i int) int {
		n := (from*31 + to*17 + i*i*7) % 700
		if i%9 == 4 {
			n *= 120 // up to 330 KB: lent, by one or two chunks
		}
		return n
	}
	for r, err := range everyPair(t, size, 2, 256, func(k *Engine, rank int, w *Waiter) error {
		type expected struct {
			p         *p2p.Message
			got, want []byte
		}
		var sends []*p2p.Message
		var receives []expected
		for peer := range size {
			if peer == rank {
				continue
			}
			for i := range messages {
				out, in := countOf(rank, peer, i), countOf(peer, rank, i)
				sends = append(sends, message(peer, i%tags, out, numbers(rank*1000+i, out)))
				got := make([]byte, 4*in) // the Message drops it
				receives = append(receives, expected{message(peer, i%tags, in, got), got, numbers(peer*1000+i, in)})
			}
		}
		order := rand.New(rand.NewPCG(1, uint64(rank)))
		shuffled := make([]expected, len(receives))
		for tag := range tags { // tags in one order per rank, messages of a tag in theirs
			at := (tag*3 + rank) % tags
			for i, e := range receives {
				if i%tags == tag {
					shuffled[(i/tags)*tags+at] = e
				}
			}
		}
		for _, p := range sends {
			if err := k.StartMessage(p, true); err != nil {
				return err
			}
			if order.IntN(2) == 0 && len(shuffled) > 0 {
				if err := k.StartMessage(shuffled[0].p, false); err != nil {
					return err
				}
				receives = append(receives, shuffled[0])
				shuffled = shuffled[1:]
			}
		}
		for _, e := range shuffled {
			if err := k.StartMessage(e.p, false); err != nil {
				return err
			}
		}
		for _, p := range sends {
			if fault, failed := k.WaitMessage(context.Background(), p, w); failed {
				return fmt.Errorf("%v to rank %d: %+v", p, p.Peer, fault)
			}
		}
		for _, e := range receives {
			if fault, failed := k.WaitMessage(context.Background(), e.p, w); failed {
				return fmt.Errorf("%v from rank %d: %+v", e.p, e.p.Peer, fault)
			}
			if !slices.Equal(e.got, e.want) {
				return fmt.Errorf("%v from rank %d: wrong numbers", e.p, e.p.Peer)
			}
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// TestMessageMismatch: a message of another length or type than its Receive is
// an error on both ranks that names both.
func TestMessageMismatch(t *testing.T) {
	errs := everyPair(t, 2, 2, 256, func(k *Engine, rank int, w *Waiter) error {
		p := message(1-rank, 3, 20+rank, make([]byte, 400))
		if err := k.StartMessage(p, rank == 0); err != nil {
			fault, _ := k.failWait(err, p.String(), w)
			return fmt.Errorf("kind %d: %s", fault.Kind, fault.Text)
		}
		fault, failed := k.WaitMessage(context.Background(), p, w)
		if rank == 0 && !failed { // it has sent all; the fault comes later
			for failed = false; !failed; {
				fault, failed = k.ep.Aborted()
			}
		}
		return fmt.Errorf("kind %d: %s", fault.Kind, fault.Text)
	})
	kind := fmt.Sprintf("kind %d: ", transport.FaultMismatch)
	for r, err := range errs {
		if !strings.HasPrefix(err.Error(), kind) || !strings.Contains(err.Error(), "20 int32") ||
			!strings.Contains(err.Error(), "21 int32") {
			t.Errorf("rank %d: %v, want both lengths", r, err)
		}
	}
}

// TestWaitMessageSeesFault: a message that is done when its set has a fault is reported as
// one that may have failed, as a call is.
func TestWaitMessageSeesFault(t *testing.T) {
	for r, err := range everyPair(t, 2, 2, 256, func(k *Engine, rank int, w *Waiter) error {
		if rank == 1 {
			return nil
		}
		p := message(1, 1, 4, make([]byte, 16))
		if err := k.StartMessage(p, true); err != nil || !p.Done() {
			return fmt.Errorf("done: %v, %v", p.Done(), err)
		}
		want := transport.Fault{Rank: 1, Text: "gone"}
		k.ep.Abort(want)
		if fault, failed := k.WaitMessage(context.Background(), p, w); !failed || fault != want {
			return fmt.Errorf("%+v, %v, want %+v", fault, failed, want)
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}
