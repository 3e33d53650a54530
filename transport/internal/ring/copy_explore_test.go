package ring

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
)

// copyScenes returns the scenes that a test explores, the small ones first, some only in all rounds. TREERUN_EXPLORE=1
// adds all up to three pieces and two messages.
func copyScenes() (all []copyScene) {
	events := []string{"reads refused", "all refused"}
	add := func(s copyScene) {
		for _, s.event = range events {
			all = append(all, s)
		}
	}
	add(copyScene{pieces: 1, messages: 2, lines: 1, unplace: true})
	add(copyScene{pieces: 2, messages: 1, lines: 1})
	if testutil.Thorough() {
		add(copyScene{pieces: 2, messages: 1, lines: 1, unplace: true})
		add(copyScene{pieces: 2, messages: 2, lines: 1})
	}
	events = []string{"", "abort", "sender dies", "receiver dies"}
	add(copyScene{pieces: 1, messages: 2, lines: 1})
	add(copyScene{pieces: 1, messages: 1, lines: 1, retarget: true, unplace: true})
	add(copyScene{pieces: 2, messages: 2, lines: 1})
	if testutil.Thorough() {
		add(copyScene{pieces: 1, messages: 2, lines: 2, retarget: true})
		add(copyScene{pieces: 2, messages: 1, lines: 1, retarget: true})
	}
	if os.Getenv("TREERUN_EXPLORE") == "" {
		return all
	}
	add(copyScene{pieces: 2, messages: 2, lines: 1, retarget: true, unplace: true})
	add(copyScene{pieces: 2, messages: 2, lines: 2, retarget: true})
	add(copyScene{pieces: 3, messages: 2, lines: 1, retarget: true})
	add(copyScene{pieces: 3, messages: 2, lines: 2})
	add(copyScene{pieces: 3, messages: 1, lines: 1, retarget: true, unplace: true})
	return all
}

const copyMaxStates = 20_000_000

// TestCopyInterleaved checks that in every interleaving of the two ends, with every event at every step, a received
// message equals the sent one, in the memory that was returned; that no target is written to after its call has
// returned; and that both ends can always end.
func TestCopyInterleaved(t *testing.T) {
	all := 0
	for _, s := range copyScenes() {
		start := time.Now()
		n, err := Explore(s.program(right), copyMaxStates)
		if err != nil {
			t.Errorf("%v: %v", s, err)
		}
		t.Logf("%v: %d states in %v", s, n, time.Since(start).Round(time.Millisecond))
		all += n
	}
	t.Logf("%d states", all)
}

// TestCopyCorrupt checks that states that no peer writes give an error, or never a payload.
func TestCopyCorrupt(t *testing.T) {
	for _, w := range []uint32{0, willing, claimed, ^uint32(0)} {
		var state plainWord
		var target plainAddress
		l := Line{State: &state, Target: &target, Pieces: 2, Grain: 1}
		var r Receiver
		got, err := r.Bring(l, make([]byte, 2), 16, scribbling{&state, w})
		if w == claimed && (got != nil || err != nil) || w&stateMask == free && !errors.Is(err, transport.ErrCorrupt) {
			t.Errorf("state %#x: %x, %v", w, got, err)
		}
	}
}

type (
	plainWord    struct{ v uint32 }
	plainAddress struct{ v uint64 }
	scribbling   struct {
		state *plainWord
		with  uint32
	}
)

func (p *plainWord) Load() uint32      { return p.v }
func (p *plainWord) Store(v uint32)    { p.v = v }
func (p *plainAddress) Load() uint64   { return p.v }
func (p *plainAddress) Store(v uint64) { p.v = v }
func (p *plainWord) CompareAndSwap(old, next uint32) bool {
	if p.v != old {
		return false
	}
	p.v = next
	return true
}

func (scribbling) Take([]byte) {}

// Read reads the first piece while the peer writes nonsense to the second.
func (s scribbling) Read(b []byte, at int) (bool, error) {
	s.state.v = s.with << stateBits
	return true, nil
}
