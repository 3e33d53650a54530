//go:build linux

// The loops of package kernel in C, once per level: loops.h, half.h, find.h and level.h
// hold them, this file includes those for the baseline of the architecture and,
// on amd64, for two larger instruction sets, and chooses between them.

#include "kernel.h"

#include <string.h>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define AMD64 1
#include <cpuid.h>
#include <immintrin.h>
#endif

// Comparisons may become masks. That changes no result, only the exception flags of the processor, which are not used.
// (cgo refuses the option itself.)
#if !defined(__clang__)
#pragma GCC optimize("no-trapping-math")
// A product and a sum are rounded one after the other, as in Go.
#pragma GCC optimize("fp-contract=off")
#else
#pragma STDC FP_CONTRACT OFF
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
typedef int16_t i16 ANYWHERE;
typedef uint16_t u16 ANYWHERE;
typedef int32_t i32 ANYWHERE;
typedef uint32_t u32 ANYWHERE;
typedef int64_t i64 ANYWHERE;
typedef uint64_t u64 ANYWHERE;
typedef float f32 ANYWHERE;
typedef double f64 ANYWHERE;
typedef float _Complex c64 ANYWHERE;
typedef double _Complex c128 ANYWHERE;

INLINE uint32_t bits32(float f) { uint32_t x; memcpy(&x, &f, 4); return x; }
INLINE uint64_t bits64(double f) { uint64_t x; memcpy(&x, &f, 8); return x; }
INLINE float float32(uint32_t x) { float f; memcpy(&f, &x, 4); return f; }
INLINE double float64(uint64_t x) { double f; memcpy(&f, &x, 8); return f; }

// plain returns x, and for every NaN the same one.
INLINE float plain32(float x) { return x == x ? x : float32(0x7FC00000); }
INLINE double plain64(double x) { return x == x ? x : float64(0x7FF8000000000000); }

// Of two equal numbers either is the minimum, but for zeros: -0 is less, and
// has the one bit that counts. The result is a NaN if a or b is one.
INLINE float min32(float a, float b) {
	float m = a < b ? a : b;
	m = a == b ? float32(bits32(a) | bits32(b)) : m;
	return a == a ? m : a;
}
INLINE float max32(float a, float b) {
	float m = a > b ? a : b;
	m = a == b ? float32(bits32(a) & bits32(b)) : m;
	return a == a ? m : a;
}
INLINE double min64(double a, double b) {
	double m = a < b ? a : b;
	m = a == b ? float64(bits64(a) | bits64(b)) : m;
	return a == a ? m : a;
}
INLINE double max64(double a, double b) {
	double m = a > b ? a : b;
	m = a == b ? float64(bits64(a) & bits64(b)) : m;
	return a == a ? m : a;
}

// Products of complex numbers, without the special cases of C's own.
#define COMPLEX_PRODUCT(name, type, plain) \
	INLINE type _Complex prod_##name(type _Complex a, type _Complex b) { \
		type _Complex x; \
		__real__ x = __real__ a * __real__ b - __imag__ a * __imag__ b; \
		__imag__ x = __real__ a * __imag__ b + __imag__ a * __real__ b; \
		return x; \
	} \
	INLINE type _Complex plain_##name(type _Complex x) { \
		__real__ x = plain(__real__ x); \
		__imag__ x = plain(__imag__ x); \
		return x; \
	}
COMPLEX_PRODUCT(complex64, float, plain32)
COMPLEX_PRODUCT(complex128, double, plain64)

// The order of 16-bit floats other than NaN, as integers.
INLINE int16_t key16(uint16_t x) { return (int16_t)(x ^ ((x & 0x8000) ? 0x7FFF : 0)); }

INLINE float widen_bf16(uint16_t h) { return float32((uint32_t)h << 16); }
INLINE uint16_t narrow_bf16(float f) {
	uint32_t x = bits32(f);
	return (x + 0x7FFF + (x >> 16 & 1)) >> 16;
}

// Between binary16 and binary32: half.go explains the numbers.
INLINE float widen_f16(uint32_t h) {
	uint32_t sign = (h & 0x8000) << 16;
	uint32_t x = (h & 0x7FFF) << 13;
	uint32_t subnormal = bits32(float32(x | (113u << 23)) - float32(113u << 23));
	uint32_t normal = x + (112u << 23);
	normal = x > (0x7BFFu << 13) ? (x | (255u << 23)) : normal;
	return float32(sign | (x < (1u << 23) ? subnormal : normal));
}
INLINE uint16_t narrow_f16(float f) {
	uint32_t x = bits32(f);
	uint32_t sign = x >> 16 & 0x8000;
	x &= 0x7FFFFFFF;
	uint32_t subnormal = bits32(float32(x) + 0.5f) - 0x3F000000;
	uint32_t normal = (x - (112u << 23) + 0xFFF + (x >> 13 & 1)) >> 13;
	normal = x >= (143u << 23) ? 0x7C00 : normal;
	normal = x > (255u << 23) ? 0x7E00 : normal;
	return sign | (x < (113u << 23) ? subnormal : normal);
}

// The functions of a level, by element type and operation as kernel.go numbers them.
typedef void (*reduce_function)(uint8_t *, const uint8_t *const *, size_t);
struct level {
	struct {
		reduce_function of[9]; // by the number of sources; of[2] is always there
	} reduce[16][12];
	void (*multiply[16])(uint8_t *, const uint8_t *, size_t, const uint8_t *);
	void (*divide[16])(uint8_t *, size_t, int64_t);
	void (*stream)(uint8_t *, const uint8_t *, size_t);
	int (*nonzero)(const uint8_t *, size_t, size_t, uint64_t, uint64_t *);
};

static const uint8_t sizes[16] = {0, 1, 1, 4, 4, 8, 8, 2, 2, 4, 8, 2, 2, 8, 16, 1};

#define LEVEL portable
#define TARGET
#ifdef AMD64 // has SSE2
#define STREAM_LINE(dst, src) \
	for (int i = 0; i < 4; i++) \
		_mm_stream_si128((__m128i *)(dst) + i, _mm_loadu_si128((const __m128i_u *)(src) + i))
#define OR_VECTOR __m128i
#define OR_LOAD(p) _mm_loadu_si128((const __m128i_u *)(p))
#define OR_JOIN(a, b) _mm_or_si128(a, b)
#define OR_SPREAD(x) _mm_set1_epi64x(x)
#define OR_HIT(a, mask) (_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_and_si128(a, mask), _mm_setzero_si128())) != 0xFFFF)
#define OR_ZERO _mm_setzero_si128()
#else
#define OR_VECTOR uint64_t
#define OR_LOAD(p) (*(const u64 *)(p))
#define OR_JOIN(a, b) ((a) | (b))
#define OR_SPREAD(x) ((uint64_t)(x))
#define OR_HIT(a, mask) (((a) & (mask)) != 0)
#define OR_ZERO 0
#endif
#include "loops.h"
#include "half.h"
#include "find.h"
#include "level.h"
#undef LEVEL
#undef TARGET
#undef STREAM_LINE

#ifdef AMD64
#define LEVEL avx2
#define TARGET __attribute__((target("avx2,f16c")))
#define LANES 8
#define VECTOR __m256
#define PLAIN(r) \
	_mm256_blendv_ps(r, _mm256_castsi256_ps(_mm256_set1_epi32(0x7FC00000)), _mm256_cmp_ps(r, r, _CMP_UNORD_Q))
#define LOAD_f16(p) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)(p)))
#define ROUND_f16(r) _mm256_cvtph_ps(_mm256_cvtps_ph(r, _MM_FROUND_TO_NEAREST_INT))
#define STORE_f16(p, v) do { \
		__m256 r = v; \
		_mm_storeu_si128((__m128i_u *)(p), _mm256_cvtps_ph(PLAIN(r), _MM_FROUND_TO_NEAREST_INT)); \
	} while (0)
#define LOAD_bf16(p) \
	_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i_u *)(p))), 16))
#define UPPER_bf16(x) /* the rounded number is the upper half of these bits */ \
	_mm256_add_epi32(_mm256_add_epi32(x, _mm256_set1_epi32(0x7FFF)), \
		_mm256_and_si256(_mm256_srli_epi32(x, 16), _mm256_set1_epi32(1)))
#define ROUND_bf16(r) \
	_mm256_castsi256_ps(_mm256_and_si256(UPPER_bf16(_mm256_castps_si256(r)), _mm256_set1_epi32(-0x10000)))
#define STORE_bf16(p, v) do { \
		__m256 r = v; \
		__m256i x = _mm256_castps_si256(PLAIN(r)); \
		x = _mm256_srli_epi32(UPPER_bf16(x), 16); \
		x = _mm256_permute4x64_epi64(_mm256_packus_epi32(x, x), 0x08); \
		_mm_storeu_si128((__m128i_u *)(p), _mm256_castsi256_si128(x)); \
	} while (0)
#define STREAM_LINE(dst, src) \
	for (int i = 0; i < 2; i++) \
		_mm256_stream_si256((__m256i *)(dst) + i, _mm256_loadu_si256((const __m256i_u *)(src) + i))
#define OR_VECTOR __m256i
#define OR_LOAD(p) _mm256_loadu_si256((const __m256i_u *)(p))
#define OR_JOIN(a, b) _mm256_or_si256(a, b)
#define OR_SPREAD(x) _mm256_set1_epi64x(x)
#define OR_HIT(a, mask) (!_mm256_testz_si256(a, mask))
#define OR_ZERO _mm256_setzero_si256()
#include "loops.h"
#include "half.h"
#include "find.h"
#include "level.h"
#undef LEVEL
#undef TARGET
#undef LANES
#undef VECTOR
#undef PLAIN
#undef LOAD_f16
#undef ROUND_f16
#undef STORE_f16
#undef LOAD_bf16
#undef UPPER_bf16
#undef ROUND_bf16
#undef STORE_bf16
#undef STREAM_LINE

#define LEVEL avx512
#define FUSES // complex products: those of avx2 are used
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")))
#define LANES 16
#define VECTOR __m512
#define PLAIN(r) \
	_mm512_mask_mov_ps(r, _mm512_cmp_ps_mask(r, r, _CMP_UNORD_Q), _mm512_castsi512_ps(_mm512_set1_epi32(0x7FC00000)))
#define LOAD_f16(p) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i_u *)(p)))
#define ROUND_f16(r) _mm512_cvtph_ps(_mm512_cvtps_ph(r, _MM_FROUND_TO_NEAREST_INT))
#define STORE_f16(p, v) do { \
		__m512 r = v; \
		_mm256_storeu_si256((__m256i_u *)(p), _mm512_cvtps_ph(PLAIN(r), _MM_FROUND_TO_NEAREST_INT)); \
	} while (0)
#define LOAD_bf16(p) \
	_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i_u *)(p))), 16))
#define UPPER_bf16(x) \
	_mm512_add_epi32(_mm512_add_epi32(x, _mm512_set1_epi32(0x7FFF)), \
		_mm512_and_si512(_mm512_srli_epi32(x, 16), _mm512_set1_epi32(1)))
#define ROUND_bf16(r) \
	_mm512_castsi512_ps(_mm512_and_si512(UPPER_bf16(_mm512_castps_si512(r)), _mm512_set1_epi32(-0x10000)))
#define STORE_bf16(p, v) do { \
		__m512 r = v; \
		__m512i x = _mm512_castps_si512(PLAIN(r)); \
		_mm256_storeu_si256((__m256i_u *)(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(UPPER_bf16(x), 16))); \
	} while (0)
#define STREAM_LINE(dst, src) _mm512_stream_si512((__m512i *)(dst), _mm512_loadu_si512(src))
#define OR_VECTOR __m512i
#define OR_LOAD(p) _mm512_loadu_si512(p)
#define OR_JOIN(a, b) _mm512_or_si512(a, b)
#define OR_SPREAD(x) _mm512_set1_epi64(x)
#define OR_HIT(a, mask) (_mm512_test_epi64_mask(a, mask) != 0)
#define OR_ZERO _mm512_setzero_si512()
#include "loops.h"
#include "half.h"
#include "find.h"
#include "level.h"

static const struct level *const levels[] = {0, &level_portable, &level_avx2, &level_avx512};
#define FENCE() _mm_sfence()
#else
static const struct level *const levels[] = {0, &level_portable};
#define FENCE() (void)0
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
	const uint8_t *s[2] = {a, b};
	levels[level]->reduce[dtype][op].of[2](dst, s, n);
}

// Partial results of this many bytes stay in the first cache.
#define BLOCK 4096

// reduce_block combines n elements of k sources, as many at a time as there is
// a loop for. Partial results go to part, since dst may be a source.
static void reduce_block(const reduce_function *loops, uint8_t *dst, uint8_t *part, const uint8_t *const *s, int k, size_t n) {
	const uint8_t *next[8];
	int used = 0;
	for (int begin = 0; used < k; begin = 1) {
		next[0] = part;
		int take = k - used;
		while (take + begin > 8 || !loops[take + begin])
			take--;
		for (int i = 0; i < take; i++)
			next[begin + i] = s[used + i];
		used += take;
		loops[take + begin](used == k ? dst : part, next, n);
	}
}

void treerun_kernel_reduce_many(int level, int op, int dtype, int stream, uint8_t *dst, size_t n, int k,
	const uint8_t *s0, const uint8_t *s1, const uint8_t *s2, const uint8_t *s3,
	const uint8_t *s4, const uint8_t *s5, const uint8_t *s6, const uint8_t *s7) {
	const uint8_t *s[8] = {s0, s1, s2, s3, s4, s5, s6, s7};
	const struct level *l = levels[level];
	const reduce_function *loops = l->reduce[dtype][op].of;
	if (!stream && loops[k]) {
		loops[k](dst, s, n);
		return;
	}
	uint8_t part[BLOCK] __attribute__((aligned(64)));
	size_t size = sizes[dtype];
	size_t block = (BLOCK - ((uintptr_t)dst & 63)) / size; // the next ones begin on a cache line
	for (; n > 0; n -= block, block = BLOCK / size) {
		if (block > n)
			block = n;
		reduce_block(loops, stream ? part : dst, part, s, k, block);
		if (stream)
			l->stream(dst, part, block * size);
		dst += block * size;
		for (int i = 0; i < k; i++)
			s[i] += block * size;
	}
	if (stream)
		FENCE();
}

void treerun_kernel_pieces(int level, int op, int dtype, int stream, uint8_t *dst, const uint64_t *list, size_t words,
	const uint8_t *s0, const uint8_t *s1, const uint8_t *s2, const uint8_t *s3,
	const uint8_t *s4, const uint8_t *s5, const uint8_t *s6, const uint8_t *s7) {
	static const uint8_t zero[BLOCK] __attribute__((aligned(64)));
	const uint8_t *const base[8] = {s0, s1, s2, s3, s4, s5, s6, s7};
	const struct level *l = levels[level];
	const reduce_function *loops = l->reduce[dtype][op].of;
	const uint64_t place = ((uint64_t)1 << 48) - 1;
	uint8_t part[BLOCK] __attribute__((aligned(64)));
	for (const uint64_t *end = list + words; list < end;) {
		uint8_t *to = dst + (list[0] & place);
		const uint8_t *s[256], *now[256];
		size_t left = list[1];
		int k = list[0] >> 48 & 255, all = k + (int)(list[0] >> 63);
		for (int i = 0; i < k; i++)
			s[i] = base[list[2 + i] >> 48] + (list[2 + i] & place);
		list += 2 + k;
		for (size_t at = 0; at < left; at += BLOCK) {
			size_t n = left - at < BLOCK ? left - at : BLOCK;
			for (int i = 0; i < k; i++)
				now[i] = s[i] + at;
			now[k] = zero;
			if (all == 1 && stream)
				l->stream(to + at, now[0], n);
			else if (all == 1)
				memcpy(to + at, now[0], n);
			else if (stream) {
				reduce_block(loops, part, part, now, all, n / sizes[dtype]);
				l->stream(to + at, part, n);
			} else
				reduce_block(loops, to + at, part, now, all, n / sizes[dtype]);
		}
	}
	if (stream)
		FENCE();
}

void treerun_kernel_multiply(int level, int dtype, uint8_t *dst, const uint8_t *src, size_t n, const uint8_t *factor) {
	levels[level]->multiply[dtype](dst, src, n, factor);
}

void treerun_kernel_divide(int level, int dtype, uint8_t *dst, size_t n, int64_t divisor) {
	levels[level]->divide[dtype](dst, n, divisor);
}

void treerun_kernel_stream(int level, uint8_t *dst, const uint8_t *src, size_t size) {
	levels[level]->stream(dst, src, size);
	FENCE();
}

int treerun_kernel_nonzero(int level, const uint8_t *src, size_t size, size_t block, uint64_t mask, uint64_t *bits) {
	return levels[level]->nonzero(src, size, block, mask, bits);
}

