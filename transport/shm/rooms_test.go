//go:build linux

package shm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
)

// roomed is a set of some ranks of a set in one memory file.
type roomed struct {
	ranks []int // by their numbers in the first set
	ends  []transport.Endpoint
	room  int
}

// made returns a set of some ranks of s, in the memory of s.
func (s *roomed) made(members []int) (*roomed, error) {
	sub := &roomed{}
	layout := transport.Layout{Size: len(members), Slots: 2, SlotBytes: 256, HeapBytes: 2 << 20}
	var offers []*Offer
	for _, m := range members {
		o := s.ends[m].(*Endpoint).Offer()
		if o == nil {
			return nil, errors.New("no room is left")
		}
		offers, sub.ranks = append(offers, o), append(sub.ranks, s.ranks[m])
	}
	for r, o := range offers {
		sub.room = offers[0].Room
		e, err := o.Join(offers[0].Room, members, layout, r, "child")
		if err != nil {
			return nil, err
		}
		sub.ends = append(sub.ends, e)
	}
	return sub, nil
}

// use checks that nothing has happened in s before, and then sends contents of its own on all links and heaps.
func (s *roomed) use(seed int, keep bool) error {
	for r, e := range s.ends {
		if _, failed := e.Aborted(); failed {
			return errors.New("a new set has a fault")
		}
		for q := range s.ends {
			if st := e.Status(q); st != (transport.Status{}) {
				return fmt.Errorf("rank %d of a new set: %+v", q, st)
			}
		}
		b, err := e.Alloc(5000 + 100*seed)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(b, func(v byte) bool { return v != 0 }); i >= 0 {
			return fmt.Errorf("byte %d of a new block is %d", i, b[i])
		}
		fill(b, seed+r)
		at, _ := e.Offset(b)
		for q, o := range s.ends {
			if seen, err := o.View(r, at, len(b)); err != nil || checkFill(seen, seed+r) != nil {
				return fmt.Errorf("block of rank %d at rank %d: %v, %v", r, q, checkFill(seen, seed+r), err)
			}
			if err := s.send(r, q, seed); err != nil {
				return fmt.Errorf("rank %d -> rank %d: %w", r, q, err)
			}
		}
		if keep {
			continue
		}
		if err := e.Free(b); err != nil {
			return err
		}
	}
	return nil
}

// send sends a chunk from rank a to rank b.
func (s *roomed) send(a, b, seed int) error {
	if a == b {
		return nil
	}
	tx, err := s.ends[a].Sender(seed%7, b)
	if err != nil {
		return err
	}
	rx, err := s.ends[b].Receiver(seed%7, a)
	if err != nil {
		return err
	}
	w, err := spinReserve(tx, 200)
	if err != nil {
		return err
	}
	fill(w, seed+a)
	tx.Commit(&call.Header{Seq: uint64(seed)})
	var h call.Header
	got, err := spinPeek(rx, &h)
	if err != nil {
		return err
	}
	if h.Seq != uint64(seed) {
		return fmt.Errorf("a chunk of call %d, want %d", h.Seq, seed)
	}
	return checkFill(got, seed+a) // and is never released
}

// TestRooms makes sets of some ranks of others in the memory of the first one, uses them, and closes them and the first
// one in any order, rank by rank. No set sees anything of another one, a fault of one is none of the others, and the
// memory and the descriptors are given back.
func TestRooms(t *testing.T) {
	mustClose(t, mustConnect(t, testutil.Pair(2, 64))) // the poller's own descriptors
	for seed := range uint64(testutil.Count(20, 200)) {
		defer checkLeft(t)()
		rng := rand.New(rand.NewPCG(seed, 1))
		l := transport.Layout{Size: 3, Slots: 2, SlotBytes: 256, HeapBytes: 2 << 20}
		open := []*roomed{{ranks: []int{0, 1, 2}, ends: mustConnect(t, l)}}
		for step := 0; step < 60 || len(open) > 0; step++ {
			i := rng.IntN(max(len(open), 1))
			if step < 60 && len(open) > 0 && rng.IntN(2) == 0 && !slices.Contains(open[i].ends, nil) {
				members := rng.Perm(len(open[i].ends))
				sub, err := open[i].made(members[:1+rng.IntN(len(members))])
				if err == nil {
					err = sub.use(step, false)
				}
				if err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, step, err)
				}
				if rng.IntN(3) == 0 {
					sub.ends[0].Abort(transport.Faultf(transport.FaultAborted, 0, "fault of step %d", step))
				}
				open = append(open, sub)
				continue
			}
			if len(open) == 0 {
				break
			}
			s := open[i]
			if r := rng.IntN(len(s.ends)); s.ends[r] != nil {
				mustClose(t, s.ends[r:r+1])
				s.ends[r] = nil
			}
			if !slices.ContainsFunc(s.ends, func(e transport.Endpoint) bool { return e != nil }) {
				open = slices.Delete(open, i, i+1)
			}
		}
	}
}

// A room is used again once all its ranks have left it, and not before; and never if one of them has kept a block. A
// rank without a room makes no Offer.
func TestRoomsAreUsedAgain(t *testing.T) {
	s := &roomed{ranks: []int{0, 1}, ends: mustConnect(t, transport.Layout{Size: 2, Slots: 2, SlotBytes: 256,
		HeapBytes: 2 << 20})}
	defer mustClose(t, s.ends)
	var subs []*roomed
	made := func() *roomed {
		sub, err := s.made([]int{1, 0})
		if err != nil {
			t.Fatal(err)
		}
		subs = append(subs, sub)
		return sub
	}
	first := made()
	mustClose(t, first.ends[:1])
	if other := made(); other.room == first.room {
		t.Error("the room of a rank that has not closed was given to another set")
	}
	mustClose(t, first.ends[1:])
	second := made()
	if second.room != first.room {
		t.Errorf("room %d, want %d, which all have left", second.room, first.room)
	}
	if err := second.use(3, true); err != nil {
		t.Fatal(err)
	}
	mustClose(t, second.ends)
	if third := made(); third.room == second.room {
		t.Error("the room of a block that is kept was given to another set")
	}
	var held []*Offer
	for o := s.ends[0].(*Endpoint).Offer(); o != nil; o = s.ends[0].(*Endpoint).Offer() {
		held = append(held, o)
	}
	held[0].Drop(true)
	held[1].Drop(false)
	again := s.ends[0].(*Endpoint).Offer()
	if none := s.ends[0].(*Endpoint).Offer(); again == nil || again.Room != held[0].Room || none != nil {
		t.Errorf("offers %v and %v after one room was given back, %d", again, none, held[0].Room)
	}
	for _, o := range append(held[2:], again) {
		o.Drop(true)
	}
	for _, sub := range subs {
		mustClose(t, sub.ends) // once more where it is closed
	}
}

// A place that no segment of the layout has room in is an error, whatever a peer has sent.
func TestRoomsFromPeers(t *testing.T) {
	ends := mustConnect(t, testutil.Pair(2, 256))
	defer mustClose(t, ends)
	o := ends[0].(*Endpoint).Offer()
	defer o.Drop(true)
	for _, c := range []struct {
		room   int
		layout transport.Layout
	}{
		{0, testutil.Pair(2, 256)}, {-1, testutil.Pair(2, 256)}, {1 << 40, testutil.Pair(2, 256)},
		{o.Room, testutil.Pair(64, 4096)}, {o.Room, transport.Layout{Size: 1, Slots: 2, SlotBytes: 256}},
		{o.Room, transport.Layout{Size: 2, Slots: 2, SlotBytes: 256, HeapBytes: 2 << 20}},
		{o.Room, transport.Layout{Size: 2, Slots: 3, SlotBytes: 256}},
	} {
		if e, err := o.Join(c.room, []int{0, 1}, c.layout, 0, ""); err == nil {
			t.Errorf("room %d of %+v: %v, no error", c.room, c.layout, e)
		}
	}
}
