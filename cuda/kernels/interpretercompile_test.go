package kernels_test

import (
	"errors"
	"fmt"
	"strconv"
)

var errUnknown = errors.New("unknown instruction")

// typ is a type of PTX: a letter of u, s, b, f, and the number of bits.
type typ struct {
	kind byte
	bits uint
}

func typeOf(text string) (typ, error) {
	if text == "pred" {
		return typ{'b', 1}, nil
	}
	if len(text) < 2 || text == "f16x2" {
		return typ{}, errUnknown
	}
	n, err := strconv.Atoi(text[1:])
	if err != nil || text[0] != 'u' && text[0] != 's' && text[0] != 'b' && text[0] != 'f' {
		return typ{}, errUnknown
	}
	return typ{text[0], uint(n)}, nil
}

// compile makes a function of an instruction: name has its parts, as in ld,
// global, v4, u32.
func (k *Kernel) compile(name, operands []string) (func(t *thread) error, error) {
	last := name[len(name)-1]
	switch name[0] {
	case "ret":
		return func(t *thread) error { t.next = -1; return nil }, nil
	case "bra":
		if len(operands) != 1 {
			return nil, errUnknown
		}
		to, ok := k.labels[operands[0]]
		if !ok {
			return nil, fmt.Errorf("no label %s", operands[0])
		}
		return func(t *thread) error { t.next = to; return nil }, nil
	case "ld", "st":
		return k.move(name, operands)
	case "atom":
		if len(name) != 4 || name[1] != "global" || name[2] != "or" || len(operands) != 3 {
			return nil, errUnknown
		}
		return k.atomicOr(last, operands)
	case "mov":
		return k.pack(last, operands)
	}
	compute, inputs, err := operation(name)
	if err != nil {
		return nil, err
	}
	if len(operands) != inputs+1 {
		return nil, fmt.Errorf("%d operands, want %d", len(operands), inputs+1)
	}
	to, err := k.register(operands[0])
	if err != nil {
		return nil, err
	}
	var in [3]func(*thread) uint64
	for i := range in {
		in[i] = func(*thread) uint64 { return 0 }
		if i < inputs {
			if in[i], err = k.value(operands[i+1]); err != nil {
				return nil, err
			}
		}
	}
	return func(t *thread) error {
		v, err := compute(in[0](t), in[1](t), in[2](t))
		t.set(to, v)
		return err
	}, nil
}

// move compiles loads and stores, of one number or of a vector.
func (k *Kernel) move(name, operands []string) (func(t *thread) error, error) {
	ty, err := typeOf(name[len(name)-1])
	if err != nil || len(operands) != 2 || len(name) < 3 || name[1] != "global" && name[1] != "param" {
		return nil, errUnknown
	}
	if name[0] == "st" {
		operands[0], operands[1] = operands[1], operands[0]
	}
	at, err := k.address(operands[1])
	if err != nil {
		return nil, err
	}
	names := list(operands[0])
	if vector := name[2]; len(name) == 4 && vector != fmt.Sprintf("v%d", len(names)) || len(name) == 3 && len(names) != 1 {
		return nil, errUnknown
	}
	size, space := int(ty.bits/8), name[1]
	if name[0] == "st" {
		values := make([]func(*thread) uint64, len(names))
		for i, n := range names {
			if values[i], err = k.value(n); err != nil {
				return nil, err
			}
		}
		return func(t *thread) error {
			b, err := t.memory.at(at(t), size*len(values))
			for i := 0; err == nil && i < len(values); i++ {
				writeBytes(b[i*size:][:size], values[i](t))
			}
			return err
		}, nil
	}
	to := make([]int, len(names))
	for i, n := range names {
		if to[i], err = k.register(n); err != nil {
			return nil, err
		}
	}
	return func(t *thread) error {
		b, err := t.memoryOf(space).at(at(t), size*len(to))
		for i := 0; err == nil && i < len(to); i++ {
			t.set(to[i], ty.extend(readBytes(b[i*size:][:size])))
		}
		return err
	}, nil
}

func (k *Kernel) atomicOr(last string, operands []string) (func(t *thread) error, error) {
	ty, err := typeOf(last)
	if err != nil {
		return nil, err
	}
	old, err := k.register(operands[0])
	if err != nil {
		return nil, err
	}
	at, err := k.address(operands[1])
	if err != nil {
		return nil, err
	}
	v, err := k.value(operands[2])
	if err != nil {
		return nil, err
	}
	return func(t *thread) error {
		b, err := t.memory.at(at(t), int(ty.bits/8))
		if err == nil {
			t.set(old, readBytes(b))
			writeBytes(b, readBytes(b)|v(t))
		}
		return err
	}, nil
}

// pack compiles mov, which also takes registers apart and puts them together.
func (k *Kernel) pack(last string, operands []string) (func(t *thread) error, error) {
	ty, err := typeOf(last)
	if err != nil || len(operands) != 2 {
		return nil, errUnknown
	}
	names, from := list(operands[0]), list(operands[1])
	if len(names) != 1 && len(from) != 1 {
		return nil, errUnknown
	}
	to := make([]int, len(names))
	for i, n := range names {
		if to[i], err = k.register(n); err != nil {
			return nil, err
		}
	}
	values := make([]func(*thread) uint64, len(from))
	for i, n := range from {
		if values[i], err = k.value(n); err != nil {
			return nil, err
		}
	}
	part := ty.bits / uint(len(from))
	share := ty.bits / uint(len(to))
	return func(t *thread) error {
		var v uint64
		for i, value := range values {
			v |= value(t) & mask(part) << (part * uint(i))
		}
		for i, r := range to {
			t.set(r, v>>(share*uint(i))&mask(share))
		}
		return nil
	}, nil
}
