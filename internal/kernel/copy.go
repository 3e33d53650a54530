package kernel

import (
	"fmt"

	"github.com/treerun/treerun/internal/cpu"
)

// streamBytes is the size of the smallest copy that is worth a foreign call.
const streamBytes = 4096

// Copy copies src to dst. They have the same length, may begin at any address,
// and are the same memory or do not overlap.
//
// With stream, a dst of 4 KiB or more is written past the caches where the processor can do that: its lines are not
// read first, and the contents of the caches stay there. That makes a copy into memory which no cache holds 1.5 to 2
// times as fast. Into memory that a cache holds it is slower, up to 5 times where that is the core's own, and a core
// that reads dst soon has to fetch it from memory. The writes are ordered before all later ones, as those of an
// ordinary copy are.
//
// Copy does not allocate. Concurrent calls are safe if no call writes memory that another one uses.
func Copy(dst, src []byte, stream bool) {
	if len(src) != len(dst) {
		panic(fmt.Sprintf("kernel: copy of %d bytes into %d", len(src), len(dst)))
	}
	if len(dst) == 0 || &dst[0] == &src[0] {
		return
	}
	if stream && best != levelGo && len(dst) >= streamBytes {
		streamNative(best, dst, src)
		return
	}
	cpu.Copy(dst, src)
}
