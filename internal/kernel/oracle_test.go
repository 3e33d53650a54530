package kernel

import (
	"encoding/binary"
	"math"
	"math/big"
)

// The oracle: one element at a time, by other means than the code under test.
// Integers are computed in math/big, float32 in float64, 16-bit floats by a
// search among all of them.

func (d DType) isSigned() bool { return d == Int8 || d == Int16 || d == Int32 || d == Int64 }

func load(dt DType, b []byte) uint64 {
	var x [8]byte
	copy(x[:], b[:dt.Size()])
	return binary.NativeEndian.Uint64(x[:]) // little endian: the tests run there
}

func store(dt DType, b []byte, v uint64) {
	var x [8]byte
	binary.NativeEndian.PutUint64(x[:], v)
	copy(b[:dt.Size()], x[:])
}

func oracleReduce(op Op, dt DType, a, b []byte) []byte {
	if dt.Complex() {
		return oracleComplex(op, dt.part(), a, b)
	}
	out := make([]byte, len(a))
	for i := 0; i < len(a); i += dt.Size() {
		x, y := load(dt, a[i:]), load(dt, b[i:])
		if dt.Float() {
			store(dt, out[i:], oracleFloat(op, dt, x, y))
		} else {
			store(dt, out[i:], oracleInteger(op, dt, x, y))
		}
	}
	return out
}

// oracleComplex takes the type of the parts.
func oracleComplex(op Op, dt DType, a, b []byte) []byte {
	if op == Sum || op == Avg {
		return oracleReduce(op, dt, a, b)
	}
	out, size := make([]byte, len(a)), dt.Size()
	for i := 0; i < len(a); i += 2 * size {
		ar, ai, br, bi := load(dt, a[i:]), load(dt, a[i+size:]), load(dt, b[i:]), load(dt, b[i+size:])
		minus := oracleFloat(Prod, dt, ai, bi) ^ 1<<(8*size-1)
		store(dt, out[i:], oracleFloat(Sum, dt, oracleFloat(Prod, dt, ar, br), minus))
		store(dt, out[i+size:], oracleFloat(Sum, dt, oracleFloat(Prod, dt, ar, bi), oracleFloat(Prod, dt, ai, br)))
	}
	return out
}

func bigOf(dt DType, x uint64) *big.Int {
	if dt.isSigned() {
		shift := 64 - 8*dt.Size()
		return big.NewInt(int64(x<<shift) >> shift)
	}
	return new(big.Int).SetUint64(x)
}

func bitsOfBig(dt DType, v *big.Int) uint64 {
	modulus := new(big.Int).Lsh(big.NewInt(1), uint(8*dt.Size()))
	return new(big.Int).Mod(v, modulus).Uint64()
}

func oracleInteger(op Op, dt DType, a, b uint64) uint64 {
	x, y, z := bigOf(dt, a), bigOf(dt, b), new(big.Int)
	switch op {
	case Sum, Avg:
		z.Add(x, y)
	case Prod:
		z.Mul(x, y)
	case Min:
		z = x
		if y.Cmp(x) < 0 {
			z = y
		}
	case Max:
		z = x
		if y.Cmp(x) > 0 {
			z = y
		}
	case And:
		z.And(x, y)
	case Or:
		z.Or(x, y)
	case Xor:
		z.Xor(x, y)
	case LogicalAnd:
		z.SetInt64(int64(min(x.BitLen(), y.BitLen(), 1)))
	case LogicalOr:
		z.SetInt64(int64(min(x.BitLen()+y.BitLen(), 1)))
	case LogicalXor:
		z.SetInt64(int64(min(x.BitLen(), 1) ^ min(y.BitLen(), 1)))
	}
	return bitsOfBig(dt, z)
}

func floatOf(dt DType, x uint64) float64 {
	switch dt {
	case Float64:
		return math.Float64frombits(x)
	case Float32:
		return float64(math.Float32frombits(uint32(x)))
	case BFloat16:
		return float64(math.Float32frombits(uint32(x) << 16))
	}
	fraction, exponent := float64(x&0x3FF), int(x>>10&0x1F)
	v := 0.0
	switch exponent {
	case 0:
		v = math.Ldexp(fraction, -24)
	case 31:
		v = math.Inf(1)
		if fraction != 0 {
			return math.NaN()
		}
	default:
		v = math.Ldexp(1024+fraction, exponent-25)
	}
	return math.Copysign(v, 1-2*float64(x>>15))
}

var nanBits = map[DType]uint64{Float16: 0x7E00, BFloat16: 0x7FC0, Float32: 0x7FC00000, Float64: 0x7FF8000000000000}

func bitsOfFloat(dt DType, v float64) uint64 {
	switch {
	case v != v:
		return nanBits[dt]
	case dt == Float64:
		return math.Float64bits(v)
	case dt == Float32:
		return uint64(math.Float32bits(float32(v)))
	}
	return nearest16(dt, v)
}

// nearest16 finds the 16-bit float nearest to v by bisection over the positive
// ones, whose bits are in the order of their values.
func nearest16(dt DType, v float64) uint64 {
	infinity := map[DType]uint64{Float16: 0x7C00, BFloat16: 0x7F80}[dt]
	sign, m := uint64(0), math.Abs(v)
	if math.Signbit(v) {
		sign = 0x8000
	}
	lo, hi := uint64(0), infinity // value(lo) <= m <= value(hi)
	if math.IsInf(m, 0) {
		return sign | infinity
	}
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; floatOf(dt, mid) <= m {
			lo = mid
		} else {
			hi = mid
		}
	}
	below, above := floatOf(dt, lo), floatOf(dt, hi)
	if hi == infinity { // rounds as if the format went on
		above = 2*below - floatOf(dt, lo-1)
	}
	switch {
	case m-below > above-m, m-below == above-m && lo%2 == 1:
		return sign | hi
	}
	return sign | lo
}

// oracleFloat computes in float64. The sum or product of two narrower numbers
// is rounded twice, which is harmless: 53 digits are more than twice 24.
func oracleFloat(op Op, dt DType, a, b uint64) uint64 {
	x, y := floatOf(dt, a), floatOf(dt, b)
	z := math.NaN()
	switch {
	case op == Sum || op == Avg:
		z = x + y
	case op == Prod:
		z = x * y
	case x != x || y != y:
	case x == y: // zeros of either sign
		z = x
		if math.Signbit(y) == (op == Min) {
			z = y
		}
	case (x < y) == (op == Min):
		z = x
	default:
		z = y
	}
	return bitsOfFloat(dt, z)
}

func oracleScale(dt DType, b []byte, n int) []byte {
	dt = dt.part()
	out := make([]byte, len(b))
	divisor := float64(n)
	if dt != Float64 {
		divisor = float64(float32(n)) // n as the type that is computed in
	}
	for i := 0; i < len(b); i += dt.Size() {
		x := load(dt, b[i:])
		switch {
		case dt == Float16 || dt == BFloat16: // by way of float32, as documented
			store(dt, out[i:], bitsOfFloat(dt, float64(float32(floatOf(dt, x)/divisor))))
		case dt.Float():
			store(dt, out[i:], bitsOfFloat(dt, floatOf(dt, x)/divisor))
		default:
			store(dt, out[i:], bitsOfBig(dt, new(big.Int).Quo(bigOf(dt, x), big.NewInt(int64(n)))))
		}
	}
	return out
}
