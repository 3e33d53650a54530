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

#define REDUCE_BF16(name, op) \
	static TARGET void F(name##_2)(uint8_t *dst_, const uint8_t *const *s, size_t n) { \
		u16 *dst = (u16 *)dst_; \
		const u16 *pa = (const u16 *)s[0], *pb = (const u16 *)s[1]; \
		INDEPENDENT \
		for (size_t i = 0; i < n; i++) \
			dst[i] = narrow_bf16(plain32(widen_bf16(pa[i]) op widen_bf16(pb[i]))); \
	}

REDUCE_BF16(sum_bf16, +)
REDUCE_BF16(prod_bf16, *)

static TARGET void F(multiply_bf16)(uint8_t *dst_, const uint8_t *src_, size_t n, const uint8_t *factor) {
	u16 *dst = (u16 *)dst_;
	const u16 *src = (const u16 *)src_;
	float x = widen_bf16(*(const u16 *)factor);
	INDEPENDENT
	for (size_t i = 0; i < n; i++)
		dst[i] = narrow_bf16(plain32(widen_bf16(src[i]) * x));
}

static TARGET void F(divide_bf16)(uint8_t *dst_, size_t n, int64_t divisor) {
	u16 *dst = (u16 *)dst_;
	float d = (float)divisor;
	INDEPENDENT
	for (size_t i = 0; i < n; i++)
		dst[i] = narrow_bf16(plain32(widen_bf16(dst[i]) / d));
}

// binary16: the processor converts LANES numbers at once, or widen16 and
// narrow16 do one by one. HALF16 stores an expression of a and b for all
// elements; the last ones, which fill no vector, go by way of an array.
#if defined(LANES)
#define HALF16(result) \
	for (; n >= LANES; n -= LANES, dst += LANES, pa += LANES, pb += LANES) { \
		VECTOR a = LOAD16(pa), b = LOAD16(pb); \
		STORE16(dst, result); \
	} \
	if (n > 0) { \
		uint16_t last[2][LANES] = {{0}}; \
		memcpy(last[0], pa, 2 * n); \
		memcpy(last[1], pb, 2 * n); \
		VECTOR a = LOAD16(last[0]), b = LOAD16(last[1]); \
		STORE16(last[0], result); \
		memcpy(dst, last[0], 2 * n); \
	}
#else
#define HALF16(result) \
	INDEPENDENT \
	for (size_t i = 0; i < n; i++) { \
		float a = float32(widen16(pa[i])), b = float32(widen16(pb[i])); \
		dst[i] = narrow16(bits32(plain32(result))); \
	}
#endif

#define REDUCE_F16(name, op) \
	static TARGET void F(name##_2)(uint8_t *dst_, const uint8_t *const *s, size_t n) { \
		u16 *dst = (u16 *)dst_; \
		const u16 *pa = (const u16 *)s[0], *pb = (const u16 *)s[1]; \
		HALF16(a op b) \
	}

REDUCE_F16(sum_f16, +)
REDUCE_F16(prod_f16, *)

static TARGET void F(multiply_f16)(uint8_t *dst_, const uint8_t *src, size_t n, const uint8_t *factor) {
	u16 *dst = (u16 *)dst_;
	const u16 *pa = (const u16 *)src, *pb = pa;
	float x = float32(widen16(*(const u16 *)factor));
	HALF16(a * x)
}

static TARGET void F(divide_f16)(uint8_t *dst_, size_t n, int64_t divisor) {
	u16 *dst = (u16 *)dst_;
	const u16 *pa = dst, *pb = dst;
	float d = (float)divisor;
	HALF16(a / d)
}

#undef EXTREME_HALF
#undef REDUCE_BF16
#undef HALF16
#undef REDUCE_F16
