package kernels_test

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// PTXMemory is the memory that a kernel can reach: bytes that begin at an address.
type PTXMemory struct {
	Base  uint64
	Bytes []byte
}

// at returns the bytes of an access, which is at a multiple of its size.
func (m *PTXMemory) at(a uint64, size int) ([]byte, error) {
	if a%uint64(size) != 0 {
		return nil, fmt.Errorf("misaligned address %#x for %d bytes", a, size)
	}
	if a < m.Base || a-m.Base > uint64(len(m.Bytes)) || uint64(len(m.Bytes))-(a-m.Base) < uint64(size) {
		return nil, fmt.Errorf("illegal address %#x for %d bytes", a, size)
	}
	return m.Bytes[a-m.Base:][:size], nil
}

// paramBase is the address that stands for that of the parameter.
const paramBase = 1 << 60

// thread is one thread of a kernel.
type thread struct {
	kernel                     *Kernel
	memory                     *PTXMemory
	param                      *PTXMemory
	registers                  []uint64
	block, blocks, id, threads uint64
	next                       int // instruction
}

// maxSteps is the number of instructions after which a thread counts as stuck.
const maxSteps = 1 << 24

// Run runs all threads of a grid of blocks, in order. args is the bytes of the
// parameter.
func (k *Kernel) Run(m *PTXMemory, blocks, threads int, args []byte) error {
	if len(args) != k.params {
		return fmt.Errorf("ptx: %s takes %d bytes, got %d", k.name, k.params, len(args))
	}
	t := thread{kernel: k, memory: m, param: &PTXMemory{paramBase, args}, registers: make([]uint64, len(k.widths)),
		blocks: uint64(blocks), threads: uint64(threads)}
	for block := range blocks {
		for id := range threads {
			t.block, t.id, t.next = uint64(block), uint64(id), 0
			for i := range t.registers { // nothing must be read before it was written
				t.registers[i] = 0xDEADBEEFDEADBEEF & mask(k.widths[i])
			}
			if err := t.run(); err != nil {
				return fmt.Errorf("ptx: %s, block %d, thread %d: %w", k.name, block, id, err)
			}
		}
	}
	return nil
}

func (t *thread) run() error {
	for range maxSteps {
		if t.next >= len(t.kernel.code) {
			return fmt.Errorf("ran past its end")
		}
		in := &t.kernel.code[t.next]
		t.next++
		if in.guard >= 0 && (t.registers[in.guard] != 0) == in.negate {
			continue
		}
		if err := in.run(t); err != nil {
			return fmt.Errorf("%s: %w", in.text, err)
		}
		if t.next < 0 {
			return nil
		}
	}
	return fmt.Errorf("has not ended after %d instructions", maxSteps)
}

// set writes a register, as wide as that is.
func (t *thread) set(register int, v uint64) {
	t.registers[register] = v & mask(t.kernel.widths[register])
}

// value makes a function of an operand that is read.
func (k *Kernel) value(text string) (func(t *thread) uint64, error) {
	switch text {
	case "%tid.x":
		return func(t *thread) uint64 { return t.id }, nil
	case "%ntid.x":
		return func(t *thread) uint64 { return t.threads }, nil
	case "%ctaid.x":
		return func(t *thread) uint64 { return t.block }, nil
	case "%nctaid.x":
		return func(t *thread) uint64 { return t.blocks }, nil
	}
	if strings.HasPrefix(text, "%") {
		r, err := k.register(text)
		return func(t *thread) uint64 { return t.registers[r] }, err
	}
	v, err := k.constant(text)
	return func(*thread) uint64 { return v }, err
}

// constant reads a number, the bits of a floating-point number, or the address
// of the parameter.
func (k *Kernel) constant(text string) (uint64, error) {
	if text == k.name+"_param_0" {
		return paramBase, nil
	}
	if digits, ok := strings.CutPrefix(text, "0f"); ok {
		return strconv.ParseUint(digits, 16, 32)
	}
	if digits, ok := strings.CutPrefix(text, "0d"); ok {
		return strconv.ParseUint(digits, 16, 64)
	}
	if v, err := strconv.ParseInt(text, 0, 64); err == nil {
		return uint64(v), nil
	}
	return strconv.ParseUint(text, 0, 64)
}

// address makes a function of "[register+offset]".
func (k *Kernel) address(text string) (func(t *thread) uint64, error) {
	inner, ok := strings.CutPrefix(text, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if !ok || !closed {
		return nil, fmt.Errorf("%s is no address", text)
	}
	base, offset, more := strings.Cut(inner, "+")
	from, err := k.value(base)
	if err != nil || !more {
		return from, err
	}
	n, err := strconv.ParseInt(offset, 10, 32)
	return func(t *thread) uint64 { return from(t) + uint64(n) }, err
}

// list returns the operands in braces, or the one without.
func list(text string) []string {
	inner, ok := strings.CutPrefix(text, "{")
	inner, closed := strings.CutSuffix(inner, "}")
	if !ok || !closed {
		return []string{text}
	}
	return split(inner)
}

// memoryOf returns the memory of a space, "global" or "param".
func (t *thread) memoryOf(space string) *PTXMemory {
	if space == "param" {
		return t.param
	}
	return t.memory
}

// readBytes and writeBytes move one number between memory and a register.
func readBytes(b []byte) uint64 {
	var x [8]byte
	copy(x[:], b)
	return binary.LittleEndian.Uint64(x[:])
}

func writeBytes(b []byte, v uint64) {
	var x [8]byte
	binary.LittleEndian.PutUint64(x[:], v)
	copy(b, x[:])
}
