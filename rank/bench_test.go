//go:build linux

package rank

import (
	"context"
	"fmt"
	"testing"
)

// BenchmarkStart makes and closes all Worlds of a job, in one process.
func BenchmarkStart(b *testing.B) {
	for _, n := range []int{2, 8, 32} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				j := newTestJob(b, n).start()
				j.close()
			}
		})
	}
}

// BenchmarkAllGather gathers blobs of the sizes that package collective gathers.
func BenchmarkAllGather(b *testing.B) {
	for _, size := range []int{0, 1 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			j := newTestJob(b, 8).start()
			blob := make([]byte, size)
			b.SetBytes(int64(8 * size))
			for b.Loop() {
				for r, err := range j.each(func(r int) error {
					_, err := j.worlds[r].AllGather(context.Background(), blob)
					return err
				}) {
					if err != nil {
						b.Fatalf("rank %d: %v", r, err)
					}
				}
			}
		})
	}
}
