// The loops of one level. kernel.c includes this file once per level, with
// LEVEL its name, TARGET the attribute of its functions, and F16C_LANES the
// binary16 numbers that one instruction converts, if there is such a one.

#define REDUCE(name, type, result) \
	static TARGET void F(name)(uint8_t *dst_, const uint8_t *a_, const uint8_t *b_, size_t n) { \
		type *dst = (type *)dst_; \
		const type *pa = (const type *)a_, *pb = (const type *)b_; \
		INDEPENDENT \
		for (size_t i = 0; i < n; i++) { \
			type a = pa[i], b = pb[i]; \
			dst[i] = result; \
		} \
	}

// Signed sums and products have the bits of the unsigned ones, which wrap.
REDUCE(sum_8, u8, (u8)(a + b))
REDUCE(prod_8, u8, (u8)(a * b))
REDUCE(min_i8, i8, a < b ? a : b)
REDUCE(max_i8, i8, a > b ? a : b)
REDUCE(min_u8, u8, a < b ? a : b)
REDUCE(max_u8, u8, a > b ? a : b)
REDUCE(sum_32, u32, a + b)
REDUCE(prod_32, u32, a * b)
REDUCE(min_i32, i32, a < b ? a : b)
REDUCE(max_i32, i32, a > b ? a : b)
REDUCE(min_u32, u32, a < b ? a : b)
REDUCE(max_u32, u32, a > b ? a : b)
REDUCE(sum_64, u64, a + b)
REDUCE(prod_64, u64, a * b)
REDUCE(min_i64, i64, a < b ? a : b)
REDUCE(max_i64, i64, a > b ? a : b)
REDUCE(min_u64, u64, a < b ? a : b)
REDUCE(max_u64, u64, a > b ? a : b)
REDUCE(sum_f32, f32, plain32(a + b))
REDUCE(prod_f32, f32, plain32(a * b))
REDUCE(min_f32, f32, min32(a, b))
REDUCE(max_f32, f32, max32(a, b))
REDUCE(sum_f64, f64, plain64(a + b))
REDUCE(prod_f64, f64, plain64(a * b))
REDUCE(min_f64, f64, min64(a, b))
REDUCE(max_f64, f64, max64(a, b))

static TARGET void F(widen_bf16)(float *dst, const u16 *src, size_t n) {
	for (size_t i = 0; i < n; i++)
		dst[i] = float32((uint32_t)src[i] << 16);
}

static TARGET void F(narrow_bf16)(u16 *dst, const float *src, size_t n) {
	for (size_t i = 0; i < n; i++) {
		uint32_t x = bits32(src[i]);
		dst[i] = (x + 0x7FFF + (x >> 16 & 1)) >> 16;
	}
}

static TARGET void F(widen_f16)(float *dst, const u16 *src, size_t n) {
	size_t i = 0;
#if defined(F16C_LANES) && F16C_LANES == 16
	for (; i + 16 <= n; i += 16)
		_mm512_storeu_ps(dst + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i_u *)(src + i))));
#elif defined(F16C_LANES)
	for (; i + 8 <= n; i += 8)
		_mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)(src + i))));
#endif
	for (; i < n; i++)
		dst[i] = float32(widen16(src[i]));
}

static TARGET void F(narrow_f16)(u16 *dst, const float *src, size_t n) {
	size_t i = 0;
#if defined(F16C_LANES) && F16C_LANES == 16
	for (; i + 16 <= n; i += 16)
		_mm256_storeu_si256((__m256i_u *)(dst + i), _mm512_cvtps_ph(_mm512_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
#elif defined(F16C_LANES)
	for (; i + 8 <= n; i += 8)
		_mm_storeu_si128((__m128i_u *)(dst + i), _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
#endif
	for (; i < n; i++)
		dst[i] = narrow16(bits32(src[i]));
}

// 16-bit floats go through blocks of binary32 that stay in the first cache.
#define BLOCK 256

#define REDUCE_HALF(op, type) \
	static TARGET void F(op##_##type)(uint8_t *dst, const uint8_t *a, const uint8_t *b, size_t n) { \
		float x[BLOCK], y[BLOCK]; \
		for (size_t i = 0, k; i < n; i += k) { \
			k = n - i < BLOCK ? n - i : BLOCK; \
			F(widen_##type)(x, (const u16 *)a + i, k); \
			F(widen_##type)(y, (const u16 *)b + i, k); \
			F(op##_f32)((uint8_t *)x, (uint8_t *)x, (uint8_t *)y, k); \
			F(narrow_##type)((u16 *)dst + i, x, k); \
		} \
	}

REDUCE_HALF(sum, f16)
REDUCE_HALF(prod, f16)
REDUCE_HALF(min, f16)
REDUCE_HALF(max, f16)
REDUCE_HALF(sum, bf16)
REDUCE_HALF(prod, bf16)
REDUCE_HALF(min, bf16)
REDUCE_HALF(max, bf16)

static TARGET void F(scale_f32)(uint8_t *dst_, size_t n, int64_t divisor) {
	f32 *dst = (f32 *)dst_;
	float d = (float)divisor;
	for (size_t i = 0; i < n; i++)
		dst[i] = plain32(dst[i] / d);
}

static TARGET void F(scale_f64)(uint8_t *dst_, size_t n, int64_t divisor) {
	f64 *dst = (f64 *)dst_;
	double d = (double)divisor;
	for (size_t i = 0; i < n; i++)
		dst[i] = plain64(dst[i] / d);
}

#define SCALE_HALF(type) \
	static TARGET void F(scale_##type)(uint8_t *dst, size_t n, int64_t divisor) { \
		float x[BLOCK]; \
		for (size_t i = 0, k; i < n; i += k) { \
			k = n - i < BLOCK ? n - i : BLOCK; \
			F(widen_##type)(x, (const u16 *)dst + i, k); \
			F(scale_f32)((uint8_t *)x, k, divisor); \
			F(narrow_##type)((u16 *)dst + i, x, k); \
		} \
	}

SCALE_HALF(f16)
SCALE_HALF(bf16)

// By element type (int8 uint8 int32 uint32 int64 uint64 float16 bfloat16
// float32 float64) and operation (sum prod min max), both from 1.
static const reduce_function F(reduce)[11][5] = {
	{0},
	{0, F(sum_8), F(prod_8), F(min_i8), F(max_i8)},
	{0, F(sum_8), F(prod_8), F(min_u8), F(max_u8)},
	{0, F(sum_32), F(prod_32), F(min_i32), F(max_i32)},
	{0, F(sum_32), F(prod_32), F(min_u32), F(max_u32)},
	{0, F(sum_64), F(prod_64), F(min_i64), F(max_i64)},
	{0, F(sum_64), F(prod_64), F(min_u64), F(max_u64)},
	{0, F(sum_f16), F(prod_f16), F(min_f16), F(max_f16)},
	{0, F(sum_bf16), F(prod_bf16), F(min_bf16), F(max_bf16)},
	{0, F(sum_f32), F(prod_f32), F(min_f32), F(max_f32)},
	{0, F(sum_f64), F(prod_f64), F(min_f64), F(max_f64)},
};

static const scale_function F(scale)[11] = {0, 0, 0, 0, 0, 0, 0, F(scale_f16), F(scale_bf16), F(scale_f32), F(scale_f64)};

#undef REDUCE
#undef REDUCE_HALF
#undef SCALE_HALF
#undef BLOCK
