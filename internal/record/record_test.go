//go:build linux

package record

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/status"
)

const places = 1000

// recording returns a Writer and the file that it writes to.
func recording(t testing.TB) (*Writer, *os.File) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "memory"))
	if err == nil {
		err = f.Truncate(int64(Bytes(places)))
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, Bytes(places), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.Close()
		syscall.Munmap(b)
	})
	return NewWriter(b, places), f
}

// events reads all events of a recording.
func events(t *testing.T, f *os.File) (*Head, []Event) {
	t.Helper()
	h, err := Read(f, places)
	if err != nil {
		t.Fatal(err)
	}
	var all []Event
	for next := uint64(1); next <= h.Count; {
		var b []byte
		if b, next, err = ReadEvents(f, places, next, h.Count, 300); err != nil {
			t.Fatal(err)
		}
		some, err := Decode(b)
		if err != nil || len(some) > 300 {
			t.Fatalf("%d events, %v", len(some), err)
		}
		all = append(all, some...)
	}
	return h, all
}

// What a rank records is read from its file: events with their names, and totals.
func TestRecording(t *testing.T) {
	w, f := recording(t)
	const row, bytes = int(call.AllReduce), 100 << 10
	sum := Event{Kind: Call, Row: uint8(row), Comm: w.Name("world"), Label: w.Name("packing"), Peer: -1,
		Start: w.Time(time.Now()), Took: 250 * time.Microsecond, Bytes: bytes, Number: 7, Predicted: time.Millisecond,
		Waited: 30 * time.Microsecond}
	w.Put(&sum)
	wait := Event{Kind: Wait, Flags: Open, Peer: 5, Comm: w.Name("world"), Label: w.Name("AllReduce #8"), Start: 3}
	w.Put(&wait)
	w.Phase(Span, "", "load\n"+strings.Repeat("x", 100))()
	w.Replanned()
	c := w.Cell(row, bytes)
	c.Count(2, 2*bytes, 2*Bus(row, bytes, 4))
	c.Spend(300, 100, 400, 200)
	c.Best(300)
	c.Best(500)
	h, all := events(t, f)
	if len(all) != 3 || all[0] != sum || all[1] != wait || h.Name(sum.Label) != "packing" || sum.Sort() != "AllReduce" {
		t.Fatalf("%+v", all)
	}
	if e := all[2]; e.Kind != Span || h.Name(e.Comm) != "" || !strings.HasPrefix(h.Name(e.Label), "load?xxx") ||
		time.Since(time.Now().Add(-time.Duration(Clock()-e.Start))) > time.Minute {
		t.Errorf("%+v, %q", e, h.Name(e.Label))
	}
	if h.Plans != 1 {
		t.Errorf("%d new plans", h.Plans)
	}
	want := Total{Row: row, Size: 17, Calls: 2, Bytes: 2 * bytes, Bus: 3 * bytes, Busy: 300, Least: 300, Predicted: 400,
		Bound: 200, Waited: 100}
	if !slices.Equal(h.Totals, []Total{want}) || want.From() != 64<<10 || want.Sort() != "AllReduce" {
		t.Errorf("totals %+v, want %+v", h.Totals, want)
	}
}

// The ring keeps the latest events, and too many names become one.
func TestTooMany(t *testing.T) {
	w, f := recording(t)
	for i := range 3*places + 7 {
		w.Put(&Event{Kind: Span, Label: w.Name(strings.Repeat("n", i%50+1) + strings.Repeat("m", i%60)), Start: int64(i)})
	}
	h, all := events(t, f)
	if len(all) != places || all[0].Start != 2*places+7 || all[places-1].Start != 3*places+6 {
		t.Fatalf("%d events, %+v to %+v", len(all), all[0], all[len(all)-1])
	}
	if r := (Recording{*h, all}); r.Lost() != 2*places+7 {
		t.Errorf("%d events are lost", r.Lost())
	}
	for i := range 2 * maxNames {
		w.Name(time.Duration(i).String())
	}
	h, _ = events(t, f)
	if len(h.Names) != maxNames || h.Name(w.Name("one more")) != others || h.Name(maxNames+1) != others {
		t.Errorf("%d names, the last is %q", len(h.Names), h.Names[len(h.Names)-1])
	}
}

// A reader sees whole events only, while several goroutines write.
func TestReadWhileWritten(t *testing.T) {
	w, f := recording(t)
	var writers sync.WaitGroup
	for range 3 {
		writers.Go(func() {
			for i := range int64(50000) {
				w.Put(&Event{Kind: Call, Row: 1, Start: i, Took: time.Duration(i), Bytes: i, Number: uint64(i), Peer: int(i)})
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	read := 0
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		_, all := events(t, f)
		read += len(all)
		for _, e := range all {
			if e.Start != int64(e.Took) || e.Start != e.Bytes || e.Number != uint64(e.Start) || e.Peer != int(e.Start) {
				t.Fatalf("torn: %+v", e)
			}
		}
	}
	if _, all := events(t, f); len(all) != places {
		t.Errorf("%d events at the end", len(all))
	}
	t.Logf("%d events were read", read)
}

// Without a recording nothing is recorded.
func TestNone(t *testing.T) {
	w := NewWriter(nil, 0)
	w.Put(&Event{})
	w.Phase(Span, "", "x")()
	if w.Name("x") != 0 || Bytes(0) != 0 || w != nil {
		t.Error("there is a recording")
	}
	if _, err := Read(bytes.NewReader(make([]byte, Bytes(1))), 1); err == nil {
		t.Error("an empty recording is read")
	}
}

// busbw counts what nccl-tests counts.
func TestBus(t *testing.T) {
	for row, want := range map[int]int64{int(call.AllReduce): 150, int(call.AllGather): 75, int(call.Broadcast): 100,
		int(call.Scan): 100, status.RowSend: 100, status.RowProbe: 100, int(call.Barrier): 0, status.RowSplit: 0,
		int(call.ExScan) + 1 + int(call.AllReduce): 150} {
		if got := Bus(row, 100, 4); got != want {
			t.Errorf("%s: %d, want %d", status.RowNames[row], got, want)
		}
	}
}

// A damaged recording gives an error, or data that can be shown.
func FuzzRead(f *testing.F) {
	w, file := recording(f)
	w.Put(&Event{Kind: Call, Row: 1, Label: w.Name("ring"), Start: 5, Took: 6})
	w.Cell(1, 100).Count(1, 100, 100)
	good := make([]byte, Bytes(places))
	if _, err := file.ReadAt(good, 0); err != nil {
		f.Fatal(err)
	}
	f.Add(good[:64], 0)
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), 0)
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), headBytes)
	f.Fuzz(func(t *testing.T, part []byte, at int) {
		damaged := slices.Clone(good)
		if at < 0 || at > len(good) {
			at = 0
		}
		copy(damaged[at:], part)
		r := bytes.NewReader(damaged)
		h, err := Read(r, places)
		if err != nil {
			return
		}
		b, next, err := ReadEvents(r, places, 0, h.Count, places)
		if err != nil || next <= h.Count && next < places {
			t.Fatalf("next is %d of %d: %v", next, h.Count, err)
		}
		all, err := Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			_ = h.Name(e.Label) + e.Sort() + e.Kind.String()
		}
		if _, err := Read(bytes.NewReader(damaged[:headBytes-pageBytes]), places); err == nil {
			t.Error("a part of a recording was read without an error")
		}
	})
}

// Events from another host are whole, or refused.
func FuzzDecode(f *testing.F) {
	e := Event{Kind: Wait, Peer: -1, Start: 9, Waited: time.Second}
	v := e.encode(12)
	f.Add(v.bytes())
	f.Add(v.bytes()[:40])
	f.Add(make([]byte, eventBytes))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := Decode(b)
		if err != nil {
			return
		}
		for i := range all {
			v := all[i].encode(uint64(rand.Uint32()))
			if again, ok := v.decode(); !ok || again != all[i] {
				t.Errorf("%+v came back as %+v", all[i], again)
			}
		}
	})
}

// BenchmarkPut measures what a recorded call costs.
func BenchmarkPut(b *testing.B) {
	w, _ := recording(b)
	e := Event{Kind: Call, Row: 1, Start: 5, Took: 6}
	for b.Loop() {
		w.Put(&e)
	}
}
