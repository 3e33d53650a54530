package kernels_test

import (
	"errors"
	"math"
	"math/bits"
)

func mask(width uint) uint64 { return 1<<width - 1 } // all bits for 64: the shift gives 0

// extend returns the low bits of v as a number of this type, in 64 bits.
func (ty typ) extend(v uint64) uint64 {
	if ty.kind == 's' {
		return uint64(int64(v<<(64-ty.bits)) >> (64 - ty.bits))
	}
	return v & mask(ty.bits)
}

// The NaN that operations give. A GPU promises none in particular; these have
// bits that rounding by hand would carry into the sign.
const (
	nan16 = 0x7FFF
	nan32 = 0x7FFFFFFF
	nan64 = 0x7FFFFFFFFFFFFFFF
)

// float returns the value of a floating-point number, which binary64 holds.
func (ty typ) float(v uint64) float64 {
	switch ty.bits {
	case 64:
		return math.Float64frombits(v)
	case 32:
		return float64(math.Float32frombits(uint32(v)))
	}
	fraction, exponent := float64(v&0x3FF), int(v>>10&0x1F)
	x := math.Ldexp(1024+fraction, exponent-25)
	switch {
	case exponent == 31 && fraction != 0:
		return math.NaN()
	case exponent == 31:
		x = math.Inf(1)
	case exponent == 0:
		x = math.Ldexp(fraction, -24)
	}
	return math.Copysign(x, 1-2*float64(v>>15&1))
}

// round returns the number nearest to x, the even one of two. Sums, products and
// quotients of two numbers of half the digits are not harmed by the rounding that
// binary64 has done before.
func (ty typ) round(x float64) uint64 {
	switch {
	case x != x:
		return map[uint]uint64{16: nan16, 32: nan32, 64: nan64}[ty.bits]
	case ty.bits == 64:
		return math.Float64bits(x)
	case ty.bits == 32:
		return uint64(math.Float32bits(float32(x)))
	}
	sign, m := uint64(0), math.Abs(x)
	if math.Signbit(x) {
		sign = 0x8000
	}
	_, exponent := math.Frexp(m) // m is below 2 to the exponent
	if m >= 65520 {
		return sign | 0x7C00
	}
	exponent = max(exponent, -13)
	units := math.RoundToEven(math.Ldexp(m, 11-exponent)) // of the last place; a carry goes into the exponent
	if units < 1024 {
		return sign | uint64(units)
	}
	return sign | uint64(exponent+13)<<10 + uint64(units)
}

// compute is an instruction without its operands.
type compute func(a, b, c uint64) (uint64, error)

var errDivision = errors.New("division by 0")

// operation returns the computation of an instruction, and the number of its operands.
func operation(name []string) (compute, int, error) {
	last := name[len(name)-1]
	if last == "f16x2" { // two numbers in a register
		one, inputs, err := operation(append(append([]string{}, name[:len(name)-1]...), "f16"))
		return func(a, b, c uint64) (uint64, error) {
			low, _ := one(a&0xFFFF, b&0xFFFF, c&0xFFFF)
			high, err := one(a>>16, b>>16, c>>16)
			return low | high<<16, err
		}, inputs, err
	}
	ty, err := typeOf(last)
	if err != nil {
		return nil, 0, err
	}
	switch name[0] {
	case "cvt":
		return convert(name[1:], ty)
	case "setp":
		if len(name) != 3 {
			return nil, 0, errUnknown
		}
		return comparison(name[1], ty)
	case "selp":
		return func(a, b, c uint64) (uint64, error) {
			if c != 0 {
				return a, nil
			}
			return b, nil
		}, 3, nil
	case "bfe":
		return func(a, b, c uint64) (uint64, error) {
			from, length := uint(b&0xFF), uint(c&0xFF)
			if length == 0 || from+length > ty.bits {
				return 0, errors.New("a field beyond the register")
			}
			return typ{ty.kind, length}.extend(a >> from), nil
		}, 3, nil
	}
	if ty.kind == 'f' {
		return floats(name, ty)
	}
	return integers(name, ty)
}

func floats(name []string, ty typ) (compute, int, error) {
	var f func(x, y float64) float64
	switch name[0] {
	case "add":
		f = func(x, y float64) float64 { return x + y }
	case "sub":
		f = func(x, y float64) float64 { return x - y }
	case "mul":
		f = func(x, y float64) float64 { return x * y }
	case "div":
		f = func(x, y float64) float64 { return x / y }
	case "abs", "neg": // of the bits: a NaN keeps its bits
		sign := uint64(1) << (ty.bits - 1)
		return func(a, _, _ uint64) (uint64, error) {
			if name[0] == "abs" {
				return a &^ sign, nil
			}
			return a ^ sign, nil
		}, 1, nil
	}
	if f == nil || len(name) != 3 || name[1] != "rn" { // without rn, the compiler might fuse two
		return nil, 0, errUnknown
	}
	return func(a, b, _ uint64) (uint64, error) { return ty.round(f(ty.float(a), ty.float(b))), nil }, 2, nil
}

func comparison(how string, ty typ) (compute, int, error) {
	var less, equal func(a, b uint64) bool
	number := func(a, b uint64) bool { return true }
	switch ty.kind {
	case 'f':
		less = func(a, b uint64) bool { return ty.float(a) < ty.float(b) }
		equal = func(a, b uint64) bool { return ty.float(a) == ty.float(b) }
		number = func(a, b uint64) bool { x, y := ty.float(a), ty.float(b); return x == x && y == y }
	case 's':
		less = func(a, b uint64) bool { return int64(ty.extend(a)) < int64(ty.extend(b)) }
		equal = func(a, b uint64) bool { return ty.extend(a) == ty.extend(b) }
	default:
		less = func(a, b uint64) bool { return ty.extend(a) < ty.extend(b) }
		equal = func(a, b uint64) bool { return ty.extend(a) == ty.extend(b) }
	}
	test, ok := map[string]func(a, b uint64) bool{
		"eq":  equal,
		"ne":  func(a, b uint64) bool { return number(a, b) && !equal(a, b) },
		"lt":  less,
		"gt":  func(a, b uint64) bool { return less(b, a) },
		"le":  func(a, b uint64) bool { return less(a, b) || equal(a, b) },
		"ge":  func(a, b uint64) bool { return less(b, a) || equal(a, b) },
		"num": number,
		"neu": func(a, b uint64) bool { return !equal(a, b) },
		"geu": func(a, b uint64) bool { return !less(a, b) },
	}[how]
	if !ok {
		return nil, 0, errUnknown
	}
	return func(a, b, _ uint64) (uint64, error) {
		if test(a, b) {
			return 1, nil
		}
		return 0, nil
	}, 2, nil
}

// convert is cvt: to one type from another.
func convert(how []string, from typ) (compute, int, error) {
	if len(how) < 2 {
		return nil, 0, errUnknown
	}
	to, err := typeOf(how[len(how)-2])
	if err != nil {
		return nil, 0, err
	}
	rounding := how[:len(how)-2]
	one := func(f func(a uint64) uint64) (compute, int, error) {
		return func(a, _, _ uint64) (uint64, error) { return f(a), nil }, 1, nil
	}
	exactly := func(want string) bool { return len(rounding) == 1 && rounding[0] == want }
	switch {
	case from.kind != 'f' && to.kind != 'f' && len(rounding) == 0:
		return one(func(a uint64) uint64 { return to.extend(from.extend(a)) })
	case from.kind == 'f' && to.kind == 'f' &&
		(exactly("rn") && to.bits < from.bits || len(rounding) == 0 && to.bits > from.bits):
		return one(func(a uint64) uint64 { return to.round(from.float(a)) })
	case from.kind == 's' && exactly("rn") && to.bits == 32:
		return one(func(a uint64) uint64 { return uint64(math.Float32bits(float32(int64(from.extend(a))))) })
	case from.kind == 's' && exactly("rn") && to.bits == 64:
		return one(func(a uint64) uint64 { return math.Float64bits(float64(int64(from.extend(a)))) })
	case from.kind == 'u' && exactly("rn") && to.bits == 32:
		return one(func(a uint64) uint64 { return uint64(math.Float32bits(float32(from.extend(a)))) })
	case from.kind == 'f' && to == typ{'s', 32} && exactly("rzi"):
		return one(func(a uint64) uint64 {
			x := from.float(a)
			if x != x {
				return 0
			}
			return uint64(int64(max(math.MinInt32, min(math.MaxInt32, math.Trunc(x)))))
		})
	}
	return nil, 0, errUnknown
}

func integers(name []string, ty typ) (compute, int, error) {
	s := func(v uint64) int64 { return int64(ty.extend(v)) }
	signed := ty.kind == 's'
	less := func(a, b uint64) bool {
		if signed {
			return s(a) < s(b)
		}
		return ty.extend(a) < ty.extend(b)
	}
	two := func(f func(a, b uint64) uint64) (compute, int, error) {
		return func(a, b, _ uint64) (uint64, error) { return ty.extend(f(a, b)), nil }, 2, nil
	}
	one := func(f func(a uint64) uint64) (compute, int, error) {
		return func(a, _, _ uint64) (uint64, error) { return ty.extend(f(a)), nil }, 1, nil
	}
	kind := ""
	if len(name) == 3 {
		kind = name[1]
	}
	switch name[0] + "." + kind {
	case "add.":
		return two(func(a, b uint64) uint64 { return a + b })
	case "sub.":
		return two(func(a, b uint64) uint64 { return a - b })
	case "mul.lo":
		return two(func(a, b uint64) uint64 { return a * b })
	case "mul.wide":
		return func(a, b, _ uint64) (uint64, error) { return ty.extend(a) * ty.extend(b), nil }, 2, nil
	case "mad.lo":
		return func(a, b, c uint64) (uint64, error) { return ty.extend(a*b + c), nil }, 3, nil
	case "div.":
		if signed {
			return nil, 0, errUnknown
		}
		return func(a, b, _ uint64) (uint64, error) {
			if ty.extend(b) == 0 {
				return 0, errDivision
			}
			return ty.extend(a) / ty.extend(b), nil
		}, 2, nil
	case "min.", "max.":
		return two(func(a, b uint64) uint64 {
			if less(a, b) == (name[0] == "min") {
				return a
			}
			return b
		})
	case "abs.":
		return one(func(a uint64) uint64 { return uint64(max(s(a), -s(a))) })
	case "neg.":
		return one(func(a uint64) uint64 { return -a })
	case "popc.":
		return one(func(a uint64) uint64 { return uint64(bits.OnesCount64(ty.extend(a))) })
	case "not.":
		return one(func(a uint64) uint64 { return ^a })
	case "and.":
		return two(func(a, b uint64) uint64 { return a & b })
	case "or.":
		return two(func(a, b uint64) uint64 { return a | b })
	case "xor.":
		return two(func(a, b uint64) uint64 { return a ^ b })
	case "shl.": // a shift beyond the width gives 0, in Go too
		return two(func(a, b uint64) uint64 { return a << min(uint32(b), 64) })
	case "shr.":
		return two(func(a, b uint64) uint64 {
			if signed {
				return uint64(s(a) >> min(uint32(b), 63))
			}
			return ty.extend(a) >> min(uint32(b), 64)
		})
	}
	return nil, 0, errUnknown
}
