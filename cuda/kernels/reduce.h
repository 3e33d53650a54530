// Kernels that compute with elements of one type. The .cu files name the types.

#ifndef TREERUN_REDUCE_H
#define TREERUN_REDUCE_H

#include "elements.h"
#include "loops.h"

// A reduction of two or three arrays, from left to right, into one or two.
#define REDUCE(op, Element, name) \
	struct op##_##name { \
		typedef Element::type type; \
		enum { pairs = true, batch = 2 }; \
		DEVICE_MEMBER type operator()(type a, type b) const { return Element::op(a, b); } \
	}; \
	KERNEL(treerun_##op##_##name, Arrays) { over(op##_##name(), a); }

// All elements multiplied with one, whose bits are the low ones of factor.
struct Multiply {
	Addr dst, src;
	u64 n, factor;
};

#define MULTIPLY(Element, Bits, name) \
	struct multiply_##name { \
		typedef Element::type type; \
		enum { pairs = false, batch = 2 }; \
		type factor; \
		DEVICE_MEMBER type operator()(type a, type) const { return Element::prod(a, factor); } \
	}; \
	KERNEL(treerun_multiply_##name, Multiply) { \
		over(multiply_##name{bits<Element::type>((Bits)a.factor)}, Arrays{a.dst, 0, a.src, 0, 0, a.n}); \
	}

// All elements divided by a whole number of 1 or more: the end of an average.
struct Divide {
	Addr dst, src;
	u64 n, divisor;
};

// Floating-point numbers are divided by the number as their own type, the
// narrow ones by it as binary32.
#define DIVIDE(Element, Divisor, name) \
	struct divide_##name { \
		typedef Element::type type; \
		enum { pairs = false, batch = 1 }; \
		Divisor divisor; \
		DEVICE_MEMBER type operator()(type a, type) const { return Element::quotient(a, divisor); } \
	}; \
	KERNEL(treerun_divide_##name, Divide) { \
		over(divide_##name{(Divisor)(i64)a.divisor}, Arrays{a.dst, 0, a.src, 0, 0, a.n}); \
	}

// Integers are divided with truncation, by way of their magnitude as U. A
// divisor that is no U is larger than all of them: then kept is 0, and else has
// all bits.
template <class T, class U> struct Truncate {
	typedef T type;
	enum { pairs = false, batch = 1 };
	U divisor, kept;
	DEVICE_MEMBER T operator()(T a, T) const {
		U size = (a < 0 ? 0 - (U)a : (U)a) & kept;
		return (T)(a < 0 ? 0 - size / divisor : size / divisor);
	}
};

#define DIVIDE_INTEGERS(T, U, name) \
	KERNEL(treerun_divide_##name, Divide) { \
		bool fits = a.divisor <= (U)-1; \
		over(Truncate<T, U>{fits ? (U)a.divisor : 1, fits ? (U)-1 : 0}, Arrays{a.dst, 0, a.src, 0, 0, a.n}); \
	}

#endif
