// The streaming copy of one level and its table. Included by kernel.c after
// loops.h and half.h; STREAM_LINE writes one cache line past the caches, if the
// level can.

static TARGET void F(stream)(uint8_t *dst, const uint8_t *src, size_t n) {
#if defined(STREAM_LINE)
	size_t head = -(uintptr_t)dst & 63;
	head = head < n ? head : n;
	memcpy(dst, src, head);
	dst += head, src += head, n -= head;
	for (; n >= 64; dst += 64, src += 64, n -= 64)
		STREAM_LINE(dst, src);
#endif
	memcpy(dst, src, n);
}

#define LOOPS(name) {{0, 0, F(name##_2), F(name##_3), F(name##_4), 0, 0, 0, F(name##_8)}}
#define BITS(size) /* after what Avg would be */ \
	{{0}}, LOOPS(and_##size), LOOPS(or_##size), LOOPS(xor_##size), LOOPS(land_##size), LOOPS(lor_##size), LOOPS(lxor_##size)
#if defined(LANES)
#define HALVES(name) LOOPS(name)
#else
#define HALVES(name) PAIRS(name)
#endif
#define PAIRS(name) {{0, 0, F(name##_2)}}

#if defined(FUSES)
#define COMPLEX(name) JOIN(name, avx2)
#else
#define COMPLEX(name) F(name)
#endif
#define PRODUCTS(name) {{0, 0, COMPLEX(name##_2), COMPLEX(name##_3), COMPLEX(name##_4), 0, 0, 0, COMPLEX(name##_8)}}

static const struct level F(level) = {
	.reduce = {
		{{{0}}},
		{{{0}}, LOOPS(sum_8), LOOPS(prod_8), LOOPS(min_i8), LOOPS(max_i8), BITS(8)},
		{{{0}}, LOOPS(sum_8), LOOPS(prod_8), LOOPS(min_u8), LOOPS(max_u8), BITS(8)},
		{{{0}}, LOOPS(sum_32), LOOPS(prod_32), LOOPS(min_i32), LOOPS(max_i32), BITS(32)},
		{{{0}}, LOOPS(sum_32), LOOPS(prod_32), LOOPS(min_u32), LOOPS(max_u32), BITS(32)},
		{{{0}}, LOOPS(sum_64), LOOPS(prod_64), LOOPS(min_i64), LOOPS(max_i64), BITS(64)},
		{{{0}}, LOOPS(sum_64), LOOPS(prod_64), LOOPS(min_u64), LOOPS(max_u64), BITS(64)},
		{{{0}}, HALVES(sum_f16), HALVES(prod_f16), PAIRS(min_f16), PAIRS(max_f16)},
		{{{0}}, HALVES(sum_bf16), HALVES(prod_bf16), PAIRS(min_bf16), PAIRS(max_bf16)},
		{{{0}}, LOOPS(sum_f32), LOOPS(prod_f32), LOOPS(min_f32), LOOPS(max_f32)},
		{{{0}}, LOOPS(sum_f64), LOOPS(prod_f64), LOOPS(min_f64), LOOPS(max_f64)},
		{{{0}}, LOOPS(sum_16), LOOPS(prod_16), LOOPS(min_i16), LOOPS(max_i16), BITS(16)},
		{{{0}}, LOOPS(sum_16), LOOPS(prod_16), LOOPS(min_u16), LOOPS(max_u16), BITS(16)},
		{{{0}}, {{0}}, PRODUCTS(prod_c64)}, // sums and quotients are those of parts
		{{{0}}, {{0}}, PRODUCTS(prod_c128)},
		{{{0}}, {{0}}, {{0}}, {{0}}, {{0}}, BITS(8)},
	},
	.multiply = {
		0, F(multiply_8), F(multiply_8), F(multiply_32), F(multiply_32), F(multiply_64), F(multiply_64),
		F(multiply_f16), F(multiply_bf16), F(multiply_f32), F(multiply_f64), F(multiply_16),
		F(multiply_16), COMPLEX(multiply_c64), COMPLEX(multiply_c128),
	},
	.divide = {
		0, F(divide_i8), F(divide_u8), F(divide_i32), F(divide_u32), F(divide_i64), F(divide_u64),
		F(divide_f16), F(divide_bf16), F(divide_f32), F(divide_f64), F(divide_i16),
		F(divide_u16),
	},
	.stream = F(stream),
	.nonzero = F(nonzero),
};

#undef LOOPS
#undef PAIRS
#undef BITS
#undef HALVES
#undef COMPLEX
#undef PRODUCTS
