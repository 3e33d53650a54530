package kernel

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
)

// BenchmarkReduce counts the bytes of dst, in place: dst = dst + b.
//
//	go test -run '^$' -bench . ./internal/kernel
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
	for dt := range DTypes {
		for op := range opsOf(dt) {
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

// BenchmarkReduceMany counts the bytes of dst; pairs is repeated Reduce.
func BenchmarkReduceMany(b *testing.B) {
	for _, dt := range []DType{Float32, BFloat16} {
		for _, k := range []int{2, 4, 8} {
			for _, size := range []int{8, 64, 4 << 10, 32 << 10, 256 << 10, 4 << 20} {
				srcs := make([][]byte, k)
				for i := range srcs {
					srcs[i] = bytes.Repeat([]byte{1}, size) // memory of its own, not the page of zeros
				}
				dst := make([]byte, size)
				run := func(name string, f func()) {
					b.Run(fmt.Sprintf("%v/%d/%d/%s", dt, k, size, name), func(b *testing.B) {
						b.SetBytes(int64(size))
						for b.Loop() {
							f()
						}
					})
				}
				run("many", func() { ReduceMany(Sum, dt, dst, srcs, false) })
				run("stream", func() { ReduceMany(Sum, dt, dst, srcs, true) })
				run("pairs", func() {
					Reduce(Sum, dt, dst, srcs[0], srcs[1])
					for _, s := range srcs[2:] {
						Reduce(Sum, dt, dst, dst, s)
					}
				})
			}
		}
	}
}

// BenchmarkCopy walks dst through 256 MiB and src through a window of the
// given size, so that dst is not in the caches and src may be. Every thread
// has memory of its own.
func BenchmarkCopy(b *testing.B) {
	const total = 256 << 20
	for _, threads := range []int{1, 2} {
		var dst, src [2][]byte
		for i := range threads {
			dst[i], src[i] = make([]byte, total/threads), make([]byte, 64<<20)
			for j := 0; j < len(src[i]); j += 4096 {
				src[i][j] = 1
			}
		}
		for _, window := range []int{256 << 10, 4 << 20, 64 << 20} {
			for _, call := range []int{32 << 10, 256 << 10} {
				for _, stream := range []bool{false, true} {
					b.Run(fmt.Sprintf("%d/%d/%d/stream=%v", threads, window, call, stream), func(b *testing.B) {
						b.SetBytes(total)
						for b.Loop() {
							var all sync.WaitGroup
							for i := range threads {
								all.Go(func() {
									for at := 0; at < len(dst[i]); at += call {
										from := at % window
										Copy(dst[i][at:at+call], src[i][from:from+call], stream)
									}
								})
							}
							all.Wait()
						}
					})
				}
			}
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
