package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestStreamedCopy(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 26))
	lengths := []int{255, 256, 1000, streamBytes - 1, streamBytes, 3*streamBytes + 77}
	for n := range 131 {
		lengths = append(lengths, n)
	}
	for _, n := range lengths {
		for range 8 {
			src := guarded(n, r.IntN(64))
			for i := range src.data() {
				src.data()[i] = byte(r.Uint32())
			}
			offset := r.IntN(64)
			for _, l := range levels()[1:] {
				dst := guarded(n, offset)
				streamNative(l, dst.data(), src.data())
				dst.expect(t, fmt.Sprintf("%d bytes to %d with %v", n, offset, l), src.data())
			}
			for _, stream := range []bool{false, true} {
				dst := guarded(n, offset)
				Copy(dst.data(), src.data(), stream)
				dst.expect(t, fmt.Sprintf("%d bytes to %d, stream %v", n, offset, stream), src.data())
			}
			Copy(src.data(), src.data(), true)
		}
	}
}
