//go:build cgo && linux

package kernels_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/kernel"
)

// Every type, operation and length, at every kind of address, of one to sixteen
// sources into one to three results, in place and not, one of them scaled or none, in
// one part or two.
func TestReduce(t *testing.T) {
	g := first(t)
	for d := range kernel.DeviceDTypes {
		for op := range everyOp(d) {
			r := rand.New(rand.NewPCG(uint64(d), uint64(op)))
			for n := range lengths {
				if n > 130 && op > kernel.Prod && d.Size() > 1 {
					continue // long arrays test the loops further, not the operation
				}
				b := newBatch(r, d, op, n)
				w := g.newTwin(t, r, d, b.room)
				must(t, g.Run(g.stream, &b.work, b.parts(w.at)))
				b.do(w.host)
				g.compare(t, fmt.Sprintf("%v of %d %v, %+v", op, n, d, b), w)
				must(t, w.device.Free())
			}
		}
	}
}

// Every 16-bit float goes through the arithmetic, combined with others.
func TestEvery16BitFloat(t *testing.T) {
	g := first(t)
	r := rand.New(rand.NewPCG(2, 2))
	for _, d := range []kernel.DType{kernel.Float16, kernel.BFloat16} {
		w := g.newTwin(t, r, d, 3<<17)
		for i := range 1 << 16 {
			w.host[2*i], w.host[2*i+1] = byte(i), byte(i>>8)
		}
		for op := range everyOp(d) {
			must(t, w.device.CopyFrom(t.Context(), g.stream, w.host))
			must(t, g.combine(op, d, 1<<16, []cuda.Addr{w.at(2 << 17)}, w.at(0), w.at(1<<17)))
			kernel.Reduce(op, d, w.host[2<<17:], w.host[:1<<17], w.host[1<<17:2<<17])
			g.compare(t, fmt.Sprintf("%v of every %v", op, d), w)
		}
	}
}

// A kernel reads a peer's memory, and forwards its result there.
func TestPeer(t *testing.T) {
	g := first(t)
	devices, err := cuda.Devices()
	must(t, err)
	peer := devices[len(devices)-1] // a host with one GPU has to be its own peer
	must(t, g.EnablePeer(peer))
	r := rand.New(rand.NewPCG(3, 3))
	const n, d = 1000, kernel.Int32
	w := g.newTwin(t, r, d, 2*n*4)
	far := w
	far.host = slices.Clone(w.host)
	if far.device, err = cuda.Alloc[uint8](peer, 2*n*4); err != nil {
		t.Fatal(err)
	}
	defer func() { must(t, far.device.Free()) }()
	stream, err := peer.NewStream()
	must(t, err)
	defer stream.Close()
	must(t, far.device.CopyFrom(t.Context(), stream, far.host))

	must(t, g.combine(kernel.Sum, d, n, []cuda.Addr{w.at(0), far.at(n * 4)}, w.at(0), far.at(0)))
	kernel.Reduce(kernel.Sum, d, w.host[:n*4], w.host[:n*4], far.host[:n*4])
	copy(far.host[n*4:], w.host[:n*4])
	g.compare(t, "with a peer", w)
	g.compare(t, "at the peer", far)
}
