// The loops of package kernel in C, once per level: loops.h holds them, this
// file includes it for the baseline of the architecture and, on amd64, for two
// larger instruction sets, and chooses between them.

#include "kernel.h"

#include <string.h>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define AMD64 1
#include <cpuid.h>
#include <immintrin.h>
#endif

// Comparisons may become masks. That changes no result, only the exception
// flags of the processor, which nobody reads. (cgo refuses the option itself.
// -ffp-contract=off is not needed: no expression here multiplies and adds.)
#if !defined(__clang__)
#pragma GCC optimize("no-trapping-math")
#endif

#define JOIN2(a, b) a##_##b
#define JOIN(a, b) JOIN2(a, b)
#define F(name) JOIN(name, LEVEL)
#define INLINE static inline __attribute__((always_inline))

// Iterations do not depend on one another, although dst may be a or b.
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

// Elements in memory: at any address, aliasing anything.
#define ANYWHERE __attribute__((aligned(1), may_alias))
typedef int8_t i8 ANYWHERE;
typedef uint8_t u8 ANYWHERE;
typedef uint16_t u16 ANYWHERE;
typedef int32_t i32 ANYWHERE;
typedef uint32_t u32 ANYWHERE;
typedef int64_t i64 ANYWHERE;
typedef uint64_t u64 ANYWHERE;
typedef float f32 ANYWHERE;
typedef double f64 ANYWHERE;

INLINE uint32_t bits32(float f) { uint32_t x; memcpy(&x, &f, 4); return x; }
INLINE uint64_t bits64(double f) { uint64_t x; memcpy(&x, &f, 8); return x; }
INLINE float float32(uint32_t x) { float f; memcpy(&f, &x, 4); return f; }
INLINE double float64(uint64_t x) { double f; memcpy(&f, &x, 8); return f; }

// plain returns x, and for every NaN the same one.
INLINE float plain32(float x) { return x == x ? x : float32(0x7FC00000); }
INLINE double plain64(double x) { return x == x ? x : float64(0x7FF8000000000000); }

// Of two equal numbers either is the minimum, but for zeros: -0 is less, and
// has the one bit that counts.
INLINE float min32(float a, float b) {
	float m = a < b ? a : b;
	m = a == b ? float32(bits32(a) | bits32(b)) : m;
	return plain32(a == a ? m : a);
}
INLINE float max32(float a, float b) {
	float m = a > b ? a : b;
	m = a == b ? float32(bits32(a) & bits32(b)) : m;
	return plain32(a == a ? m : a);
}
INLINE double min64(double a, double b) {
	double m = a < b ? a : b;
	m = a == b ? float64(bits64(a) | bits64(b)) : m;
	return plain64(a == a ? m : a);
}
INLINE double max64(double a, double b) {
	double m = a > b ? a : b;
	m = a == b ? float64(bits64(a) & bits64(b)) : m;
	return plain64(a == a ? m : a);
}

// Between binary16 and binary32: half.go explains the numbers.
INLINE uint32_t widen16(uint32_t h) {
	uint32_t sign = (h & 0x8000) << 16;
	uint32_t x = (h & 0x7FFF) << 13;
	uint32_t subnormal = bits32(float32(x | (113u << 23)) - float32(113u << 23));
	uint32_t normal = x + (112u << 23);
	normal = x > (0x7BFFu << 13) ? (x | (255u << 23)) : normal;
	return sign | (x < (1u << 23) ? subnormal : normal);
}
INLINE uint32_t narrow16(uint32_t x) {
	uint32_t sign = x >> 16 & 0x8000;
	x &= 0x7FFFFFFF;
	uint32_t subnormal = bits32(float32(x) + 0.5f) - 0x3F000000;
	uint32_t normal = (x - (112u << 23) + 0xFFF + (x >> 13 & 1)) >> 13;
	normal = x >= (143u << 23) ? 0x7C00 : normal;
	normal = x > (255u << 23) ? 0x7E00 : normal;
	return sign | (x < (113u << 23) ? subnormal : normal);
}

typedef void (*reduce_function)(uint8_t *, const uint8_t *, const uint8_t *, size_t);
typedef void (*scale_function)(uint8_t *, size_t, int64_t);

#define LEVEL portable
#define TARGET
#include "loops.h"
#undef LEVEL
#undef TARGET

#ifdef AMD64
#define LEVEL avx2
#define TARGET __attribute__((target("avx2,f16c")))
#define F16C_LANES 8
#include "loops.h"
#undef LEVEL
#undef TARGET
#undef F16C_LANES

#define LEVEL avx512
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")))
#define F16C_LANES 16
#include "loops.h"
#endif

int treerun_kernel_best(void) {
#ifdef AMD64
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
		return 3;
	unsigned a, b, c, d; // gcc 10 does not know F16C by name
	if (__builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C))
		return 2;
#endif
	return 1;
}

void treerun_kernel_reduce(int level, int op, int dtype, uint8_t *dst, const uint8_t *a, const uint8_t *b, size_t n) {
	reduce_function f = reduce_portable[dtype][op];
#ifdef AMD64
	if (level == 3)
		f = reduce_avx512[dtype][op];
	else if (level == 2)
		f = reduce_avx2[dtype][op];
#endif
	f(dst, a, b, n);
}

void treerun_kernel_scale(int level, int dtype, uint8_t *dst, size_t n, int64_t divisor) {
	scale_function f = scale_portable[dtype];
#ifdef AMD64
	if (level == 3)
		f = scale_avx512[dtype];
	else if (level == 2)
		f = scale_avx2[dtype];
#endif
	f(dst, n, divisor);
}
