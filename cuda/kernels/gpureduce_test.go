//go:build cgo

package kernels_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/kernel"
)

// Every type, operation and length, at every kind of address, of two and three
// sources into one and two results, in place and not.
func TestReduce(t *testing.T) {
	g := first(t)
	for d := range kernel.DeviceDTypes {
		size := d.Size()
		for op := range everyOp {
			r := rand.New(rand.NewPCG(uint64(d), uint64(op)))
			for n := range lengths {
				if n > 130 && op > kernel.Prod && size > 1 {
					continue // what long arrays add is not in the operation
				}
				w := g.newTwin(t, r, d, room(5, n*size))
				for range 3 {
					p := places(r, 5, n*size, size)
					x, y := w.at(p[1]), w.at(p[2])
					var dst2, z cuda.Addr
					in := func(i int) []byte { return w.host[p[i]:][:n*size] }
					srcs := [][]byte{in(1), in(2)}
					if r.IntN(2) == 0 {
						z = w.at(p[3])
						srcs = append(srcs, in(3))
					}
					if place := r.IntN(6); place < len(srcs) { // into a source
						p[0] = p[place+1]
					}
					forward := r.IntN(2) == 0
					if forward {
						dst2 = w.at(p[4])
					}
					must(t, g.Reduce(g.stream, op, d, w.at(p[0]), dst2, x, y, z, int64(n)))
					kernel.ReduceMany(op, d, in(0), srcs, false)
					if forward {
						copy(in(4), in(0))
					}
				}
				g.compare(t, fmt.Sprintf("%v of %d %v", op, n, d), w)
				must(t, w.device.Free())
			}
		}
	}
}

// Every 16-bit float goes through the arithmetic, with others beside it.
func TestEvery16BitFloat(t *testing.T) {
	g := first(t)
	r := rand.New(rand.NewPCG(2, 2))
	for _, d := range []kernel.DType{kernel.Float16, kernel.BFloat16} {
		w := g.newTwin(t, r, d, 3<<17)
		for i := range 1 << 16 {
			w.host[2*i], w.host[2*i+1] = byte(i), byte(i>>8)
		}
		for op := range everyOp {
			must(t, w.device.CopyFrom(t.Context(), g.stream, w.host))
			must(t, g.Reduce(g.stream, op, d, w.at(2<<17), 0, w.at(0), w.at(1<<17), 0, 1<<16))
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

	must(t, g.Reduce(g.stream, kernel.Sum, kernel.Int32, w.at(0), far.at(n*4), w.at(0), far.at(0), 0, n))
	kernel.Reduce(kernel.Sum, d, w.host[:n*4], w.host[:n*4], far.host[:n*4])
	copy(far.host[n*4:], w.host[:n*4])
	g.compare(t, "with a peer", w)
	g.compare(t, "at the peer", far)
}
