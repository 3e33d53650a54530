package kernel

import "fmt"

// level is an implementation: plain Go, or the C loops for one instruction
// set.
type level int

const (
	levelGo       level = iota // loops.go
	levelPortable              // C for the baseline of the architecture
	levelAVX2                  // C for amd64 with AVX2 and F16C
	levelAVX512                // C for amd64 with AVX-512 F, BW, DQ and VL
)

func (l level) String() string {
	return [...]string{"go", "c", "avx2", "avx512"}[l]
}

// The C loops take over at this many bytes of dst: below it, the plain Go loop
// is done before the foreign call has begun to count.
const (
	nativeBytes     = 256
	nativeHalfBytes = 32 // of the 16-bit types, which Go must convert one by one
)

// Reduce computes dst = a op b, element by element.
//
// The three have the same length, a multiple of the element size, and may
// begin at any address. dst may be the very memory of a, of b, or of both; it
// must not overlap them in part. Reduce does not allocate. Concurrent calls
// are fine as long as their memory is their own.
func Reduce(op Op, dt DType, dst, a, b []byte) {
	check(dt, dst)
	if len(a) != len(dst) || len(b) != len(dst) {
		panic(fmt.Sprintf("kernel: reduce of %d and %d bytes into %d", len(a), len(b), len(dst)))
	}
	if !op.Valid() {
		panic(fmt.Sprintf("kernel: reduce with %v", op))
	}
	if op == Avg {
		op = Sum
	}
	if best != levelGo && len(dst) >= crossover(dt) {
		reduceNative(best, op, dt, dst, a, b)
		return
	}
	reduceGo(op, dt, dst, a, b)
}

// Scale divides every element of dst by n, which is at least 1: the end of an
// Avg over n addends. dst is as in Reduce.
func Scale(dt DType, dst []byte, n int) {
	check(dt, dst)
	if n < 1 {
		panic(fmt.Sprintf("kernel: scale by %d", n))
	}
	if n == 1 {
		return
	}
	if best != levelGo && dt >= Float16 && len(dst) >= crossover(dt) {
		scaleNative(best, dt, dst, n)
		return
	}
	scaleGo(dt, dst, n)
}

func crossover(dt DType) int {
	if dt == Float16 || dt == BFloat16 {
		return nativeHalfBytes
	}
	return nativeBytes
}

// check panics unless dst holds whole elements of type dt: the callers of this
// package see to that.
func check(dt DType, dst []byte) {
	if !dt.Valid() || len(dst)%dt.Size() != 0 {
		panic(fmt.Sprintf("kernel: %d bytes of %v", len(dst), dt))
	}
}
