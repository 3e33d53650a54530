// The loops of one level over 16-bit floats. Included by kernel.c after
// loops.h; LANES is how many binary16 numbers one instruction converts, if
// there is such a one.

// Minimum and maximum need no conversion. Their order is that of key, an
// integer, in which -0 is just below +0.
#define EXTREME_HALF(name, compare, infinity, nan) \
	static TARGET void F(name##_2)(uint8_t *dst_, const uint8_t *const *s, size_t n) { \
		u16 *dst = (u16 *)dst_; \
		const u16 *pa = (const u16 *)s[0], *pb = (const u16 *)s[1]; \
		INDEPENDENT \
		for (size_t i = 0; i < n; i++) { \
			uint16_t a = pa[i], b = pb[i]; \
			uint16_t x = key16(a) compare key16(b) ? a : b; \
			uint16_t ma = a & 0x7FFF, mb = b & 0x7FFF, m = ma > mb ? ma : mb; \
			dst[i] = m > infinity ? nan : x; \
		} \
	}

EXTREME_HALF(min_f16, <, 0x7C00, 0x7E00)
EXTREME_HALF(max_f16, >, 0x7C00, 0x7E00)
EXTREME_HALF(min_bf16, <, 0x7F80, 0x7FC0)
EXTREME_HALF(max_bf16, >, 0x7F80, 0x7FC0)

// Sums and products are of binary32 numbers, rounded after every step. With
// LANES the processor has vectors of them, and kernel.c says how they are
// loaded, rounded and stored; what is left at the end and fills no vector goes
// by way of an array. The loop over the sources is unrolled.
#if defined(LANES)
#define REDUCE_HALF(name, type, op, number) \
	static TARGET void F(name##_##number)(uint8_t *dst, const uint8_t *const *s, size_t n) { \
		size_t i = 0; \
		for (; i + LANES <= n; i += LANES) { \
			VECTOR x = LOAD_##type(s[0] + 2 * i); \
			for (int j = 1; j < number; j++) { \
				x = x op LOAD_##type(s[j] + 2 * i); \
				if (j + 1 < number) \
					x = ROUND_##type(x); \
			} \
			STORE_##type(dst + 2 * i, x); \
		} \
		if (i < n) { \
			uint8_t last[number][2 * LANES] = {{0}}; \
			const uint8_t *t[number]; \
			for (int j = 0; j < number; j++) \
				t[j] = memcpy(last[j], s[j] + 2 * i, 2 * (n - i)); \
			F(name##_##number)(last[0], t, LANES); \
			memcpy(dst + 2 * i, last[0], 2 * (n - i)); \
		} \
	}
#define REDUCE_HALVES(name, type, op) \
	REDUCE_HALF(name, type, op, 2) \
	REDUCE_HALF(name, type, op, 3) \
	REDUCE_HALF(name, type, op, 4) \
	REDUCE_HALF(name, type, op, 8)
#else
#define REDUCE_HALVES(name, type, op) \
	static TARGET void F(name##_2)(uint8_t *dst_, const uint8_t *const *s, size_t n) { \
		u16 *dst = (u16 *)dst_; \
		const u16 *pa = (const u16 *)s[0], *pb = (const u16 *)s[1]; \
		INDEPENDENT \
		for (size_t i = 0; i < n; i++) \
			dst[i] = narrow_##type(plain32(widen_##type(pa[i]) op widen_##type(pb[i]))); \
	}
#endif

REDUCE_HALVES(sum_f16, f16, +)
REDUCE_HALVES(prod_f16, f16, *)
REDUCE_HALVES(sum_bf16, bf16, +)
REDUCE_HALVES(prod_bf16, bf16, *)

// All numbers combined with one.
#if defined(LANES)
#define WITH_ONE(type, op, one) \
	size_t i = 0; \
	for (; i + LANES <= n; i += LANES) \
		STORE_##type(dst + 2 * i, LOAD_##type(src + 2 * i) op one); \
	if (i < n) { \
		uint8_t last[2 * LANES] = {0}; \
		memcpy(last, src + 2 * i, 2 * (n - i)); \
		STORE_##type(last, LOAD_##type(last) op one); \
		memcpy(dst + 2 * i, last, 2 * (n - i)); \
	}
#else
#define WITH_ONE(type, op, one) \
	INDEPENDENT \
	for (size_t i = 0; i < n; i++) \
		((u16 *)dst)[i] = narrow_##type(plain32(widen_##type(((const u16 *)src)[i]) op one));
#endif

#define MULTIPLY_HALF(type) \
	static TARGET void F(multiply_##type)(uint8_t *dst, const uint8_t *src, size_t n, const uint8_t *factor) { \
		float one = widen_##type(*(const u16 *)factor); \
		WITH_ONE(type, *, one) \
	}
#define DIVIDE_HALF(type) \
	static TARGET void F(divide_##type)(uint8_t *dst, size_t n, int64_t divisor) { \
		const uint8_t *src = dst; \
		float one = (float)divisor; \
		WITH_ONE(type, /, one) \
	}

MULTIPLY_HALF(f16)
MULTIPLY_HALF(bf16)
DIVIDE_HALF(f16)
DIVIDE_HALF(bf16)

#undef EXTREME_HALF
#undef REDUCE_HALF
#undef REDUCE_HALVES
#undef WITH_ONE
#undef MULTIPLY_HALF
#undef DIVIDE_HALF
