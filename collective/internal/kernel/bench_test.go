package kernel

import (
	"fmt"
	"testing"
)

// BenchmarkReduce counts the bytes of dst, in place: dst = dst + b.
//
//	go test -run '^$' -bench . ./collective/internal/kernel
func BenchmarkReduce(b *testing.B) {
	for _, dt := range []DType{Float32, BFloat16, Float16, Int8} {
		for _, l := range levels() {
			for _, size := range []int{8, 64, 128, 256, 512, 1024, 4 << 10, 64 << 10, 1 << 20, 64 << 20} {
				b.Run(fmt.Sprintf("%v/%v/%d", dt, l, size), func(b *testing.B) {
					dst, src := make([]byte, size), make([]byte, size)
					b.SetBytes(int64(size))
					b.ReportAllocs()
					for b.Loop() {
						reduceAt(l, Sum, dt, dst, dst, src)
					}
				})
			}
		}
	}
}

// BenchmarkOps shows every operation in the cache.
func BenchmarkOps(b *testing.B) {
	const size = 64 << 10
	for dt := range everyType {
		for op := range everyOp {
			b.Run(fmt.Sprintf("%v/%v", dt, op), func(b *testing.B) {
				dst, src := make([]byte, size), make([]byte, size)
				b.SetBytes(size)
				for b.Loop() {
					Reduce(op, dt, dst, dst, src)
				}
			})
		}
	}
}

func BenchmarkScale(b *testing.B) {
	const size = 64 << 10
	for _, dt := range []DType{Int32, Float16, BFloat16, Float32, Float64} {
		for _, l := range levels() {
			b.Run(fmt.Sprintf("%v/%v", dt, l), func(b *testing.B) {
				dst := make([]byte, size)
				b.SetBytes(size)
				for b.Loop() {
					scaleAt(l, dt, dst, 3)
				}
			})
		}
	}
}
