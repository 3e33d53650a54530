package p2p

import (
	"slices"
	"strings"
	"testing"
)

// TestInboxRefusesMore: a chunk that goes beyond its message is an error, whether the receive was posted
// before or not.
func TestInboxRefusesMore(t *testing.T) {
	for _, posted := range []bool{false, true} {
		p := message(1, 7, 4, make([]byte, 16))
		id := p.id()
		b := inbox{peer: 1}
		if posted {
			if err := b.post(p); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.place(id, 12); err != nil {
			t.Fatal(err)
		}
		b.arrived()
		if _, err := b.place(id, 8); err == nil || !strings.Contains(err.Error(), "rank 1 sent 4 bytes more") {
			t.Errorf("posted %v: 20 bytes of a message of 16: %v", posted, err)
		}
	}
}

// TestRemoveDone: messages that are done leave the list of those under way, wherever they stand in it, and know how
// long they were.
func TestRemoveDone(t *testing.T) {
	const n = 4
	for done := range 1 << n {
		var m messages
		all, want := make([]Message, n), []*Message(nil)
		for i := range all {
			all[i] = Message{Buf: make([]byte, 1+i), done: done>>i&1 == 1}
			m.push(&all[i])
			if !all[i].done {
				want = append(want, &all[i])
			}
		}
		m.removeDone()
		var left []*Message
		for p := m.first; p != nil; p = p.next {
			left = append(left, p)
		}
		ends := m.last == nil && len(want) == 0 || len(want) > 0 && m.last == want[len(want)-1]
		if !slices.Equal(left, want) || !ends {
			t.Errorf("done %04b: %d are left, want %d", done, len(left), len(want))
		}
		for i := range all {
			if p := &all[i]; p.done && (p.Bytes() != 1+i || p.Buf != nil || p.next != nil) {
				t.Errorf("done %04b: message %d has %d bytes", done, i, p.Bytes())
			}
		}
	}
}
