package segment

import "sync/atomic"

// States of a bell's word.
const (
	awake    = 0
	prepared = 1 // the owner is about to sleep or sleeps
)

// BellWord is the word of one rank's bell, and the way to wake its owner.
//
// No wake-up is lost. The owner stores prepared and then polls its links; a
// peer stores a publication word and then loads the bell's word. All four are
// sequentially consistent atomics, so in their one order either the owner's
// poll comes after the peer's store, and finds the chunk, or the owner's store
// comes before the peer's load, and the peer sees prepared and wakes it. (On
// amd64 the two stores are locked exchanges, which are full fences; a plain
// store followed by a load could be reordered and lose exactly this.)
//
// Of all peers that see prepared, the one whose compare-and-swap succeeds wakes the owner, so one sleep costs one wake.
// While the owner is awake, ringing costs one load of a line that is not written.
type BellWord struct {
	word *uint32
	wake func()
}

// Ring wakes the owner if it has prepared to sleep. Any goroutine of any rank may call it.
func (b *BellWord) Ring() {
	if atomic.LoadUint32(b.word) == prepared {
		b.ringPrepared()
	}
}

//go:noinline
func (b *BellWord) ringPrepared() {
	if atomic.CompareAndSwapUint32(b.word, prepared, awake) {
		b.wake()
	}
}

// Prepare announces the owner's sleep. Owner only.
func (b *BellWord) Prepare() { atomic.StoreUint32(b.word, prepared) }

// Cancel ends the sleep that Prepare announced, and reports whether the bell has not been rung in between; if it has, a
// wake is under way. Owner only.
func (b *BellWord) Cancel() bool { return atomic.CompareAndSwapUint32(b.word, prepared, awake) }

// Rung reports whether the sleep that Prepare announced is over. Owner only.
func (b *BellWord) Rung() bool { return atomic.LoadUint32(b.word) != prepared }

// Word returns the word to sleep on while it holds the second result.
func (b *BellWord) Word() (*uint32, uint32) { return b.word, prepared }
