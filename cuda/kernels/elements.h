// The arithmetic of one element: what package internal/kernel
// documents for the host, bit by bit. Integers wrap; 16-bit floats are computed
// in binary32 and rounded to nearest even after every step; every NaN that an
// operation gives is the one quiet NaN; -0 is less than +0.

#ifndef TREERUN_ELEMENTS_H
#define TREERUN_ELEMENTS_H

#include "device.h"

DEVICE u16 plain16(u16 x, u16 infinity, u16 nan) { return (x & 0x7FFF) > infinity ? nan : x; }
DEVICE float plain(float x) { return (bits<u32>(x) & 0x7FFFFFFF) > 0x7F800000 ? bits<float>(0x7FC00000u) : x; }
DEVICE double plain(double x) {
	return (bits<u64>(x) & ~0ull >> 1) > 0x7FFull << 52 ? bits<double>(0x7FF8ull << 48) : x;
}

// Binary16. A GPU converts it in one instruction, rounding to nearest even; the
// host does so by hand. internal/kernel/half.go explains the numbers.
#if defined(TREERUN_HOST)
DEVICE float widen_float16(u16 h) {
	u32 sign = (u32)(h & 0x8000) << 16, x = (u32)(h & 0x7FFF) << 13;
	if (x > 0x7BFFu << 13) // infinite or NaN
		return bits<float>(sign | x | 255u << 23);
	if (x < 1u << 23) // subnormal
		return bits<float>(sign | bits<u32>(bits<float>(x | 113u << 23) - bits<float>(113u << 23)));
	return bits<float>(sign | (x + (112u << 23)));
}
DEVICE u16 narrow_float16(float f) {
	u32 x = bits<u32>(f), sign = x >> 16 & 0x8000;
	x &= 0x7FFFFFFF;
	if (x > 255u << 23)
		return 0x7E00;
	if (x >= 143u << 23) // 2^16 or more
		return sign | 0x7C00;
	if (x < 113u << 23) // the sum is rounded to a multiple of the least binary16
		return sign | (bits<u32>(bits<float>(x) + 0.5f) - 0x3F000000);
	return sign | ((x - (112u << 23) + 0xFFF + (x >> 13 & 1)) >> 13);
}
#else
DEVICE float widen_float16(u16 h) { return (float)bits<_Float16>(h); }
DEVICE u16 narrow_float16(float f) { return plain16(bits<u16>((_Float16)f), 0x7C00, 0x7E00); }
#endif

// The element types. Integers of a size are one: sum and prod have the same bits with a sign and
// without, and the order without one has names of its own.
template <class T, class U> struct Integer {
	typedef U type;
	enum { unsigned_too = true, ordered = true };
	DEVICE U sum(U a, U b) { return (U)(a + b); }
	DEVICE U prod(U a, U b) { return (U)(a * b); }
	DEVICE U min(U a, U b) { return (T)a < (T)b ? a : b; }
	DEVICE U max(U a, U b) { return (T)a > (T)b ? a : b; }
	DEVICE U lowest(U a, U b) { return a < b ? a : b; }
	DEVICE U highest(U a, U b) { return a > b ? a : b; }
};

template <class T, class Bits> struct Float {
	typedef T type;
	enum { unsigned_too = false, ordered = true };
	DEVICE T sum(T a, T b) { return plain(a + b); }
	DEVICE T prod(T a, T b) { return plain(a * b); }
	// Of two equal numbers either will do, but for zeros: -0 has the one bit
	// that counts. A comparison with NaN is false.
	DEVICE T min(T a, T b) {
		T m = a == b ? bits<T>(bits<Bits>(a) | bits<Bits>(b)) : a < b ? a : b;
		return plain(a == a ? m : a);
	}
	DEVICE T max(T a, T b) {
		T m = a == b ? bits<T>(bits<Bits>(a) & bits<Bits>(b)) : a > b ? a : b;
		return plain(a == a ? m : a);
	}
	DEVICE T quotient(T a, T b) { return plain(a / b); }
};

// Half is what the two 16-bit floats share, given how F widens and narrows.
template <class F, int infinity, int nan> struct Half {
	typedef u16 type;
	enum { unsigned_too = false, ordered = true };
	DEVICE u16 sum(u16 a, u16 b) { return F::narrow(F::widen(a) + F::widen(b)); }
	DEVICE u16 prod(u16 a, u16 b) { return F::narrow(F::widen(a) * F::widen(b)); }
	DEVICE u16 quotient(u16 a, float b) { return F::narrow(F::widen(a) / b); }
	// Their order is that of integers, in which -0 is just below +0.
	DEVICE int key(u16 x) { return (short)(x ^ (x & 0x8000 ? 0x7FFF : 0)); }
	DEVICE bool number(u16 a, u16 b) { return (a & 0x7FFF) <= infinity && (b & 0x7FFF) <= infinity; }
	DEVICE u16 min(u16 a, u16 b) { return !number(a, b) ? nan : key(a) < key(b) ? a : b; }
	DEVICE u16 max(u16 a, u16 b) { return !number(a, b) ? nan : key(a) > key(b) ? a : b; }
};

struct Float16 : Half<Float16, 0x7C00, 0x7E00> {
	DEVICE float widen(u16 h) { return widen_float16(h); }
	DEVICE u16 narrow(float f) { return narrow_float16(f); }
};

struct BFloat16 : Half<BFloat16, 0x7F80, 0x7FC0> {
	DEVICE float widen(u16 h) { return bits<float>((u32)h << 16); }
	DEVICE u16 narrow(float f) {
		u32 x = bits<u32>(plain(f)); // rounding would carry a NaN of many ones into the sign
		return (u16)((x + 0x7FFF + (x >> 16 & 1)) >> 16);
	}
};

// Complex numbers are vectors of real and imaginary part. Products round after every step.
template <class T, class Bits> struct Complex {
	typedef Float<T, Bits> F;
	typedef T type __attribute__((vector_size(2 * sizeof(T))));
	enum { unsigned_too = false, ordered = false };
	DEVICE type sum(type a, type b) { return type{F::sum(a[0], b[0]), F::sum(a[1], b[1])}; }
	DEVICE type prod(type a, type b) {
		return type{plain(a[0] * b[0] - a[1] * b[1]), plain(a[0] * b[1] + a[1] * b[0])};
	}
	DEVICE type quotient(type a, T b) { return type{F::quotient(a[0], b), F::quotient(a[1], b)}; }
};

typedef Float<float, u32> Float32;
typedef Float<double, u64> Float64;
typedef Complex<float, u32> Complex64;
typedef Complex<double, u64> Complex128;

#endif
