//go:build explore

package ring

import (
	"testing"

	"github.com/treerun/treerun/internal/call"
)

// sharing is a sender of a FIFO that publishes its first payload on another one as well, to a receiver of its own. It
// uses the slot again only when both receivers have released it, unless it does not wait.
func sharing(waits bool) Program {
	const slots, chunks, n = 2, 3, 40
	return func(x *Interleaving) {
		running = nil
		var w [2]*world
		var tx [2]Tx
		for i := range w {
			w[i] = &world{Interleaving: x}
			w[i].ctl, w[i].data, _ = memory(slots, slotBytes)
			tx[i] = NewTx(w[i].ctl, w[i].data, slots, slotBytes)
		}
		w[1].heap = w[0].data
		running = x
		x.State(func(b []byte) []byte {
			return append(append(append(b, w[0].ctl...), w[1].ctl...), w[0].data...)
		})
		x.Go("sender", func() {
			for i := range chunks {
				var b []byte
				for {
					x.Forget("reserve", i, int(tx[0].head))
					var ok bool
					if b, ok, _ = tx[0].TryReserve(n); ok && (!waits || i < slots || tx[1].Free(0)) {
						break
					}
				}
				w[0].write(b, i)
				h := headerOf(i)
				if _, ok, _ := tx[1].TryReserve(0); ok && i == 0 {
					tx[1].PostAt(&h, 0, n)
				}
				tx[0].Post(&h)
			}
		})
		for i := range w {
			rx := NewRx(w[i].ctl, w[i].data, w[i].elsewhere, slots, slotBytes)
			x.Go([]string{"receiver", "other receiver"}[i], func() {
				for c := range []int{chunks, 1}[i] {
					var h call.Header
					var b []byte
					for ok := false; !ok; {
						x.Forget("receive", c)
						var err error
						if b, ok, err = rx.TryPeek(&h); err != nil || ok && (h != headerOf(c) || len(b) != n) {
							x.Fail("chunk %d: %+v, %d bytes, %v", c, h, len(b), err)
						}
					}
					w[i].compare(b, c)
					rx.Release()
				}
			})
		}
	}
}

// TestExploreMutants checks that the exploration finds the fault of each.
func TestExploreMutants(t *testing.T) {
	found := func(name string, p Program) {
		n, err := Explore(p, maxStates)
		if err == nil {
			t.Errorf("%s: not found", name)
		}
		t.Logf("%s: after %d states: %.90v", name, n, err)
	}
	found("uses a shared slot again", sharing(false))
	post := func(w *world, i int) {
		h := headerOf(i)
		w.tx.Post(&h)
	}
	each := func(post func(w *world, i int)) func(w *world) {
		return func(w *world) {
			for i := range w.chunks {
				if b := w.reserve(i, w.sizeOf(i)); b != nil {
					w.write(b, i)
					post(w, i)
				}
			}
		}
	}
	for name, s := range map[string]scene{
		"releases before it reads": {early: true},
		"publishes before the header": {sender: each(func(w *world, i int) {
			line, h := w.tx.line(w.tx.pos), headerOf(i)
			publishWord(line, 0, w.tx.pos+1)
			putHeader(line, uint32(w.tx.n), &h)
			w.tx.pos++
			w.tx.n = -1
		})},
		"claims a slot that is taken": {sender: each(func(w *world, i int) {
			post(w, i)
			putLength(w.tx.line(w.tx.pos), 0)
		})},
		"uses a slot before it is free": {sender: func(w *world) {
			for i := range w.chunks {
				for {
					w.Forget("reserve", i)
					if w.tx.pos-loadWord(w.ctl, 0) <= w.tx.slots {
						break
					}
				}
				w.tx.n = w.sizeOf(i)
				w.write(w.tx.window(w.tx.pos, w.tx.n), i)
				post(w, i)
			}
		}},
	} {
		s.slots, s.chunks, s.plain = 2, 4, true
		found(name, s.program())
	}
}
