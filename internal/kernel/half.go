package kernel

import "math"

// widen sets every dst[i] to the value of src[i], a Float16 or BFloat16.
func widen(dt DType, dst []float32, src []uint16) {
	src = src[:len(dst)]
	if dt == BFloat16 {
		for i, h := range src {
			dst[i] = math.Float32frombits(uint32(h) << 16)
		}
		return
	}
	for i, h := range src {
		dst[i] = float16To32(h)
	}
}

// narrow sets every dst[i] to the Float16 or BFloat16 nearest to src[i], the
// even one of two. NaN in src is the NaN of plain.
func narrow(dt DType, dst []uint16, src []float32) {
	dst = dst[:len(src)]
	if dt == BFloat16 {
		for i, f := range src {
			x := math.Float32bits(f)
			dst[i] = uint16((x + 0x7FFF + x>>16&1) >> 16)
		}
		return
	}
	for i, f := range src {
		dst[i] = float16From32(f)
	}
}

// The layout of binary16, seen from binary32: the fraction is 13 bits shorter,
// the bias of the exponent 112 less.
const (
	fractionShift = 13
	biasShift     = 112 << 23

	minNormal32 = 113 << 23          // bits of 2^-14, the least normal binary16
	overflow32  = 143 << 23          // bits of 2^16, beyond every binary16
	maxNormal32 = 0x7BFF << 13       // fraction and exponent of 65504, before the bias
	halfBits    = uint32(0x3F000000) // bits of 0.5, whose last place is the least binary16
	infinity16  = uint32(0x7C00)     // +Inf as binary16
	nan16       = uint32(0x7E00)     // quiet NaN as binary16
)

// Of the wider formats: +Inf, and the quiet NaN that stands for all.
const (
	infinity32 = uint32(255 << 23)
	nan32      = uint32(0x7FC00000)
	infinity64 = uint64(0x7FF << 52)
	nan64      = uint64(0x7FF8 << 48)
)

func float16To32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	x := uint32(h&0x7FFF) << fractionShift
	switch {
	case x > maxNormal32: // infinite or NaN
		x |= infinity32
	case x < 1<<23: // subnormal: 2^-14 (1 + fraction), less 2^-14
		x = math.Float32bits(math.Float32frombits(x|minNormal32) - math.Float32frombits(minNormal32))
	default:
		x += biasShift
	}
	return math.Float32frombits(sign | x)
}

func float16From32(f float32) uint16 {
	x := math.Float32bits(f)
	sign := x >> 16 & 0x8000
	x &= 1<<31 - 1
	switch {
	case x > infinity32:
		x = nan16
	case x >= overflow32:
		x = infinity16
	case x < minNormal32: // the sum is rounded to a multiple of the least binary16
		x = math.Float32bits(math.Float32frombits(x)+math.Float32frombits(halfBits)) - halfBits
	default: // a carry out of the fraction goes into the exponent, up to infinity
		x = (x - biasShift + 1<<(fractionShift-1) - 1 + x>>fractionShift&1) >> fractionShift
	}
	return uint16(sign | x)
}
