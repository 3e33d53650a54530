// The loops of one level over types that the processor computes with. kernel.c
// includes this file once per level, with LEVEL its name and TARGET the
// attribute of its functions.

// The operations, one step and what is left to do after the last. Signed sums
// and products have the bits of the unsigned ones, which wrap. A NaN stays a
// NaN in every further step; which one is settled at the end.
#define ADD(a, b) ((a) + (b))
#define MUL(a, b) ((a) * (b))
#define MUL16(a, b) (1u * (a) * (b)) // an int would overflow
#define LESS(a, b) ((a) < (b) ? (a) : (b))
#define MORE(a, b) ((a) > (b) ? (a) : (b))
#define AND(a, b) ((a) & (b))
#define OR(a, b) ((a) | (b))
#define XOR(a, b) ((a) ^ (b))
#define TRUE_AND(a, b) (((a) != 0) & ((b) != 0))
#define TRUE_OR(a, b) (((a) | (b)) != 0)
#define TRUE_XOR(a, b) (((a) != 0) ^ ((b) != 0))
#define SAME(x) (x)

// One loop: NAME of NUMBER sources, a to h.
#define LOOP(name, number, type, result) \
	static TARGET void F(name##_##number)(uint8_t *dst_, const uint8_t *const *s, size_t n) { \
		type *dst = (type *)dst_; \
		SOURCES_##number(type) \
		INDEPENDENT \
		for (size_t i = 0; i < n; i++) { \
			VALUES_##number(type) \
			dst[i] = result; \
		} \
	}

#define SOURCES_2(type) const type *pa = (const type *)s[0], *pb = (const type *)s[1];
#define SOURCES_3(type) SOURCES_2(type) const type *pc = (const type *)s[2];
#define SOURCES_4(type) SOURCES_3(type) const type *pd = (const type *)s[3];
#define SOURCES_8(type) \
	SOURCES_4(type) \
	const type *pe = (const type *)s[4], *pf = (const type *)s[5], *pg = (const type *)s[6], *ph = (const type *)s[7];
#define VALUES_2(type) type a = pa[i], b = pb[i];
#define VALUES_3(type) VALUES_2(type) type c = pc[i];
#define VALUES_4(type) VALUES_3(type) type d = pd[i];
#define VALUES_8(type) VALUES_4(type) type e = pe[i], f = pf[i], g = pg[i], h = ph[i];

// C promotes narrow integers; STEP cuts every value back to its type.
#define STEP(type, op, x, y) ((type)op(x, y))

// The loops of an operation. Steps keep their values in variables: LESS and
// MORE name their arguments twice.
#define REDUCE(name, type, op, finish) \
	LOOP(name, 2, type, finish(STEP(type, op, a, b))) \
	LOOP(name, 3, type, ({ type x = STEP(type, op, a, b); finish(STEP(type, op, x, c)); })) \
	LOOP(name, 4, type, ({ \
		type x = STEP(type, op, a, b); \
		x = STEP(type, op, x, c); \
		finish(STEP(type, op, x, d)); \
	})) \
	LOOP(name, 8, type, ({ \
		type x = STEP(type, op, a, b); \
		x = STEP(type, op, x, c); \
		x = STEP(type, op, x, d); \
		x = STEP(type, op, x, e); \
		x = STEP(type, op, x, f); \
		x = STEP(type, op, x, g); \
		finish(STEP(type, op, x, h)); \
	}))

REDUCE(sum_8, u8, ADD, SAME)
REDUCE(prod_8, u8, MUL, SAME)
REDUCE(and_8, u8, AND, SAME)
REDUCE(or_8, u8, OR, SAME)
REDUCE(xor_8, u8, XOR, SAME)
REDUCE(land_8, u8, TRUE_AND, SAME)
REDUCE(lor_8, u8, TRUE_OR, SAME)
REDUCE(lxor_8, u8, TRUE_XOR, SAME)
REDUCE(min_i8, i8, LESS, SAME)
REDUCE(max_i8, i8, MORE, SAME)
REDUCE(min_u8, u8, LESS, SAME)
REDUCE(max_u8, u8, MORE, SAME)
REDUCE(sum_16, u16, ADD, SAME)
REDUCE(prod_16, u16, MUL16, SAME)
REDUCE(and_16, u16, AND, SAME)
REDUCE(or_16, u16, OR, SAME)
REDUCE(xor_16, u16, XOR, SAME)
REDUCE(land_16, u16, TRUE_AND, SAME)
REDUCE(lor_16, u16, TRUE_OR, SAME)
REDUCE(lxor_16, u16, TRUE_XOR, SAME)
REDUCE(min_i16, i16, LESS, SAME)
REDUCE(max_i16, i16, MORE, SAME)
REDUCE(min_u16, u16, LESS, SAME)
REDUCE(max_u16, u16, MORE, SAME)
REDUCE(sum_32, u32, ADD, SAME)
REDUCE(prod_32, u32, MUL, SAME)
REDUCE(and_32, u32, AND, SAME)
REDUCE(or_32, u32, OR, SAME)
REDUCE(xor_32, u32, XOR, SAME)
REDUCE(land_32, u32, TRUE_AND, SAME)
REDUCE(lor_32, u32, TRUE_OR, SAME)
REDUCE(lxor_32, u32, TRUE_XOR, SAME)
REDUCE(min_i32, i32, LESS, SAME)
REDUCE(max_i32, i32, MORE, SAME)
REDUCE(min_u32, u32, LESS, SAME)
REDUCE(max_u32, u32, MORE, SAME)
REDUCE(sum_64, u64, ADD, SAME)
REDUCE(prod_64, u64, MUL, SAME)
REDUCE(and_64, u64, AND, SAME)
REDUCE(or_64, u64, OR, SAME)
REDUCE(xor_64, u64, XOR, SAME)
REDUCE(land_64, u64, TRUE_AND, SAME)
REDUCE(lor_64, u64, TRUE_OR, SAME)
REDUCE(lxor_64, u64, TRUE_XOR, SAME)
REDUCE(min_i64, i64, LESS, SAME)
REDUCE(max_i64, i64, MORE, SAME)
REDUCE(min_u64, u64, LESS, SAME)
REDUCE(max_u64, u64, MORE, SAME)
REDUCE(sum_f32, f32, ADD, plain32)
REDUCE(prod_f32, f32, MUL, plain32)
REDUCE(min_f32, f32, min32, plain32)
REDUCE(max_f32, f32, max32, plain32)
REDUCE(sum_f64, f64, ADD, plain64)
REDUCE(prod_f64, f64, MUL, plain64)
REDUCE(min_f64, f64, min64, plain64)
REDUCE(max_f64, f64, max64, plain64)

#define MULTIPLY(name, type, op, finish) \
	static TARGET void F(name)(uint8_t *dst_, const uint8_t *src_, size_t n, const uint8_t *factor) { \
		type *dst = (type *)dst_; \
		const type *src = (const type *)src_; \
		type x = *(const type *)factor; \
		INDEPENDENT \
		for (size_t i = 0; i < n; i++) \
			dst[i] = finish(op(src[i], x)); \
	}

MULTIPLY(multiply_8, u8, MUL, SAME)
MULTIPLY(multiply_16, u16, MUL16, SAME)
MULTIPLY(multiply_32, u32, MUL, SAME)
MULTIPLY(multiply_64, u64, MUL, SAME)
MULTIPLY(multiply_f32, f32, MUL, plain32)
MULTIPLY(multiply_f64, f64, MUL, plain64)

// gcc 12 rounds a product and a sum at once where it makes vectors of complex products (vfmaddsub, fcmla), whatever it
// is asked: none are made where the processor has such an instruction.
#if !defined(FUSES)
#if !defined(__clang__) && (defined(__FMA__) || defined(__ARM_FEATURE_COMPLEX))
#pragma GCC push_options
#pragma GCC optimize("no-tree-vectorize")
#define POP_OPTIONS
#endif
REDUCE(prod_c64, c64, prod_complex64, plain_complex64)
REDUCE(prod_c128, c128, prod_complex128, plain_complex128)
MULTIPLY(multiply_c64, c64, prod_complex64, plain_complex64)
MULTIPLY(multiply_c128, c128, prod_complex128, plain_complex128)
#if defined(POP_OPTIONS)
#pragma GCC pop_options
#undef POP_OPTIONS
#endif
#endif

// Quotients of 32 bits are exact in binary64: one that is not whole is further
// from the next whole number than rounding can move it.
#define DIVIDE(name, type, wide, finish) \
	static TARGET void F(name)(uint8_t *dst_, size_t n, int64_t divisor) { \
		type *dst = (type *)dst_; \
		wide d = (wide)divisor; \
		INDEPENDENT \
		for (size_t i = 0; i < n; i++) \
			dst[i] = (type)finish((wide)dst[i] / d); \
	}

DIVIDE(divide_i32, i32, double, (int32_t))
DIVIDE(divide_u32, u32, double, (uint32_t))
DIVIDE(divide_i8, i8, double, (int32_t))
DIVIDE(divide_u8, u8, double, (int32_t))
DIVIDE(divide_i16, i16, double, (int32_t))
DIVIDE(divide_u16, u16, double, (int32_t))
DIVIDE(divide_i64, i64, int64_t, SAME)
DIVIDE(divide_u64, u64, uint64_t, SAME)
DIVIDE(divide_f32, f32, float, plain32)
DIVIDE(divide_f64, f64, double, plain64)

#undef ADD
#undef MUL
#undef MUL16
#undef LESS
#undef MORE
#undef AND
#undef OR
#undef XOR
#undef TRUE_AND
#undef TRUE_OR
#undef TRUE_XOR
#undef SAME
#undef LOOP
#undef STEP
#undef REDUCE
#undef MULTIPLY
#undef DIVIDE
#undef SOURCES_2
#undef SOURCES_3
#undef SOURCES_4
#undef SOURCES_8
#undef VALUES_2
#undef VALUES_3
#undef VALUES_4
#undef VALUES_8
