package cpu

import (
	"bytes"
	"testing"
)

// TestCopy copies messages of many lengths to and from every place in a line, and leaves what is around them.
func TestCopy(t *testing.T) {
	src := make([]byte, 9000)
	for i := range src {
		src[i] = byte(i*7 + i>>8)
	}
	for _, n := range []int{0, 1, 63, CopyFrom - 1, CopyFrom, CopyFrom + 1, 1000, 4096, 8000} {
		for at := range 64 {
			dst := bytes.Repeat([]byte{0xEE}, 9000)
			want := bytes.Clone(dst)
			copy(want[at:], src[63-at:][:n])
			Copy(dst[at:at+n], src[63-at:][:n])
			if !bytes.Equal(dst, want) {
				t.Fatalf("%d bytes to %d: the copy or what is around it is wrong", n, at)
			}
		}
	}
}

func BenchmarkCopy(b *testing.B) {
	src, dst := make([]byte, 32<<10), make([]byte, 32<<10)
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		Copy(dst, src)
	}
}
