package drive

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/collective/internal/engine"
	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/collective/sparse/internal/merge"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/shm"
)

// counter is a Finder of every n-th block, where n is the field every, a word of the set at a time.
type counter struct {
	set           block.Set
	blocks, every int
	known         int
}

func (c *counter) Known() int { return c.known }
func (c *counter) Find() {
	to := min(c.known+64, c.blocks)
	for ; c.known < to; c.known++ {
		if c.known%c.every == 0 {
			c.set.Add(c.known)
		}
	}
}

// searchers are two ranks, the second one a leaf, each of which has every 64th block of
// 1 KiB of a tensor and has found none yet.
type searchers struct {
	grid    block.Grid
	merges  []*Trees
	finders []*counter
	tensors [][]byte
}

func newSearchers(t *testing.T) *searchers {
	t.Helper()
	const blocks, every = 9 << 10, 64
	s := &searchers{grid: block.Grid{Elements: 256 * blocks, Size: 256, Width: 4}}
	trees := []topo.Tree{{Root: 0, Parent: []int{-1, 0}}}
	layout := transport.Layout{Size: 2, Slots: 8, SlotBytes: 32 << 10}
	eps := testutil.Links(t, 2, func(w *testutil.World) (transport.Endpoint, error) {
		return shm.Connect(t.Context(), shm.Config{Rank: w.Rank(), Layout: layout, Key: make([]byte, shm.KeyBytes),
			JobID: "test", Exchange: w.AllGather})
	})
	for r, ep := range eps {
		t.Cleanup(func() { _ = ep.Close() })
		m, err := NewTrees(ep, trees, r)
		if err != nil {
			t.Fatal(err)
		}
		f := &counter{set: block.NewSet(blocks), blocks: blocks, every: every}
		data := make([]byte, s.grid.Bytes())
		for b := 0; b < blocks; b += every {
			data[b<<10] = byte(1 + r)
		}
		err = m.Begin(call.Header{Seq: 1}, merge.Job{Tensor: 1, Grid: s.grid,
			Op: kernel.Sum, DType: kernel.Int32, Send: data, Recv: data, Finder: f}, []block.Set{f.set}, false)
		if err != nil {
			t.Fatal(err)
		}
		s.merges, s.finders, s.tensors = append(s.merges, m), append(s.finders, f),
			append(s.tensors, data)
	}
	return s
}

// A rank that searches polls its links after a megabyte, whether or not a chunk is full by then; sends a small chunk
// first and then full ones; and yields to another rank every four megabytes.
func TestSearchTakesTurns(t *testing.T) {
	s := newSearchers(t)
	leaf, finder := s.merges[1], s.finders[1]
	sent, turns := 0, 0
	var sizes []int
	for before := 0; finder.known < finder.blocks; before = finder.known {
		if _, err := leaf.Poll(); err != nil {
			t.Fatal(err)
		}
		if n := (finder.known - before) << 10; n <= 0 || n > searchBytes+128<<10 {
			t.Fatalf("%d bytes are searched between two looks at the links", n)
		}
		if c, _ := leaf.Counts(); c.SentBytes > sent {
			sizes, sent = append(sizes, c.SentBytes-sent), c.SentBytes
		}
		if leaf.shouldYield() {
			turns++
		}
	}
	if len(sizes) < 2 || sizes[0] > 8<<10 || sizes[1] < 30<<10 {
		t.Errorf("chunks of %d bytes while it searches, want a small one first and then full ones", sizes)
	}
	if turns != 2 || leaf.shouldYield() {
		t.Errorf("it is another rank's turn %d times in 9 MB", turns)
	}
}

// A chunk of another call is an error of the rank that receives it, whichever side of the tree it is on.
func TestChunkOfAnotherCall(t *testing.T) {
	for receiver := range 2 {
		s := newSearchers(t)
		polls := 4 * len(s.tensors[0]) / searchBytes
		poll := func(rank int) (err error) {
			for i := 0; i < polls && err == nil && !s.merges[rank].Done(); i++ {
				_, err = s.merges[rank].Poll()
			}
			return err
		}
		var err error
		if receiver == 0 {
			s.merges[1].head.Seq++
			err = errors.Join(poll(1), poll(0))
		} else {
			err = errors.Join(poll(1), poll(0))
			s.merges[1].head.Seq++
			err = errors.Join(err, poll(1))
		}
		if want := fmt.Sprintf("rank %d: ", 1-receiver); !errors.Is(err, block.ErrMismatch) ||
			!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "of another call (number") {
			t.Errorf("rank %d receives a chunk of another call: %v, want an ErrMismatch with %q", receiver, err, want)
		}
	}
}

// Ranks that send while they search send all their blocks, and ranks that share a core yield it meanwhile.
func TestSearchersAddUp(t *testing.T) {
	s := newSearchers(t)
	want := make([]byte, s.grid.Bytes())
	for b := 0; b < s.grid.Blocks(); b += 64 {
		want[b<<10] = 3
	}
	done := make(chan bool)
	for r := range s.merges {
		go func() {
			fault, failed := Run(t.Context(), s.merges[r],
				&engine.Waiter{Spins: 1, Yields: 4, Backoff: 300 * time.Microsecond},
				"test")
			if failed {
				t.Errorf("rank %d: %+v", r, fault)
			}
			done <- true
		}()
	}
	<-done
	<-done
	for r, data := range s.tensors {
		if !bytes.Equal(data, want) {
			t.Errorf("rank %d has another result", r)
		}
		if s.merges[r].yieldedAt == 0 {
			t.Errorf("rank %d has kept its core for all of the search", r)
		}
	}
}
