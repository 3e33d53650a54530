package segment

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/ring"
)

// drawLayout draws a small valid layout.
func drawLayout(t *rapid.T) transport.Layout {
	return transport.Layout{
		Size:      rapid.IntRange(1, 9).Draw(t, "size"),
		Slots:     1 << rapid.IntRange(1, 5).Draw(t, "slots"),
		SlotBytes: 64 * rapid.IntRange(1, 100).Draw(t, "lines"),
		HeapBytes: rapid.SampledFrom([]int{0, transport.HeapGrain, transport.MaxHeapBytes}).Draw(t, "heap"),
	}
}

// drawLinks draws some links of a layout.
func drawLinks(t *rapid.T, l *transport.Layout) (links []transport.Link) {
	for lane := range rapid.IntRange(0, 3).Draw(t, "lanes") {
		for a := range l.Size {
			for b := range l.Size {
				if a != b && rapid.Bool().Draw(t, "link") {
					links = append(links, transport.Link{Lane: lane, Src: a, Dst: b})
				}
			}
		}
	}
	return links
}

// TestMapPlaces checks that all areas lie inside the segment, that none overlaps another, and that each is aligned as
// its readers need it.
func TestMapPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLayout(t)
		m, err := NewMap(l)
		if err != nil {
			t.Fatal(err)
		}
		type area struct{ from, to int }
		areas := []area{{0, headBytes}}
		for r := range l.Size {
			from := headBytes + r*rankBytes
			areas = append(areas, area{from, from + rankBytes})
		}
		b := make([]byte, m.fifoBytes)
		for _, k := range drawLinks(t, &l) {
			ctl, data := m.areas(k, b)
			c, d := m.fifo(k)+offsetIn(b, ctl), m.fifo(k)+offsetIn(b, data)
			if c%128 != 0 || d%pageBytes != 0 || len(ctl) < ring.ControlBytes(l.Slots) || len(data) < l.Slots*l.SlotBytes {
				t.Fatalf("%v: control area of %d bytes at %d, data of %d at %d", k, len(ctl), c, len(data), d)
			}
			areas = append(areas, area{c, c + len(ctl)}, area{d, d + len(data)})
		}
		slices.SortFunc(areas, func(a, b area) int { return a.from - b.from })
		for i, a := range areas {
			if a.to > m.Heaps || i > 0 && a.from < areas[i-1].to {
				t.Fatalf("area %v after %v in a segment of %d bytes", a, areas[max(i-1, 0)], m.Heaps)
			}
		}
		if m.Bytes%pageBytes != 0 || m.Heaps%pageBytes != 0 {
			t.Fatalf("board of %d bytes, heaps from %d", m.Bytes, m.Heaps)
		}
		from, n := m.Words()
		for i := range m.Rooms() + 1 {
			at, end := m.Room(i), m.Room(i)+m.Ends
			if at%pageBytes != 0 || i == 0 && end > from || i > 0 && at != max(m.Room(i-1)+m.Ends, from+n) || end > m.Total {
				t.Fatalf("room %d of %d from %d to %d in a segment of %d bytes", i, m.Rooms(), at, end, m.Total)
			}
		}
		if n < 4*(m.Rooms()+1) || m.Rooms()%l.MemberCount() != 0 || m.Total > maxSegment+n {
			t.Fatalf("%d bytes of words for %d rooms in a segment of %d bytes", n, m.Rooms(), m.Total)
		}
	})
}

// TestMapDigest checks that another layout has another digest.
func TestMapDigest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLayout(t)
		a, _ := NewMap(l)
		for name, change := range map[string]func(*transport.Layout){
			"size":  func(l *transport.Layout) { l.Size++ },
			"slots": func(l *transport.Layout) { l.Slots *= 2 },
			"bytes": func(l *transport.Layout) { l.SlotBytes += 64 },
		} {
			other := l
			change(&other)
			if c, err := NewMap(other); err == nil && c.Digest == a.Digest {
				t.Fatalf("another %s, the same digest", name)
			}
		}
	})
}

func TestMapTooLarge(t *testing.T) {
	l := transport.Layout{Size: transport.MaxRanks, Slots: transport.MaxSlots, SlotBytes: transport.MaxSlotBytes}
	if _, err := NewMap(l); err == nil {
		t.Error("a segment of 1<<45 * 64 GiB: no error")
	}
}

// view makes one rank's endpoint over heap memory, with bells that wake no process.
func view(t testing.TB, size int) (*Endpoint, []byte) {
	m, err := NewMap(transport.Layout{Size: size, Slots: 2, SlotBytes: 64})
	if err != nil {
		t.Fatal(err)
	}
	b := Heap(m.Bytes)
	return New(m, b, 0, func(int) {}, newParts()), b
}

// TestDiesWhilePublishing checks that a writer that dies between any two of its stores leaves the call before in place,
// and that readers do not hang.
func TestDiesWhilePublishing(t *testing.T) {
	e, b := view(t, 2)
	board := e.m.rank(b, 1)
	for seq := uint64(1); seq < 5; seq++ {
		last := call.Header{Seq: seq, Count: 100 + seq, What: call.What(0, 0, 0, 0, -1)}
		publishCall(board, &last)
		k := loadWord(board[offStatus:], 0) + 1
		half := statusCopy(board[offStatus:offStatus+statusBytes], k)
		for i := range 2 * 8 { // two of three words, byte by byte
			half[i] = 0xEE
			if got := e.Status(1).Call; got != last {
				t.Fatalf("after %d bytes of the next call: %+v, want %+v", i+1, got, last)
			}
		}
	}
}

// TestCallBeforeWhileOthersFollow checks that the oldest call that can be looked up is whole and the right one while
// the rank publishes.
func TestCallBeforeWhileOthersFollow(t *testing.T) {
	e, b := view(t, 2)
	board := e.m.rank(b, 1)
	var over atomic.Bool
	var writer sync.WaitGroup
	writer.Go(func() {
		for seq := uint64(1); !over.Load(); seq++ {
			publishCall(board, &call.Header{Seq: seq, Count: 100 + seq, What: call.What(0, 0, 0, 0, -1)})
		}
	})
	const back = transport.History
	for range 20_000 {
		before := e.Status(1).Call.Seq
		got, ok := e.CallBefore(1, back)
		after := e.Status(1).Call.Seq
		if ok && (got.Count != 100+got.Seq || got.Seq+back < before || got.Seq+back > after) {
			t.Errorf("%+v, while the latest was %d to %d", got, before, after)
			break
		}
	}
	over.Store(true)
	writer.Wait()
}

// TestDiesWhileAborting checks that a rank that dies after writing its record and before the election leaves no fault,
// and that another rank's is elected.
func TestDiesWhileAborting(t *testing.T) {
	e, b := view(t, 3)
	writeRecord(record(e.m.rank(b, 1), reported), transport.Fault{Rank: 1, Text: "never elected"})
	if f, ok := e.Aborted(); ok {
		t.Fatalf("fault %+v without an election", f)
	}
	want := transport.Fault{Rank: 2, Text: "elected"}
	e.Abort(want)
	if f, ok := e.Aborted(); !ok || f != want {
		t.Errorf("fault %+v, %v, want %+v", f, ok, want)
	}
}

// FuzzHostileBoard checks that reading a board of any contents neither panics nor reads outside, and that a fault names
// a rank of the set or none.
func FuzzHostileBoard(f *testing.F) {
	f.Add(uint32(1), []byte{0, 0, 0, 0, 255, 255, 255, 255})
	f.Add(uint32(2), []byte{2, 0, 0, 0, 3, 0, 0, 0, 'a', 'b', 'c'})
	f.Add(uint32(3), []byte{})
	f.Add(^uint32(0), []byte("xxxxxxxxxxxxxxxx"))
	f.Fuzz(func(t *testing.T, elected uint32, dirt []byte) {
		const size = 3
		e, b := view(t, size)
		for r := range size {
			copy(e.m.rank(b, r)[offRecord:], dirt)
			copy(e.m.rank(b, r)[offStatus:offRecord], dirt)
			copy(e.m.rank(b, r)[:offStatus], dirt)
		}
		storeWord(b, offFault, elected)
		for r := range size {
			_ = e.Status(r)
		}
		fault, ok := e.Aborted()
		if ok != (elected != 0) || fault.Rank < -1 || fault.Rank >= size || len(fault.Text) > transport.MaxFaultText {
			t.Fatalf("word %d: fault %+v, %v", elected, fault, ok)
		}
		e.Abort(transport.Fault{Rank: 1, Text: "late"})
	})
}
