package ring

import (
	"strings"
	"testing"
)

// counter is two threads that add one to a word each, with a load and a store, or in one step.
func counter(apart bool) Program {
	return func(x *Interleaving) {
		word, ended := byte(0), 0
		x.State(func(b []byte) []byte { return append(b, word, byte(ended)) })
		for _, name := range []string{"a", "b"} {
			x.Go(name, func() {
				x.Step("load")
				v := word
				x.Saw(uint64(v))
				if apart {
					x.Step("store")
				}
				word = v + 1
				if ended++; ended == 2 && word != 2 {
					x.Fail("the word is %d", word)
				}
			})
		}
	}
}

// TestInterleavings checks that a lost update is found, and only where there is one.
func TestInterleavings(t *testing.T) {
	if _, err := Explore(counter(true), 100); err == nil || !strings.Contains(err.Error(), "the word is 1 after\n") {
		t.Errorf("with a load and a store: %v", err)
	}
	if n, err := Explore(counter(false), 100); err != nil || n < 5 {
		t.Errorf("at once: %d states, %v", n, err)
	}
	if _, err := Explore(counter(false), 3); err == nil {
		t.Error("no limit of states")
	}
}

// handshake is a thread that polls for a word that another one sets, unless it is killed before, or chooses not to.
func handshake(kills, chooses bool) Program {
	return func(x *Interleaving) {
		var set byte
		x.State(func(b []byte) []byte { return append(b, set) })
		x.Go("waits", func() {
			for {
				x.Forget("poll")
				x.Step("load")
				x.Saw(uint64(set))
				if set != 0 {
					return
				}
			}
		})
		other := x.Go("sets", func() {
			if chooses && x.Choose("whether", 2) == 0 {
				return
			}
			x.Step("store")
			set = 1
		})
		if kills {
			x.Event("kill", func() { x.Kill(other) })
		}
	}
}

// TestStuckIsFound checks that a poll that cannot end is found, and that a poll that may last forever is not reported.
func TestStuckIsFound(t *testing.T) {
	if _, err := Explore(handshake(false, false), 100); err != nil {
		t.Errorf("undisturbed: %v", err)
	}
	for name, p := range map[string]Program{"kill": handshake(true, false), "choice": handshake(false, true)} {
		if _, err := Explore(p, 100); err == nil || !strings.Contains(err.Error(), "cannot end from here after\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
