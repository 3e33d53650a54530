package status

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
)

// page returns a page and the memory that it is in.
func page() (*Page, []byte) {
	words := make([]uint64, Bytes/8+1)
	b := bytesOf(words)
	return NewPage(b), b
}

func read(t *testing.T, b []byte) *Rank {
	t.Helper()
	r, err := Read(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A page shows the world of its rank, its waits, and the communicators that are open, with the latest calls of each.
func TestPage(t *testing.T) {
	p, b := page()
	if r := read(t, b); r.Phase != Starting || r.Size != 0 || len(r.Comms) > 0 || len(r.Waits) > 0 {
		t.Errorf("at first: %+v", r)
	}
	p.SetWorld(77, 2, 3, 8)
	p.SetPhase(Running)
	if !p.SetWaits([]byte("for rank 5")) || p.SetWaits(make([]byte, maxWaits+1)) {
		t.Error("waits that fit are refused, or others are not")
	}
	first, closeFirst := p.Open("world", 8)
	second, _ := p.Open(strings.Repeat("long", 20)+"\n", 4)
	const calls = 300
	for i := range uint64(calls) {
		id := call.ID{Kind: call.AllReduce, Op: kernel.Sum, DType: kernel.Float32, Seq: i + 1, Count: 10 * i, Root: -1}
		h := id.Header()
		first.Log.Put(&h)
		Add(&first.Rows[RowOf(&id)].Calls, 1)
		Add(&first.Rows[RowOf(&id)].Bytes, int(4*id.Count))
	}
	second.Now = int32(RowRecv) + 1
	r := read(t, b)
	if r.Epoch != 2 || r.Rank != 3 || r.Size != 8 || r.PID != 77 || r.Phase != Running || string(r.Waits) != "for rank 5" {
		t.Errorf("the rank: %+v", r)
	}
	if len(r.Comms) != 2 || r.Comms[0].Name != "world" || r.Comms[0].In != "" || r.Comms[1].In != "Recv" ||
		r.Comms[1].Size != 4 || !strings.HasPrefix(r.Comms[1].Name, "longlong") || len(r.Comms[1].Name) > 60 {
		t.Fatalf("communicators: %+v", r.Comms)
	}
	latest := r.Comms[0].Latest
	if len(latest) != maxLatest || latest[0].Seq != calls || latest[maxLatest-1].Seq != calls-maxLatest+1 ||
		latest[0].String() != "AllReduce #300 (sum of 2990 float32)" {
		t.Errorf("calls: %v", latest)
	}
	want := Total{Call: "AllReduce", Calls: calls, Bytes: 4 * 10 * calls * (calls - 1) / 2}
	if !slices.Equal(r.Comms[0].Totals, []Total{want}) {
		t.Errorf("totals %v, want %v", r.Comms[0].Totals, want)
	}
	closeFirst()
	ended, err := ReadEnded(bytes.NewReader(b))
	if err != nil || len(ended.Comms) < 1 || !ended.Comms[0].Closed || !slices.Equal(ended.Comms[0].Latest, latest) {
		t.Errorf("after Close the page of a rank that has ended has %+v, %v", ended, err)
	}
	if r := read(t, b); len(r.Comms) != len(ended.Comms)-1 {
		t.Errorf("%d communicators are open, want one less than %d", len(r.Comms), len(ended.Comms))
	}
	if again, _ := p.Open("again", 8); again != first || again.Log != (call.Log{}) || again.Rows[1].Calls != 0 {
		t.Error("the place of a closed communicator has not been cleared, or not been used")
	}
	for range maxComms {
		_, hide := p.Open("more", 2)
		defer hide()
	}
	if r := read(t, b); len(r.Comms) != maxComms || r.Hidden != 2 {
		t.Errorf("%d communicators, %d hidden, want %d and 2", len(r.Comms), r.Hidden, maxComms)
	}
}

// A glance has what changes when a rank calls, waits, and is in a call.
func TestGlance(t *testing.T) {
	p, b := page()
	p.SetWorld(77, 0, 1, 8)
	c, _ := p.Open("world", 8)
	glance := func() Glance {
		t.Helper()
		g, err := ReadGlance(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	first := glance()
	Add(&c.Rows[1].Calls, 1)
	c.Now = 2
	p.SetWaits([]byte("waits"))
	if g := glance(); g.Size != 8 || g.Calls != first.Calls+1 || !g.In || first.In || g.Waits == first.Waits {
		t.Errorf("%+v, before %+v", g, first)
	}
	if w, err := ReadWaits(bytes.NewReader(b)); err != nil || string(w) != "waits" {
		t.Errorf("waits %q, %v", w, err)
	}
}

// Without a page everything works, and nothing is shown.
func TestNoPage(t *testing.T) {
	var p *Page
	p.SetWorld(1, 0, 0, 1)
	c, hide := p.Open("world", 1)
	if c == nil || !p.SetWaits(nil) {
		t.Error("no calls, or no waits")
	}
	hide()
}

// A page that is damaged gives an error, or numbers and texts that can be shown.
func FuzzRead(f *testing.F) {
	p, b := page()
	p.SetWorld(77, 2, 3, 8)
	c, _ := p.Open("world", 8)
	h := call.ID{Kind: call.Barrier, Seq: 1}.Header()
	c.Log.Put(&h)
	f.Add(b[:256], 0)
	f.Add(b[:16], 100)
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff"), 16)
	f.Fuzz(func(t *testing.T, part []byte, at int) {
		damaged := slices.Clone(b)
		if at < 0 || at > len(b) {
			at = 0
		}
		copy(damaged[at:], part)
		_, _ = ReadGlance(bytes.NewReader(damaged))
		if w, err := ReadWaits(bytes.NewReader(damaged)); err != nil || len(w) > maxWaits {
			t.Errorf("waits of %d bytes, %v", len(w), err)
		}
		r, err := ReadEnded(bytes.NewReader(damaged))
		if err != nil {
			return
		}
		for _, c := range r.Comms {
			if len(c.Latest) > maxLatest || strings.ContainsFunc(c.Name, func(r rune) bool { return r < ' ' }) {
				t.Errorf("%+v", c)
			}
			for _, id := range c.Latest {
				_ = id.String()
			}
		}
		if _, err := Read(bytes.NewReader(damaged[:maxWaits])); err == nil {
			t.Error("a part of a page was read without an error")
		}
	})
}
