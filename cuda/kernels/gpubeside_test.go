//go:build cgo && linux

package kernels_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/kernel"
)

// TestProbeBeside: the slowdown of kernels that compute while copies that go first run at the same time, as those of
// device calls do, with some number of blocks; and the rate of the copies. They read a peer's memory where there is a
// peer.
func TestProbeBeside(t *testing.T) {
	g := first(t)
	at, bytes := g.arrays(t, 3)
	from := g.peerArray(t, bytes, at[2])
	urgent, err := g.NewWaitingStreams(1)
	must(t, err)
	defer func() { must(t, urgent[0].Close()) }()
	copies := g
	copies.stream = urgent[0]

	same := make([]cuda.Addr, 15) // it lies in caches, so that the sum is not bound by memory
	for i := range same {
		same[i] = at[0]
	}
	compute := func() error {
		return g.combine(kernel.Sum, kernel.BFloat16, int(bytes/32), at[1:2], same...)
	}
	alone := g.each(t, compute)
	t.Attr("alone", fmt.Sprintf("%.1f us", alone.Seconds()*1e6))
	all := g.MaxBlocks[kernels.Own]
	for _, blocks := range []int{8, 16, 32, 64, all} {
		t.Run(fmt.Sprintf("%d-blocks", blocks), func(t *testing.T) {
			var beside time.Duration
			g.MaxBlocks[kernels.Own] = blocks
			defer func() { g.MaxBlocks[kernels.Own] = all }()
			n := 5 * repeated()
			took := copies.timed(t, func() {
				for range n {
					must(t, copies.combine(0, kernel.Uint8, int(bytes), at[2:3], from))
				}
				g.MaxBlocks[kernels.Own] = all
			}, func() { beside = g.each(t, compute) })
			t.Attr("slowdown", fmt.Sprintf("%.2f", beside.Seconds()/alone.Seconds()))
			t.Attr("copies", fmt.Sprintf("%.1f GB/s", float64(n)*float64(bytes)/took.Seconds()/1e9))
		})
	}
}

// peerArray returns an array of as many bytes on another GPU that g can read, or own where there is none.
func (g gpu) peerArray(t *testing.T, bytes int64, own cuda.Addr) cuda.Addr {
	t.Helper()
	devices, err := cuda.Devices()
	must(t, err)
	for _, peer := range devices[1:] {
		if can, _ := g.CanAccess(peer); can {
			must(t, g.EnablePeer(peer))
			x, err := cuda.Alloc[uint8](peer, int(bytes))
			must(t, err)
			t.Cleanup(func() { must(t, x.Free()) })
			return x.Addr()
		}
	}
	return own
}
