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

// The C loops take over at this number of elements of dst: below it, the plain Go loop is done before the foreign call
// has begun to compute.
const (
	nativeElements = 64
	nativeHalves   = 16 // of the 16-bit floats, which Go must convert one by one
)

// Reduce computes dst = a op b, element by element.
//
// The three have the same length, a multiple of the element size, and may begin at any address. dst may be the very
// memory of a, of b, or of both; it must not overlap them in part. Reduce does not allocate. Concurrent calls are safe
// if no call writes memory that another one uses.
func Reduce(op Op, dt DType, dst, a, b []byte) {
	if !fits(dt, dst) || !op.Takes(dt) || len(a) != len(dst) || len(b) != len(dst) {
		refusePair(op, dt, dst, a, b)
	}
	op, dt = op.on(dt)
	if best != levelGo && len(dst) >= crossover(dt) {
		reduceNative(best, op, dt, dst, a, b)
		return
	}
	reduceBytes(op, dt, base(dst), base(a), base(b), len(dst))
}

// crossover returns the number of bytes of dst at which the C loops take over.
func crossover(dt DType) int {
	if dt == Float16 || dt == BFloat16 {
		return nativeHalves * 2
	}
	return nativeElements * dt.Size()
}

// fits reports whether dst holds whole elements of type dt.
func fits(dt DType, dst []byte) bool {
	return dt.Valid() && len(dst)&(dt.Size()-1) == 0
}

// refusePair keeps the construction of a list out of Reduce.
//
//go:noinline
func refusePair(op Op, dt DType, dst, a, b []byte) { refuse(op, dt, dst, a, b) }

// refuse panics with a description of the invalid arguments: the callers of this package ensure that there are none.
func refuse(op Op, dt DType, dst []byte, srcs ...[]byte) {
	if !op.Takes(dt) {
		panic(fmt.Sprintf("kernel: reduce %v with %v", dt, op))
	}
	if !fits(dt, dst) {
		panic(fmt.Sprintf("kernel: %d bytes of %v", len(dst), dt))
	}
	for i, src := range srcs {
		if len(src) != len(dst) {
			panic(fmt.Sprintf("kernel: source %d has %d bytes, the result %d", i, len(src), len(dst)))
		}
	}
	panic(fmt.Sprintf("kernel: reduce of %d sources", len(srcs)))
}
