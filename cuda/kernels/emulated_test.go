package kernels_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/kernel"
)

// The PTX itself, run instruction by instruction, gives the bits of the host, and
// every access is at a multiple of its size. What a fake GPU runs was compiled
// from the same sources by another compiler; of binary16, the sources differ.

// emulated is PTX with memory for it.
type emulated struct {
	modules map[string]*PTX
	memory  PTXMemory
	want    []byte // what the memory should hold
}

const emulatedBase = 0x7f0000000000

func parsePTX(t *testing.T, files ...string) map[string]*PTX {
	t.Helper()
	all := map[string]*PTX{}
	for _, file := range files {
		text, err := os.ReadFile(file + ".ptx")
		if err != nil {
			t.Fatal(err)
		}
		if all[file], err = ParsePTX(string(text)); err != nil {
			t.Fatalf("%s.ptx: %v", file, err)
		}
	}
	return all
}

// fresh makes memory of so many bytes, filled with elements of type d.
func (e *emulated) fresh(r *rand.Rand, d kernel.DType, size int) {
	e.want = make([]byte, size)
	fill(r, d, e.want)
	e.memory = PTXMemory{Base: emulatedBase, Bytes: bytes.Clone(e.want)}
}

func (e *emulated) at(offset int) uint64 { return emulatedBase + uint64(offset) }

func (e *emulated) run(t *testing.T, r *rand.Rand, file, kernel string, args ...uint64) {
	t.Helper()
	k, err := e.modules[file].Kernel(kernel)
	if err != nil {
		t.Fatal(err)
	}
	var packed []byte
	for _, a := range args {
		packed = binary.LittleEndian.AppendUint64(packed, a)
	}
	if err := k.Run(&e.memory, 1+r.IntN(2), 1+r.IntN(4), packed); err != nil {
		t.Fatal(err)
	}
}

func (e *emulated) compare(t *testing.T, what string) {
	t.Helper()
	for i, x := range e.memory.Bytes {
		if x != e.want[i] {
			t.Fatalf("%s: byte %d of %d is %#x, want %#x", what, i, len(e.want), x, e.want[i])
		}
	}
}

// files names the PTX of a type, and wrapped the type whose sums have its bits.
var (
	files   = []string{"", "int8", "int8", "int32", "int32", "int64", "int64", "float16", "bfloat16", "float32", "float64"}
	wrapped = []string{"", "uint8", "uint8", "uint32", "uint32", "uint64", "uint64", "float16", "bfloat16", "float32",
		"float64"}
)

func emulatedLengths(r *rand.Rand) []int {
	all := []int{0, 1, 2, 300 + r.IntN(200)}
	for range 25 {
		all = append(all, r.IntN(131))
	}
	return all
}

func TestPTXReduce(t *testing.T) {
	for d := range kernel.DeviceDTypes {
		e := emulated{modules: parsePTX(t, files[d])}
		size := d.Size()
		for op := kernel.Sum; op <= kernel.Max; op++ {
			name := "treerun_" + op.String() + "_" + d.String()
			if op <= kernel.Prod {
				name = "treerun_" + op.String() + "_" + wrapped[d]
			}
			r := rand.New(rand.NewPCG(uint64(d), uint64(op)))
			for _, n := range emulatedLengths(r) {
				e.fresh(r, d, room(5, n*size))
				p := places(r, 5, n*size, size)
				in := func(i int) []byte { return e.want[p[i]:][:n*size] }
				var second, third uint64
				srcs := [][]byte{in(1), in(2)}
				if r.IntN(2) == 0 {
					third = e.at(p[3])
					srcs = append(srcs, in(3))
				}
				args := []uint64{e.at(p[1]), e.at(p[2])}
				if r.IntN(3) == 0 { // into a source
					p[0] = p[1+r.IntN(2)]
				}
				forward := r.IntN(2) == 0
				if forward {
					second = e.at(p[4])
				}
				e.run(t, r, files[d], name, e.at(p[0]), second, args[0], args[1], third, uint64(n))
				kernel.ReduceMany(op, d, in(0), srcs, false)
				if forward {
					copy(in(4), in(0))
				}
				e.compare(t, fmt.Sprintf("%s of %d at %v", name, n, p))
			}
		}
	}
}

func TestPTXScale(t *testing.T) {
	for d := range kernel.DeviceDTypes {
		e := emulated{modules: parsePTX(t, files[d])}
		size := d.Size()
		r := rand.New(rand.NewPCG(uint64(d), 10))
		for _, n := range emulatedLengths(r) {
			divisor := divisors[1+r.IntN(len(divisors)-1)]
			e.fresh(r, d, room(2, n*size))
			p := places(r, 2, n*size, size)
			e.run(t, r, files[d], "treerun_divide_"+d.String(), e.at(p[0]), e.at(p[1]), uint64(n), uint64(divisor))
			dst := e.want[p[0]:][:n*size]
			copy(dst, e.want[p[1]:])
			kernel.Scale(d, dst, int(divisor))
			e.compare(t, fmt.Sprintf("%d %v by %d", n, d, divisor))

			var factor [8]byte
			fill(r, d, factor[:])
			e.run(t, r, files[d], "treerun_multiply_"+wrapped[d], e.at(p[0]), e.at(p[1]), uint64(n),
				binary.LittleEndian.Uint64(factor[:]))
			kernel.ScaleCopy(d, dst, e.want[p[1]:][:n*size], factor)
			e.compare(t, fmt.Sprintf("%d %v times %x", n, d, factor))
		}
	}
}

// Every binary16 goes through the conversions of the GPU.
func TestPTXEveryFloat16(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 11))
	for _, d := range []kernel.DType{kernel.Float16, kernel.BFloat16} {
		e := emulated{modules: parsePTX(t, files[d])}
		const size = 1 << 17
		for op := kernel.Sum; op <= kernel.Max; op++ {
			e.fresh(r, d, 3*size)
			for i := range 1 << 16 {
				e.want[2*i], e.want[2*i+1] = byte(i), byte(i>>8)
			}
			copy(e.memory.Bytes, e.want)
			e.run(t, r, files[d], "treerun_"+op.String()+"_"+d.String(), e.at(2*size), 0, e.at(0), e.at(size), 0, size/2)
			kernel.Reduce(op, d, e.want[2*size:], e.want[:size], e.want[size:2*size])
			e.compare(t, fmt.Sprintf("%v of every %v", op, d))
		}
	}
}

func TestPTXMove(t *testing.T) {
	e := emulated{modules: parsePTX(t, "move")}
	r := rand.New(rand.NewPCG(1, 12))
	for _, n := range emulatedLengths(r) {
		e.fresh(r, kernel.Uint8, room(3, n))
		p := places(r, 3, n, 1)
		e.run(t, r, "move", "treerun_copy", e.at(p[0]), e.at(p[1]), e.at(p[2]), 0, 0, uint64(n))
		copy(e.want[p[0]:][:n], e.want[p[2]:])
		copy(e.want[p[1]:][:n], e.want[p[2]:])
		e.compare(t, fmt.Sprintf("copy of %d bytes", n))
	}
}

func TestPTXSearch(t *testing.T) {
	e := emulated{modules: parsePTX(t, "move")}
	r := rand.New(rand.NewPCG(1, 13))
	for d := range kernel.DeviceDTypes {
		size := d.Size()
		all := ^uint64(0) >> (64 - 8*size)
		mask := all
		if d >= kernel.Float16 {
			mask = all >> 1 // but the sign
		}
		for _, n := range emulatedLengths(r) {
			block := 1 + r.IntN(40)
			bitmap := int(kernels.BitmapBytes(int64(n), int64(block)))
			begin := (bitmap+15)/16*16 + r.IntN(16/size)*size
			e.fresh(r, d, begin+n*size)
			x := e.want[begin:]
			clear(x)
			clear(e.want[:bitmap])
			for range min(n, 3) {
				x[r.IntN(len(x))] = 1 << r.IntN(8)
			}
			entry := fmt.Sprintf("treerun_search_%d", 8*size)
			copy(e.memory.Bytes, e.want)
			e.run(t, r, "move", entry, e.at(0), e.at(begin), uint64(n), uint64(block), mask, 0, 0)
			copy(e.want, nonZero(d, x, block))
			e.compare(t, fmt.Sprintf("blocks of %d in %d %v", block, n, d))

			add, limit := r.Uint64()&all, r.Uint64()&all
			fill(r, d, x)
			clear(e.want[:bitmap])
			copy(e.memory.Bytes, e.want)
			e.run(t, r, "move", entry, e.at(0), e.at(begin), uint64(n), uint64(block), mask, add, limit)
			for i := range n {
				bits := uint64(0)
				for k := range size {
					bits |= uint64(x[i*size+k]) << (8 * k)
				}
				if b := i / block; (bits&mask+add)&all > limit {
					e.want[b/8] |= 1 << (b % 8)
				}
			}
			e.compare(t, fmt.Sprintf("blocks of %d in %d %v, above %#x with %#x added", block, n, d, limit, add))
		}
	}
}

func TestPTXPick(t *testing.T) {
	e := emulated{modules: parsePTX(t, "move")}
	r := rand.New(rand.NewPCG(1, 14))
	for d := range kernel.DeviceDTypes {
		size := d.Size()
		for _, n := range emulatedLengths(r) {
			block, zero := 1+r.IntN(40), r.IntN(2)
			bitmap := (int(kernels.BitmapBytes(int64(n), int64(block))) + 15) / 16 * 16
			e.fresh(r, d, bitmap+room(2, n*size))
			p := places(r, 2, n*size, size)
			to, from := bitmap+p[0], bitmap+p[1]
			e.run(t, r, "move", fmt.Sprintf("treerun_pick_%d", 8*size), e.at(0), e.at(to), e.at(from), uint64(n), uint64(block),
				uint64(zero))
			for i := range n {
				element := e.want[to+i*size:][:size]
				switch b := i / block; {
				case e.want[b/8]>>(b%8)&1 != 0:
					copy(element, e.want[from+i*size:])
				case zero != 0:
					clear(element)
				}
			}
			e.compare(t, fmt.Sprintf("blocks of %d in %d %v, zero %d", block, n, d, zero))
		}
	}
}
