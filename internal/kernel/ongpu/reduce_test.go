//go:build cgo

package ongpu_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/kernel"
)

// Every type, operation and length, at every kind of address, of two and three
// sources into one and two results, in place and not.
func TestReduce(t *testing.T) {
	g := first(t)
	for d := range everyType {
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
					a := kernels.Arrays{Dst: w.at(p[0]), A: w.at(p[1]), B: w.at(p[2]), N: int64(n)}
					in := func(i int) []byte { return w.host[p[i]:][:n*size] }
					srcs := [][]byte{in(1), in(2)}
					if r.IntN(2) == 0 {
						a.C = w.at(p[3])
						srcs = append(srcs, in(3))
					}
					if place := r.IntN(6); place < len(srcs) { // into a source
						p[0] = p[place+1]
						a.Dst = w.at(p[0])
					}
					forward := r.IntN(2) == 0
					if forward {
						a.Dst2 = w.at(p[4])
					}
					must(t, g.Reduce(g.stream, kernels.Op(op), kernels.DType(d), a))
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

// The short names do what the long one does.
func TestReduceNames(t *testing.T) {
	g := first(t)
	r := rand.New(rand.NewPCG(9, 9))
	const n, d = 50, kernel.Float32
	w := g.newTwin(t, r, d, 7*n*4)
	in := func(i int) []byte { return w.host[i*n*4:][:n*4] }
	at := func(i int) cuda.Addr { return w.at(i * n * 4) }
	must(t, g.Reduce2(g.stream, kernels.Sum, kernels.Float32, at(3), at(0), at(1), n))
	kernel.Reduce(kernel.Sum, d, in(3), in(0), in(1))
	must(t, g.Reduce3(g.stream, kernels.Max, kernels.Float32, at(4), at(0), at(1), at(2), n))
	kernel.ReduceMany(kernel.Max, d, in(4), [][]byte{in(0), in(1), in(2)}, false)
	must(t, g.ReduceForward(g.stream, kernels.Prod, kernels.Float32, at(5), at(6), at(1), at(2), n))
	kernel.Reduce(kernel.Prod, d, in(5), in(1), in(2))
	copy(in(6), in(5))
	g.compare(t, "names", w)
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
			a := kernels.Arrays{Dst: w.at(2 << 17), A: w.at(0), B: w.at(1 << 17), N: 1 << 16}
			must(t, g.Reduce(g.stream, kernels.Op(op), kernels.DType(d), a))
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

	must(t, g.ReduceForward(g.stream, kernels.Sum, kernels.Int32, w.at(0), far.at(n*4), w.at(0), far.at(0), n))
	kernel.Reduce(kernel.Sum, d, w.host[:n*4], w.host[:n*4], far.host[:n*4])
	copy(far.host[n*4:], w.host[:n*4])
	g.compare(t, "with a peer", w)
	g.compare(t, "at the peer", far)
}
