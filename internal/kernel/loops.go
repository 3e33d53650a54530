package kernel

type integer interface {
	int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64
}

// reduceGo is Reduce in plain Go. op is not Avg, nor the Sum of complex numbers.
func reduceGo(op Op, dt DType, dst, a, b []byte) {
	reduceBytes(op, dt, base(dst), base(a), base(b), len(dst))
}

// reduceBytes takes n bytes from each address. Addresses are passed in registers; three slices would be passed in
// memory, which would slow down short calls.
func reduceBytes(op Op, dt DType, dst, a, b *byte, n int) {
	if n == 0 {
		return
	}
	if !aligned(dt, dst, a, b) {
		reduceUnaligned(op, dt, from(dst, n), from(a, n), from(b, n))
		return
	}
	switch dt {
	case Int8:
		integers(op, to[int8](dst), to[int8](a), to[int8](b), n)
	case Uint8, Bool:
		integers(op, dst, a, b, n)
	case Int16:
		integers(op, to[int16](dst), to[int16](a), to[int16](b), n/2)
	case Uint16:
		integers(op, to[uint16](dst), to[uint16](a), to[uint16](b), n/2)
	case Int32:
		integers(op, to[int32](dst), to[int32](a), to[int32](b), n/4)
	case Uint32:
		integers(op, to[uint32](dst), to[uint32](a), to[uint32](b), n/4)
	case Int64:
		integers(op, to[int64](dst), to[int64](a), to[int64](b), n/8)
	case Uint64:
		integers(op, to[uint64](dst), to[uint64](a), to[uint64](b), n/8)
	case Float16, BFloat16:
		halves(op, dt, from(to[uint16](dst), n/2), from(to[uint16](a), n/2), from(to[uint16](b), n/2))
	case Float32:
		floats(op, to[float32](dst), to[float32](a), to[float32](b), n/4)
	case Float64:
		floats(op, to[float64](dst), to[float64](a), to[float64](b), n/8)
	case Complex64:
		products(from(to[float32](dst), n/4), from(to[float32](a), n/4), from(to[float32](b), n/4))
	case Complex128:
		products(from(to[float64](dst), n/8), from(to[float64](a), n/8), from(to[float64](b), n/8))
	}
}

// reduceUnaligned copies through aligned memory.
func reduceUnaligned(op Op, dt DType, dst, a, b []byte) {
	var x, y [128]uint64
	for len(dst) > 0 {
		bx, by := BytesOf(x[:]), BytesOf(y[:])
		n := copy(bx, a)
		copy(by, b)
		reduceBytes(op, dt, base(bx), base(bx), base(by), n)
		copy(dst, bx[:n])
		dst, a, b = dst[n:], a[n:], b[n:]
	}
}

func integers[T integer](op Op, pd, pa, pb *T, n int) {
	dst, a, b := from(pd, n), from(pa, n), from(pb, n)
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
	case And:
		for i := range dst {
			dst[i] = a[i] & b[i]
		}
	case Or:
		for i := range dst {
			dst[i] = a[i] | b[i]
		}
	case Xor:
		for i := range dst {
			dst[i] = a[i] ^ b[i]
		}
	case LogicalAnd:
		for i := range dst {
			dst[i] = truth[T](a[i] != 0 && b[i] != 0)
		}
	case LogicalOr:
		for i := range dst {
			dst[i] = truth[T](a[i]|b[i] != 0)
		}
	case LogicalXor:
		for i := range dst {
			dst[i] = truth[T]((a[i] != 0) != (b[i] != 0))
		}
	}
}

func truth[T integer](is bool) T {
	if is {
		return 1
	}
	return 0
}

type float interface{ float32 | float64 }

// floats relies on the built-in min and max: they give NaN for NaN and take -0 as less than +0.
func floats[T float](op Op, pd, pa, pb *T, n int) {
	dst, a, b := from(pd, n), from(pa, n), from(pb, n)
	switch op {
	case Sum:
		if n >= 8 {
			sums(dst, a, b)
			return
		}
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

// sums checks four sums at once for NaN: their sum is one if any of them is.
func sums[T float](dst, a, b []T) {
	i := 0
	for ; i+4 <= len(dst) && i+4 <= len(a) && i+4 <= len(b); i += 4 {
		d, p, q := (*[4]T)(dst[i:i+4]), (*[4]T)(a[i:i+4]), (*[4]T)(b[i:i+4])
		w, x, y, z := p[0]+q[0], p[1]+q[1], p[2]+q[2], p[3]+q[3]
		if t := (w + x) + (y + z); t != t {
			w, x, y, z = plain(w), plain(x), plain(y), plain(z)
		}
		d[0], d[1], d[2], d[3] = w, x, y, z
	}
	for ; i < len(dst); i++ {
		dst[i] = plain(a[i] + b[i])
	}
}

// products multiplies complex numbers, whose parts are neighbors. Conversions keep a processor from rounding a product
// and a sum at once.
func products[T float](dst, a, b []T) {
	for i := 0; i+2 <= len(dst) && i+2 <= len(a) && i+2 <= len(b); i += 2 {
		ar, ai, br, bi := a[i], a[i+1], b[i], b[i+1]
		dst[i], dst[i+1] = plain(T(ar*br)-T(ai*bi)), plain(T(ar*bi)+T(ai*br))
	}
}

// halves reduces 16-bit floats through blocks of float32.
func halves(op Op, dt DType, dst, a, b []uint16) {
	var x, y [128]float32
	for len(dst) > 0 {
		n := min(len(dst), len(x))
		widen(dt, x[:n], a)
		widen(dt, y[:n], b)
		floats(op, &x[0], &x[0], &y[0], n)
		narrow(dt, dst, x[:n])
		dst, a, b = dst[n:], a[n:], b[n:]
	}
}

// scaleGo is Scale in plain Go.
func scaleGo(dt DType, dst []byte, n int) {
	if aligned(dt, base(dst), base(dst), base(dst)) {
		scaleAligned(dt, dst, n)
		return
	}
	var x [128]uint64
	for len(dst) > 0 {
		bx := BytesOf(x[:])
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
	case Int16:
		divide(as[int16](dst), int64(n))
	case Uint16:
		divide(as[uint16](dst), uint64(n))
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
		divideFloats(as[float32](dst), float32(n))
	case Float64:
		divideFloats(as[float64](dst), float64(n))
	}
}

// divide works in W, which holds n and every T.
func divide[T integer, W int64 | uint64](dst []T, n W) {
	for i, v := range dst {
		dst[i] = T(W(v) / n)
	}
}

func divideFloats[T float](dst []T, n T) {
	for i, v := range dst {
		dst[i] = plain(v / n)
	}
}

func halvesDivide(dt DType, dst []uint16, n int) {
	var x [128]float32
	for len(dst) > 0 {
		k := min(len(dst), len(x))
		widen(dt, x[:k], dst)
		divideFloats(x[:k], float32(n))
		narrow(dt, dst, x[:k])
		dst = dst[k:]
	}
}
