package kernels_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/kernel"
)

// The PTX itself, run instruction by instruction, gives the bits of the host, and every access is at a multiple of its
// size. A fake GPU runs kernels compiled from the same sources by another compiler; of binary16, the sources differ.

// emulated is PTX with memory for it.
type emulated struct {
	modules map[string]*PTX
	memory  PTXMemory
	want    []byte // the expected bytes of the memory
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

// fresh makes memory of the given number of bytes, filled with elements of type d.
func (e *emulated) fresh(r *rand.Rand, d kernel.DType, size int) {
	e.want = make([]byte, size)
	fill(r, d, e.want)
	e.memory = PTXMemory{Base: emulatedBase, Bytes: bytes.Clone(e.want)}
}

func (e *emulated) at(offset int) uint64 { return emulatedBase + uint64(offset) }

func (e *emulated) run(t *testing.T, r *rand.Rand, file, kernel string, args ...uint64) {
	t.Helper()
	var packed []byte
	for _, a := range args {
		packed = binary.LittleEndian.AppendUint64(packed, a)
	}
	e.start(t, r, file, kernel, packed)
}

func (e *emulated) start(t *testing.T, r *rand.Rand, file, kernel string, packed []byte) {
	t.Helper()
	k, err := e.modules[file].Kernel(kernel)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Run(&e.memory, 1+r.IntN(3), 1+r.IntN(4), packed); err != nil {
		t.Fatal(err)
	}
}

// batch runs a kernel that takes parts.
func (e *emulated) batch(t *testing.T, r *rand.Rand, file, name string, d kernel.DType, op uint64, factor kernel.Factor,
	parts []kernels.Part) {
	t.Helper()
	packed, bytes, err := kernels.Pack(d, op, factor, parts)
	if err != nil {
		t.Fatal(err)
	}
	if bytes > 0 {
		e.start(t, r, file, name, packed[:])
	}
}

func (e *emulated) addr(offset int) cuda.Addr { return cuda.Addr(e.at(offset)) }

func (e *emulated) compare(t *testing.T, what string) {
	t.Helper()
	for i, x := range e.memory.Bytes {
		if x != e.want[i] {
			t.Fatalf("%s: byte %d of %d is %#x, want %#x", what, i, len(e.want), x, e.want[i])
		}
	}
}

func emulatedLengths(r *rand.Rand) []int {
	all := []int{0, 1, 2, 300 + r.IntN(200)}
	for range 25 {
		all = append(all, r.IntN(131))
	}
	return all
}

// codes are the numbers of operations for the kernels.
func codes(op kernel.Op, d kernel.DType) uint64 {
	if op >= kernel.Min && (d == kernel.Uint8 || d == kernel.Uint32 || d == kernel.Uint64) {
		return uint64(op) + 2
	}
	return uint64(op)
}

func TestPTXReduce(t *testing.T) {
	for d := range kernel.DeviceDTypes {
		file := kernels.Of(d)
		e := emulated{modules: parsePTX(t, file)}
		for op := kernel.Sum; op <= kernel.Max; op++ {
			if !op.Takes(d) {
				continue
			}
			r := rand.New(rand.NewPCG(uint64(d), uint64(op)))
			for _, n := range emulatedLengths(r) {
				b := newBatch(r, d, op, n)
				e.fresh(r, d, b.room)
				e.batch(t, r, file, "treerun_reduce_"+file, d, codes(op, d), b.work.Factor, b.parts(e.addr))
				b.do(e.want)
				e.compare(t, fmt.Sprintf("%v of %d %v, %+v", op, n, d, b))
			}
		}
	}
}

func TestPTXDivide(t *testing.T) {
	for d := range kernel.DeviceDTypes {
		file := kernels.Of(d)
		e := emulated{modules: parsePTX(t, file)}
		size := d.Size()
		r := rand.New(rand.NewPCG(uint64(d), 10))
		for _, n := range emulatedLengths(r) {
			divisor := divisors[1+r.IntN(len(divisors)-1)]
			e.fresh(r, d, room(2, n*size))
			p := places(r, 2, n*size, size)
			var factor kernel.Factor
			binary.LittleEndian.PutUint64(factor[:], uint64(divisor))
			e.batch(t, r, file, "treerun_divide_"+d.String(), d, 0, factor, []kernels.Part{{To: []cuda.Addr{e.addr(p[0])},
				From: []cuda.Addr{e.addr(p[1])}, Bytes: int64(n * size)}})
			dst := e.want[p[0]:][:n*size]
			copy(dst, e.want[p[1]:])
			kernel.Scale(d, dst, int(divisor))
			e.compare(t, fmt.Sprintf("%d %v by %d", n, d, divisor))
		}
	}
}

// Every binary16 goes through the conversions of the GPU.
func TestPTXEveryFloat16(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 11))
	for _, d := range []kernel.DType{kernel.Float16, kernel.BFloat16} {
		file := kernels.Of(d)
		e := emulated{modules: parsePTX(t, file)}
		const size = 1 << 17
		for op := kernel.Sum; op <= kernel.Max; op++ {
			if !op.Takes(d) {
				continue
			}
			e.fresh(r, d, 3*size)
			for i := range 1 << 16 {
				e.want[2*i], e.want[2*i+1] = byte(i), byte(i>>8)
			}
			copy(e.memory.Bytes, e.want)
			e.batch(t, r, file, "treerun_reduce_"+file, d, codes(op, d), kernel.Factor{}, []kernels.Part{{
				To: []cuda.Addr{e.addr(2 * size)}, From: []cuda.Addr{e.addr(0), e.addr(size)}, Bytes: size}})
			kernel.Reduce(op, d, e.want[2*size:], e.want[:size], e.want[size:2*size])
			e.compare(t, fmt.Sprintf("%v of every %v", op, d))
		}
	}
}

func TestPTXCopy(t *testing.T) {
	e := emulated{modules: parsePTX(t, "copy")}
	r := rand.New(rand.NewPCG(1, 12))
	for _, n := range emulatedLengths(r) {
		e.fresh(r, kernel.Uint8, room(6, n))
		p := places(r, 6, n, 1)
		e.batch(t, r, "copy", "treerun_copy", kernel.Uint8, 0, kernel.Factor{}, []kernels.Part{
			{To: []cuda.Addr{e.addr(p[0]), e.addr(p[1])}, From: []cuda.Addr{e.addr(p[2])}, Bytes: int64(n)},
			{To: []cuda.Addr{e.addr(p[3])}, From: []cuda.Addr{e.addr(p[4])}, Bytes: int64(n)},
			{To: []cuda.Addr{e.addr(p[5])}, From: []cuda.Addr{e.addr(p[2])}, Bytes: int64(n / 2)}})
		copy(e.want[p[0]:][:n], e.want[p[2]:])
		copy(e.want[p[1]:][:n], e.want[p[2]:])
		copy(e.want[p[3]:][:n], e.want[p[4]:])
		copy(e.want[p[5]:][:n/2], e.want[p[2]:])
		e.compare(t, fmt.Sprintf("copies of %d bytes", n))
	}
}

func TestPTXSearch(t *testing.T) {
	e := emulated{modules: parsePTX(t, "blocks")}
	r := rand.New(rand.NewPCG(1, 13))
	for d := range realTypes {
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
			e.run(t, r, "blocks", entry, e.at(0), e.at(begin), uint64(n), uint64(block), mask, 0, 0)
			copy(e.want, nonZero(d, x, block))
			e.compare(t, fmt.Sprintf("blocks of %d in %d %v", block, n, d))

			add, limit := r.Uint64()&all, r.Uint64()&all
			fill(r, d, x)
			clear(e.want[:bitmap])
			copy(e.memory.Bytes, e.want)
			e.run(t, r, "blocks", entry, e.at(0), e.at(begin), uint64(n), uint64(block), mask, add, limit)
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
	e := emulated{modules: parsePTX(t, "blocks")}
	r := rand.New(rand.NewPCG(1, 14))
	for d := range realTypes {
		size := d.Size()
		for _, n := range emulatedLengths(r) {
			block, zero := 1+r.IntN(40), r.IntN(2)
			bitmap := (int(kernels.BitmapBytes(int64(n), int64(block))) + 15) / 16 * 16
			e.fresh(r, d, bitmap+room(2, n*size))
			p := places(r, 2, n*size, size)
			to, from := bitmap+p[0], bitmap+p[1]
			e.run(t, r, "blocks", fmt.Sprintf("treerun_pick_%d", 8*size), e.at(0), e.at(to), e.at(from), uint64(n),
				uint64(block), uint64(zero))
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

func TestPTXCompact(t *testing.T) {
	e := emulated{modules: parsePTX(t, "blocks")}
	r := rand.New(rand.NewPCG(1, 16))
	for d := range realTypes {
		for _, n := range emulatedLengths(r) {
			c := newCompaction(r, d, n, 1+r.IntN(40))
			e.fresh(r, d, c.room)
			c.fill(r, e.want)
			for back := range 2 {
				copy(e.memory.Bytes, e.want)
				e.run(t, r, "blocks", fmt.Sprintf("treerun_compact_%d", 8*c.size), e.at(c.own), e.at(c.any), e.at(c.before),
					e.at(c.whole), e.at(c.packed), uint64(n), uint64(c.Block), uint64(back))
				c.do(e.want, back > 0)
				e.compare(t, fmt.Sprintf("blocks of %d in %d %v, back %d", c.Block, n, d, back))
				fill(r, d, e.want[c.packed:][:n*c.size])
			}
		}
	}
}
