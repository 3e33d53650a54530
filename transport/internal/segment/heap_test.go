package segment

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/treerun/treerun/transport"
)

func newParts() *parts { return &parts{all: make(map[int][]byte)} }

// parts is a Store of heap memory that counts mapped bytes.
type parts struct {
	mu     sync.Mutex
	all    map[int][]byte
	mapped int // bytes, by all endpoints
	broken error
}

func (p *parts) Map(from, n int) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken != nil {
		return nil, p.broken
	}
	if p.all[from] == nil {
		p.all[from] = Heap(n)
	}
	p.mapped += n
	return p.all[from], nil
}

func (*parts) Allocate(int, []byte) error       { return nil }
func (*parts) Deallocate(_ int, b []byte) error { clear(b); return nil }
func (p *parts) expect(t *testing.T, mib int) {
	t.Helper()
	if p.mapped != mib<<20 {
		t.Errorf("%d bytes are mapped, want %d MiB", p.mapped, mib)
	}
}

// withHeaps makes the endpoints of two ranks with heaps of the given number of bytes.
func withHeaps(t *testing.T, heap int) (ends [2]*Endpoint, p *parts) {
	t.Helper()
	m, err := NewMap(transport.Layout{
		Size: 2, Slots: 2, SlotBytes: 1 << 12, HeapBytes: heap,
	})
	if err != nil {
		t.Fatal(err)
	}
	b := Heap(m.Bytes)
	p = newParts()
	for r := range ends {
		ends[r] = New(m, b, r, func(int) {}, p)
	}
	return ends, p
}

// A heap takes addresses only for the parts that have blocks, in a peer for the parts that it reads, and has its
// largest block in its last part.
func TestHeapInParts(t *testing.T) {
	ends, p := withHeaps(t, transport.MaxHeapBytes)
	p.expect(t, 0)
	small, err := ends[0].Alloc(100)
	if err != nil {
		t.Fatal(err)
	}
	p.expect(t, 2)
	if _, err := ends[0].Alloc(transport.HeapGrain); err != nil { // no room next to the small one
		t.Fatal(err)
	}
	p.expect(t, 4)
	large, err := ends[0].Alloc(3 << 20)
	if err != nil {
		t.Fatal(err)
	}
	p.expect(t, 8)
	for _, b := range [][]byte{small, large} {
		at, ok := ends[0].Offset(b)
		if _, wrong := ends[1].Offset(b); !ok || wrong || !ends[0].Shared(b[len(b)-1:]) || ends[1].Shared(b) {
			t.Fatalf("a block of %d bytes is rank 0's: %v, rank 1's: %v", len(b), ok, wrong)
		}
		b[0], b[len(b)-1] = 1, 2
		seen, err := ends[1].View(0, at, len(b))
		if err != nil || seen[0] != 1 || seen[len(b)-1] != 2 {
			t.Fatalf("rank 1 does not see the block of %d bytes at %d: %v", len(b), at, err)
		}
	}
	p.expect(t, 8+2+4)
	if _, err := ends[0].Alloc(transport.MaxHeapBytes/2 + 1); err == nil {
		t.Error("a block has more than the largest part")
	}
	for range 3 { // freed memory is one range again, and zero
		if err := ends[0].Free(large); err != nil {
			t.Fatal(err)
		}
		if large, err = ends[0].Alloc(4 << 20); err != nil || large[0] != 0 || large[3<<20-1] != 0 {
			t.Fatalf("a freed block, given out again: %v", err)
		}
		large[0] = 1
	}
	p.expect(t, 8+2+4)
}

// No block crosses parts, in whatever order blocks are allocated and freed.
func TestBlocksStayInParts(t *testing.T) {
	const size = 16 << 20
	ends, _ := withHeaps(t, size)
	e := ends[0]
	var blocks [][]byte
	for i := 0; ; i++ {
		b, err := e.Alloc(300<<10 + i*4096)
		if err != nil {
			break
		}
		if at, ok := e.Offset(b); !ok || !e.holds(at, len(b)) {
			t.Fatalf("block %d of %d bytes is at %d", i, len(b), at)
		}
		blocks = append(blocks, b)
	}
	if len(blocks) < 20 {
		t.Fatalf("%d blocks in %d bytes", len(blocks), size)
	}
	for first := range 2 { // so that spans are joined on either side
		for i := first; i < len(blocks); i += 2 {
			if err := e.Free(blocks[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if e.HasBlocks() {
		t.Error("all is given back, and there are blocks")
	}
	var free []string // each part is one block
	for _, n := range []int{2 << 20, 2 << 20, 4 << 20, 8 << 20} {
		b, err := e.Alloc(n)
		if err != nil {
			t.Fatal(err)
		}
		at, _ := e.Offset(b)
		free = append(free, fmt.Sprint(at>>20, "-", (at+n)>>20))
	}
	if got := strings.Join(free, " "); got != "0-2 2-4 4-8 8-16" {
		t.Errorf("when all is given back there are %s free", got)
	}
}

// A place in shared memory that a peer sends is checked: it is corrupt, or in one part. Memory that cannot be mapped
// gives an error that names its owner.
func TestPlacesFromPeers(t *testing.T) {
	ends, p := withHeaps(t, 8<<20)
	e := ends[0]
	end, err := e.Receiver(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	r, heap := end.(*receiver), uint64(e.m.Heaps)
	p.mapped = 0
	own := uint64(e.m.fifo(transport.Link{Src: 0, Dst: 1}))
	theirs := uint64(e.m.fifo(transport.Link{Lane: 7, Src: 1, Dst: 0}))
	size := uint64(e.m.fifoBytes)
	for _, bad := range []struct {
		at uint64
		n  int
	}{
		{heap, 2<<20 + 1}, {heap + 2<<20 - 1, 2}, {heap - 1, 2}, {heap + 16<<20, 1}, {heap + 16<<20 - 1, 2},
		{1 << 63, 1}, {^uint64(0), 1}, {^uint64(0) - 3, 8}, {uint64(e.m.Bytes) - 63, 64}, {heap + 8<<20 - 1, 2},
		{0, 64}, {own, 64}, {theirs + size - 1, 2}, {theirs, int(size) + 1},
	} {
		if b, err := r.resolve(bad.at, bad.n); !errors.Is(err, transport.ErrCorrupt) {
			t.Errorf("%d bytes at %d: %d bytes, %v", bad.n, bad.at, len(b), err)
		}
	}
	p.expect(t, 0)
	for _, good := range []struct {
		at uint64
		n  int
	}{{heap - 1, 1}, {heap, 2 << 20}, {heap + 4<<20, 4 << 20}, {heap + 16<<20 - 1, 1}} {
		if b, err := r.resolve(good.at, good.n); err != nil || len(b) != good.n {
			t.Errorf("%d bytes at %d: %d bytes, %v", good.n, good.at, len(b), err)
		}
	}
	p.mapped -= int(size) // of the last FIFO
	p.expect(t, 2+4+4)
	for _, in := range []uint64{0, size - 5} {
		if b, err := r.resolve(theirs+in, 5); err != nil || len(b) != 5 {
			t.Errorf("5 bytes at %d of another FIFO: %d bytes, %v", in, len(b), err)
		}
	}
	p.mapped -= int(size)
	p.expect(t, 2+4+4)
	p.broken = errors.New("no addresses")
	if _, err := ends[1].View(0, 0, 64); !errors.Is(err, p.broken) ||
		!strings.Contains(err.Error(), "2 MiB of the memory that rank 0 shares") {
		t.Errorf("memory that cannot be mapped: %v", err)
	}
	if _, err := ends[1].Alloc(64); !errors.Is(err, p.broken) || ends[1].HasBlocks() {
		t.Errorf("a block that cannot be mapped: %v", err)
	}
}
