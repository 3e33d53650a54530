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

// TestRemove: messages leave the list of those under way, wherever they stand in it, in every order, and know how long
// they were.
func TestRemove(t *testing.T) {
	const n = 4
	for order := range n * (n - 1) * (n - 2) {
		var m messages
		all, want := make([]Message, n), []*Message(nil)
		for i := range all {
			all[i] = Message{Buf: make([]byte, 1+i)}
			m.push(&all[i])
			want = append(want, &all[i])
		}
		for len(want) > 0 {
			i := order % len(want)
			order /= len(want)
			p := want[i]
			before := m.before(p)
			m.remove(p, before)
			want = slices.Delete(want, i, i+1)
			var left []*Message
			for p := m.first; p != nil; p = p.next {
				left = append(left, p)
			}
			ends := m.last == nil && len(want) == 0 || len(want) > 0 && m.last == want[len(want)-1]
			if !slices.Equal(left, want) || !ends || i > 0 && before != want[i-1] {
				t.Fatalf("left %v, want %v; behind %p", left, want, before)
			}
			if p.Buf != nil || !p.done || &all[p.Bytes()-1] != p {
				t.Errorf("a removed message has a buffer, or %d bytes", p.Bytes())
			}
		}
	}
}
