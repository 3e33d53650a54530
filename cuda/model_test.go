//go:build cgo && linux

package cuda

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// TestStreamsAgainstModel runs random copies and fills of a few buffers on random streams, on one device or two, each
// ordered behind the operations that it depends on and nothing else: by an event, or by a value that a stream writes
// and another waits for. The result is that of doing them one after the other.
func TestStreamsAgainstModel(t *testing.T) {
	d := gpus(t, 1)[0]
	devices := []*Device{d, d, d}
	if all, _ := Devices(); len(all) > 1 {
		if can, err := all[1].CanAccess(d); err == nil && can {
			devices[2] = all[1]
			must(t, d.EnablePeer(all[1]))
			must(t, all[1].EnablePeer(d))
		}
	}
	m := newModel(t, devices)
	rapid.Check(t, func(t *rapid.T) { m.run(t) })
}

const (
	modelBuffers = 5
	modelBytes   = 96
	modelOps     = 25
)

// model is the buffers, streams and marks that runs share.
type model struct {
	streams []*Stream
	addr    [modelBuffers]Addr
	word    []word
	event   [modelOps][]*Event // one per stream
	pinned  *Pinned[byte]
	all     []Slice[byte]
}

func newModel(t *testing.T, devices []*Device) *model {
	m := &model{pinned: pinned[byte](t, devices[0], modelBytes)}
	for i, d := range devices {
		m.streams = append(m.streams, stream(t, d))
		s := alloc[byte](t, d, modelBytes)
		m.all = append(m.all, s)
		m.addr[i] = s.Addr()
	}
	s := alloc[byte](t, devices[0], modelBytes)
	m.all = append(m.all, s)
	m.addr[3], m.addr[4] = s.Addr(), m.pinned.Addr()
	m.word = wordsOf(pinned[uint32](t, devices[0], modelOps))
	for i := range m.word {
		for _, d := range devices {
			m.event[i] = append(m.event[i], event(t, d, false))
		}
	}
	return m
}

func (m *model) run(t *rapid.T) {
	var want [modelBuffers][modelBytes]byte
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, a := range m.addr {
		check(m.streams[0].Memset(a, byte(i), modelBytes))
		for j := range want[i] {
			want[i][j] = byte(i)
		}
	}
	check(m.streams[0].Synchronize(t.Context()))
	var stream [modelOps]int            // of each operation
	var wrote, read [modelBuffers][]int // the last writer; the readers since
	n := rapid.IntRange(1, modelOps).Draw(t, "operations")
	for i := range n {
		k := rapid.IntRange(0, len(m.streams)-1).Draw(t, "stream")
		s := m.streams[k]
		stream[i] = k
		dst, src := rapid.IntRange(0, modelBuffers-1).Draw(t, "to"), rapid.IntRange(0, modelBuffers-1).Draw(t, "from")
		size := rapid.IntRange(0, modelBytes/2).Draw(t, "bytes")
		to, from := rapid.IntRange(0, modelBytes-size).Draw(t, "at"), rapid.IntRange(0, modelBytes-size).Draw(t, "off")
		fill := dst == src
		behind := append(append([]int(nil), wrote[dst]...), read[dst]...)
		if !fill {
			behind = append(behind, wrote[src]...)
		}
		for _, b := range behind {
			if rapid.Bool().Draw(t, "event") {
				check(s.Wait(m.event[b][stream[b]]))
			} else {
				check(await(s, m.word[b].addr, 1))
			}
		}
		if fill {
			check(s.Memset(m.addr[dst]+Addr(to), byte(i+100), int64(size)))
			copy(want[dst][to:to+size], bytes.Repeat([]byte{byte(i + 100)}, size))
		} else {
			check(s.Memcpy(m.addr[dst]+Addr(to), m.addr[src]+Addr(from), int64(size)))
			copy(want[dst][to:to+size], want[src][from:from+size])
			read[src] = append(read[src], i)
		}
		wrote[dst], read[dst] = []int{i}, nil
		check(s.Record(m.event[i][k]))
		check(write(s, m.word[i].addr, 1))
	}
	for _, s := range m.streams {
		check(s.Synchronize(t.Context()))
	}
	for i, w := range want {
		got := make([]byte, modelBytes)
		if i == 4 {
			copy(got, m.pinned.Host())
		} else {
			check(m.all[i].CopyTo(t.Context(), m.streams[0], got))
		}
		if !bytes.Equal(got, w[:]) {
			t.Fatalf("buffer %d is\n%x, want\n%x", i, got, w)
		}
	}
	for i := range m.word {
		m.word[i].Store(0)
	}
}
