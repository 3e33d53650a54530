package kernel

import "math"

type integer interface {
	int8 | uint8 | int32 | uint32 | int64 | uint64
}

type float interface {
	float32 | float64
}

// reduceGo is Reduce in plain Go. op is not Avg.
func reduceGo(op Op, dt DType, dst, a, b []byte) {
	if aligned(dt, dst, a, b) {
		reduceAligned(op, dt, dst, a, b)
		return
	}
	var x, y [128]uint64
	for len(dst) > 0 {
		bx, by := bytesOf(x[:]), bytesOf(y[:])
		n := copy(bx, a)
		bx, by = bx[:n], by[:copy(by, b)]
		reduceAligned(op, dt, bx, bx, by)
		copy(dst, bx)
		dst, a, b = dst[n:], a[n:], b[n:]
	}
}

func reduceAligned(op Op, dt DType, dst, a, b []byte) {
	switch dt {
	case Int8:
		integers(op, as[int8](dst), as[int8](a), as[int8](b))
	case Uint8:
		integers(op, dst, a, b)
	case Int32:
		integers(op, as[int32](dst), as[int32](a), as[int32](b))
	case Uint32:
		integers(op, as[uint32](dst), as[uint32](a), as[uint32](b))
	case Int64:
		integers(op, as[int64](dst), as[int64](a), as[int64](b))
	case Uint64:
		integers(op, as[uint64](dst), as[uint64](a), as[uint64](b))
	case Float16, BFloat16:
		halves(op, dt, as[uint16](dst), as[uint16](a), as[uint16](b))
	case Float32:
		floats(op, as[float32](dst), as[float32](a), as[float32](b))
	case Float64:
		floats(op, as[float64](dst), as[float64](a), as[float64](b))
	}
}

func integers[T integer](op Op, dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	switch op {
	case Sum:
		for i := range dst {
			dst[i] = a[i] + b[i]
		}
	case Prod:
		for i := range dst {
			dst[i] = a[i] * b[i]
		}
	case Min:
		for i := range dst {
			dst[i] = min(a[i], b[i])
		}
	case Max:
		for i := range dst {
			dst[i] = max(a[i], b[i])
		}
	}
}

// floats relies on the built-in min and max: they give NaN for NaN and take -0
// as less than +0.
func floats[T float](op Op, dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	switch op {
	case Sum:
		for i := range dst {
			dst[i] = plain(a[i] + b[i])
		}
	case Prod:
		for i := range dst {
			dst[i] = plain(a[i] * b[i])
		}
	case Min:
		for i := range dst {
			dst[i] = plain(min(a[i], b[i]))
		}
	case Max:
		for i := range dst {
			dst[i] = plain(max(a[i], b[i]))
		}
	}
}

// plain returns x, and for every NaN the same one.
func plain[T float](x T) T {
	if x != x {
		return T(math.Float64frombits(0x7FF8 << 48))
	}
	return x
}

// halves reduces 16-bit floats through blocks of float32.
func halves(op Op, dt DType, dst, a, b []uint16) {
	var x, y [128]float32
	for len(dst) > 0 {
		n := min(len(dst), len(x))
		widen(dt, x[:n], a)
		widen(dt, y[:n], b)
		floats(op, x[:n], x[:n], y[:n])
		narrow(dt, dst, x[:n])
		dst, a, b = dst[n:], a[n:], b[n:]
	}
}

// scaleGo is Scale in plain Go.
func scaleGo(dt DType, dst []byte, n int) {
	if aligned(dt, dst, dst, dst) {
		scaleAligned(dt, dst, n)
		return
	}
	var x [128]uint64
	for len(dst) > 0 {
		bx := bytesOf(x[:])
		bx = bx[:copy(bx, dst)]
		scaleAligned(dt, bx, n)
		dst = dst[copy(dst, bx):]
	}
}

func scaleAligned(dt DType, dst []byte, n int) {
	switch dt {
	case Int8:
		divide(as[int8](dst), int64(n))
	case Uint8:
		divide(dst, uint64(n))
	case Int32:
		divide(as[int32](dst), int64(n))
	case Uint32:
		divide(as[uint32](dst), uint64(n))
	case Int64:
		divide(as[int64](dst), int64(n))
	case Uint64:
		divide(as[uint64](dst), uint64(n))
	case Float16, BFloat16:
		halvesDivide(dt, as[uint16](dst), n)
	case Float32:
		floatsDivide(as[float32](dst), float32(n))
	case Float64:
		floatsDivide(as[float64](dst), float64(n))
	}
}

// divide works in W, which holds n and every T.
func divide[T integer, W int64 | uint64](dst []T, n W) {
	for i, v := range dst {
		dst[i] = T(W(v) / n)
	}
}

func floatsDivide[T float](dst []T, n T) {
	for i, v := range dst {
		dst[i] = plain(v / n)
	}
}

func halvesDivide(dt DType, dst []uint16, n int) {
	var x [128]float32
	for len(dst) > 0 {
		k := min(len(dst), len(x))
		widen(dt, x[:k], dst)
		floatsDivide(x[:k], float32(n))
		narrow(dt, dst, x[:k])
		dst = dst[k:]
	}
}
