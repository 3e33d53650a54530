//go:build linux

package rank

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// usage is what a process holds.
type usage struct{ goroutines, descriptors, heap int }

// used returns what this process holds, once goroutines and finalizers have had time to end.
func used(t *testing.T) (u usage) {
	t.Helper()
	for before := -1; u.goroutines != before; time.Sleep(20 * time.Millisecond) {
		before = u.goroutines
		runtime.GC()
		u.goroutines = runtime.NumGoroutine()
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.descriptors, u.heap = len(fds), int(m.HeapAlloc)
	return u
}

// A process that has had many epochs holds no more than after a few: of an epoch that is over nothing is left. In some,
// a rank is lost and its new process joins; in others, all renew.
func TestManyEpochs(t *testing.T) {
	l := newLives(t, 3)
	l.j.start()
	early := usage{}
	const few, many = 20, 200
	for epoch := 1; epoch <= many; epoch++ {
		lost := -1
		if epoch%4 == 0 {
			lost = epoch / 4 % 3
			l.lose(lost, true)
		}
		l.j.noErrors(l.j.each(func(r int) (err error) {
			if r == lost {
				return l.join(t.Context(), r)
			}
			w := l.j.worlds[r]
			_ = w.Context()
			l.j.worlds[r], err = w.Renew(t.Context())
			return err
		}))
		if lost >= 0 {
			l.check(epoch, []int{0, 1, 2}, []int{lost}, []int{lost})
		} else {
			l.check(epoch, []int{0, 1, 2}, nil, nil)
		}
		if epoch == few {
			early = used(t)
		}
	}
	late := used(t)
	t.Logf("after %d epochs %+v, after %d %+v", few, early, many, late)
	if late.goroutines > early.goroutines || late.descriptors > early.descriptors || late.heap > early.heap+256<<10 {
		t.Errorf("after %d epochs %+v, after %d %+v", few, early, many, late)
	}
}

// Worlds yields one World after the other, in the order of the epochs, and ends when the program closes one. Here a
// process is a world of one, without a launcher: there is one turn.
func TestWorldsOfOne(t *testing.T) {
	for _, end := range []string{"close", "break", "return"} {
		t.Run(end, func(t *testing.T) {
			defer initialized.Store(initialized.Swap(false))
			turns, last := 0, error(nil)
			var w *World
			for next, err := range Worlds(t.Context()) {
				turns++
				if last = err; err != nil {
					break
				}
				w = next
				if end == "close" {
					w.Close()
				}
				if end == "break" {
					break
				}
			}
			want := fmt.Sprintf("%d turns, error %v", 1, nil)
			if end == "return" {
				want = "2 turns, error rank: Renew on rank 0: there is no other epoch: the job was started without treerun " +
					"--on-failure respawn or shrink"
			}
			if got := fmt.Sprintf("%d turns, error %v", turns, last); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if w.Renews() || w.Origin() != 0 || w.Epoch() != 0 || w.Lost() != nil || w.Joined() != nil {
				t.Errorf("a world of one: %+v", w)
			}
			w.Close()
			for _, err := range Worlds(t.Context()) {
				if err == nil {
					t.Error("a second Worlds begins")
				}
			}
		})
	}
}
