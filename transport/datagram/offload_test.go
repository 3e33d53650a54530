package datagram

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// Whatever their sizes and peers, datagrams to a peer go in their order, in messages
// that the system can take apart again.
func TestGroups(t *testing.T) {
	peers := []*link{{rank: 0}, {rank: 1}, {rank: 2}}
	var g groups
	rapid.Check(t, func(t *rapid.T) {
		g.clear()
		sent := make(map[*link][]string)
		n := rapid.IntRange(0, batch).Draw(t, "datagrams")
		for i := range n {
			to := peers[rapid.IntRange(0, 2).Draw(t, "to")]
			size := rapid.SampledFrom([]int{33, 60, 60, 1084, 1452}).Draw(t, "bytes")
			b := fmt.Append(make([]byte, 0, size), i)
			b = append(b, make([]byte, size-len(b))...)
			sent[to] = append(sent[to], string(b))
			g.add(to, b)
		}
		if rapid.Bool().Draw(t, "split") {
			g.split()
			g.single = false
		}
		// The messages have no peer but an address, which is nil: find out by content.
		got := make(map[string]int)
		for _, m := range g.rest() {
			size, all := len(m.Buffers[0]), 0
			for i, b := range m.Buffers {
				if all += len(b); len(b) > size || len(b) < size && i < len(m.Buffers)-1 {
					t.Fatalf("datagrams of %d bytes, and number %d of %d has %d", size, i, len(m.Buffers), len(b))
				}
				got[string(b)]++
			}
			if len(m.Buffers) > mostSegments || all > mostTogether || (len(m.Buffers) > 1) != (len(m.OOB) > 0) {
				t.Fatalf("%d datagrams, %d bytes, %d of control", len(m.Buffers), all, len(m.OOB))
			}
			if len(m.OOB) > 0 {
				list, err := syscall.ParseSocketControlMessage(m.OOB)
				if err != nil || len(list) != 1 || list[0].Header.Level != syscall.IPPROTO_UDP || list[0].Header.Type != udpSegment || int(binary.NativeEndian.Uint16(list[0].Data)) != size {
					t.Fatalf("%+v, %v; want %d", list, err, size)
				}
			}
		}
		for to, all := range sent {
			for _, b := range all {
				if got[b] != 1 {
					t.Fatalf("a datagram to %d is in %d messages", to.rank, got[b])
				}
			}
		}
		if datagrams := g.took(len(g.rest())); int(datagrams) != n {
			t.Fatalf("%d datagrams were sent of %d", datagrams, n)
		}
	})
}

// What the system says of a message that came is believed only where it can be.
func TestSizeOfSegments(t *testing.T) {
	says := func(kind uint32, size int32) []byte {
		b := append(segmentSize(nil, 0), make([]byte, 8)...)[:controlBytes]
		binary.NativeEndian.PutUint32(b[syscall.CmsgLen(0)-4:], kind)
		binary.NativeEndian.PutUint32(b[syscall.CmsgLen(0):], uint32(size))
		return b
	}
	for i, c := range []struct {
		control []byte
		want    int
	}{
		{nil, 3000}, {says(udpGRO, 1000), 1000}, {says(udpGRO, 3000), 3000}, {says(udpGRO, 0), 3000}, {says(udpGRO, -4), 3000},
		{says(udpGRO, 1<<30), 3000}, {says(udpGRO, 1000)[:syscall.CmsgLen(0)+2], 3000}, {says(udpSegment, 1000), 3000},
	} {
		if got := sizeOfSegments(c.control, 3000); got != c.want {
			t.Errorf("%d: datagrams of %d bytes, want %d", i, got, c.want)
		}
	}
}

// Many datagrams at once come, each once, also where the system takes only one by one.
func TestManyAtOnce(t *testing.T) {
	for _, single := range []bool{false, true} {
		all := connected(t, 3, nil)
		all[0].groups.single = single
		const n = 500
		want := map[int][]string{1: nil, 2: nil}
		var got [3][]string
		for i := range n {
			to := 1 + i/3%2
			text := fmt.Sprintf("%d %s", i, strings.Repeat("x", []int{1300, 1300, 900}[i%3]))
			if !all[0].Send(to, []byte(text)) {
				t.Fatal("no room")
			}
			want[to] = append(want[to], "0: "+text)
			if i%50 == 49 {
				all[0].Flush()
				for to := 1; to <= 2; to++ {
					got[to] = append(got[to], get(t, all[to], len(want[to])-len(got[to]))...)
				}
			}
		}
		for to, list := range want {
			slices.Sort(list) // no order is promised
			slices.Sort(got[to])
			if strings.Join(got[to], "\n") != strings.Join(list, "\n") {
				t.Errorf("single %v: what %d got is not what was sent", single, to)
			}
			if c := all[to].Counters(); c.Received != int64(len(list)) || c.Lost != 0 || c.Refused != 0 {
				t.Errorf("single %v: %+v", single, c)
			}
		}
		if c := all[0].Counters(); c.Sent != n || c.Unsent != 0 {
			t.Errorf("single %v: %+v", single, c)
		}
	}
}
