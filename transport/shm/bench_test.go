package shm

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/treerun/treerun/transport"
)

// BenchmarkPingPong measures one round trip between two processes that spin.
func BenchmarkPingPong(b *testing.B) {
	for _, slots := range []int{2, 4, 8, 16} {
		for _, n := range []int{8, 32, 64, 256, 1024, 4096} {
			b.Run(fmt.Sprintf("slots=%d/bytes=%d", slots, n), func(b *testing.B) {
				benchPair(b, "pingpong", fmt.Sprintf("%d 65536 %d", slots, n))
			})
		}
	}
}

// BenchmarkStream measures how fast a message of 8 MiB goes through one link,
// copied in and copied out.
func BenchmarkStream(b *testing.B) {
	const message = 8 << 20
	for _, slot := range []int{4 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20} {
		for _, slots := range []int{2, 4, 8, 16} {
			b.Run(fmt.Sprintf("slot=%dK/slots=%d", slot>>10, slots), func(b *testing.B) {
				b.SetBytes(message)
				benchPair(b, "stream", fmt.Sprintf("%d %d %d", slots, slot, message))
			})
		}
	}
}

// BenchmarkConnect measures Connect and Close of 8 ranks in one process.
func BenchmarkConnect(b *testing.B) {
	l := transport.Layout{Size: 8, Slots: 4, SlotBytes: 64 << 10}
	for b.Loop() {
		all, errs := connectAll(b, l, nil)
		if err := errors.Join(errs...); err != nil {
			b.Fatal(err)
		}
		for _, e := range all {
			if err := e.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// benchPair times b.N iterations of a part, as the parent sees them.
func benchPair(b *testing.B, name, arg string) {
	f := start(b, name, arg)
	n := strconv.Itoa(b.N)
	b.ResetTimer()
	f.say(0, n)
	f.say(1, n)
	if got := f.hear(0); got != "done" {
		b.Fatal(got)
	}
	b.StopTimer()
	f.say(0, "end")
	f.say(1, "end")
	f.wait(0)
	f.wait(1)
}
