//go:build cgo && linux

package cuda

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// The figures of these tests are in their attributes: see gpuprobe_test.go of cuda/kernels.

// repeated is the number of repetitions of a probe.
func repeated() int {
	if onFake() {
		return 3
	}
	return 50
}

// medianUs returns the median of some times in microseconds.
func medianUs(times []time.Duration) string {
	slices.Sort(times)
	return fmt.Sprintf("%.2f us", float64(times[len(times)/2].Nanoseconds())/1e3)
}

// reached waits until a word has a value, a second at most.
func reached(w word, v uint32) bool {
	for began := time.Now(); w.Load() != v; {
		if time.Since(began) > time.Second {
			return false
		}
	}
	return true
}

// streams returns n streams of a priority.
func streams(t *testing.T, d *Device, n, priority int) (list []*Stream) {
	t.Helper()
	for range n {
		s, err := d.newStream(priority)
		must(t, err)
		closed(t, func() error { return s.Close() })
		list = append(list, s)
	}
	return list
}

// TestProbeQueues: of 32 streams some wait; the number of the others that run within a second.
func TestProbeQueues(t *testing.T) {
	const all = 32
	for name, priority := range map[string]int{"normal": 0, "urgent": -100} {
		for _, waiting := range []int{1, 8, 16, 24, 31} {
			t.Run(fmt.Sprintf("%s/%d-wait", name, waiting), func(t *testing.T) {
				d := gpus(t, 1)[0]
				list := streams(t, d, all, priority)
				m := alloc[byte](t, d, all<<10)
				words := wordsOf(pinned[uint32](t, d, all+1))
				gate := words[all]
				defer gate.Store(1) // however the test ends
				for _, s := range list[:waiting] {
					must(t, await(s, gate.addr, 1))
				}
				for i, s := range list[waiting:] {
					must(t, s.Memset(m.Addr()+Addr(i)<<10, 1, 1<<10)) // which the driver does by a kernel
					must(t, write(s, words[i].addr, 1))
				}
				ran := 0
				for end := time.Now().Add(time.Second); ran < all-waiting && time.Now().Before(end); time.Sleep(time.Millisecond) {
					ran = 0
					for _, w := range words[:all-waiting] {
						ran += int(w.Load())
					}
				}
				gate.Store(1)
				for _, s := range list {
					must(t, s.Synchronize(t.Context()))
				}
				t.Attr("ran", fmt.Sprintf("%d of %d", ran, all-waiting))
			})
		}
	}
}

// TestProbeWake: the time until a stream continues after the host has set a word, from the store until the host sees
// the stream's own, while others wait for another word.
func TestProbeWake(t *testing.T) {
	for _, others := range []int{0, 3, 7, 15, 31} {
		t.Run(fmt.Sprintf("%d-others", others), func(t *testing.T) {
			d := gpus(t, 1)[0]
			list := streams(t, d, others+1, 0)
			words := wordsOf(pinned[uint32](t, d, 3))
			in, out, gate := words[0], words[1], words[2]
			defer gate.Store(1)
			s := list[others]
			for _, other := range list[:others] {
				must(t, await(other, gate.addr, 1))
			}
			var late []time.Duration
			for i := range uint32(repeated()) {
				must(t, await(s, in.addr, i+1))
				must(t, write(s, out.addr, i+1))
				time.Sleep(100 * time.Microsecond) // it waits now
				began := time.Now()
				in.Store(i + 1)
				if !reached(out, i+1) {
					t.Attr("late", "held up by the others")
					return
				}
				late = append(late, time.Since(began))
			}
			t.Attr("late", medianUs(late))
			t.Attr("latest", medianUs(late[len(late)-1:]))
		})
	}
	t.Run("synchronize", func(t *testing.T) { // a stream with as good as nothing to do
		d := gpus(t, 1)[0]
		s, w := stream(t, d), flag(t, d)
		var took []time.Duration
		for range repeated() {
			began := time.Now()
			must(t, write(s, w.addr, 1))
			must(t, s.Synchronize(t.Context()))
			took = append(took, time.Since(began))
		}
		t.Attr("late", medianUs(took))
	})
}
