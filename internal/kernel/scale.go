package kernel

import "fmt"

// Scale divides every element of dst by n, which is at least 1: the end of an
// Avg over n addends. dst is as in Reduce. Integers are divided with
// truncation toward zero; floating-point numbers by n as their own type, or as
// float32 where they are narrower.
func Scale(dt DType, dst []byte, n int) {
	if !fits(dt, dst) || !Avg.Takes(dt) {
		refuse(Avg, dt, dst)
	}
	if n < 1 {
		panic(fmt.Sprintf("kernel: scale by %d", n))
	}
	if n == 1 {
		return
	}
	dt = dt.part()
	if best != levelGo && len(dst) >= crossover(dt) {
		divideNative(best, dt, dst, n)
		return
	}
	scaleGo(dt, dst, n)
}

// ScaleCopy computes dst = src * factor, element by element: the step that a rank applies to its input before a
// pre-multiplied sum. factor begins with one element of type dt; its other bytes do not count. The result has the bits
// of a Prod with that element, so integers wrap.
//
// dst and src have the same length, a multiple of the element size, and may begin at any address. dst may be the very
// memory of src; it must not overlap it in part. ScaleCopy does not allocate. Concurrent calls are safe if no call
// writes memory that another one uses.
func ScaleCopy(dt DType, dst, src []byte, factor Factor) {
	if !fits(dt, dst) || !Prod.Takes(dt) || len(src) != len(dst) {
		refuse(Prod, dt, dst, src)
	}
	if best != levelGo && len(dst) >= crossover(dt) {
		multiplyNative(best, dt, dst, src, factor)
		return
	}
	multiplyGo(dt, dst, src, factor)
}

// multiplyGo is ScaleCopy in plain Go: Prod with a block of factors.
func multiplyGo(dt DType, dst, src []byte, factor Factor) {
	var x [16]uint64
	factors := BytesOf(x[:])
	factors = factors[:min(len(factors), len(dst))]
	copy(factors, factor[:dt.Size()])
	for n := dt.Size(); n < len(factors); n *= 2 {
		copy(factors[n:], factors[:n])
	}
	for len(dst) > 0 {
		n := min(len(dst), len(factors))
		reduceGo(Prod, dt, dst[:n], src[:n], factors[:n])
		dst, src = dst[n:], src[n:]
	}
}
