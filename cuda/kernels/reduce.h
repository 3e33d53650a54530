// Kernels that compute with elements of one type. The .cu files name the types.

#ifndef TREERUN_REDUCE_H
#define TREERUN_REDUCE_H

#include "elements.h"
#include "loops.h"

// The operations, as the host numbers them. Integers of either sign share a kernel, and have the
// last two for numbers without a sign.
enum { op_sum = 1, op_prod, op_min, op_max, op_lowest, op_highest };

#define LANES(what) \
	UNROLL for (int k = 0; k < count; k++) { \
		L x = bits<L>(value[k]), y = bits<L>(now[k]); \
		UNROLL for (int i = 0; i < L::number; i++) \
			x.lane[i] = E::what(x.lane[i], y.lane[i]); \
		value[k] = bits<Vector>(x); \
	} \
	break

// The operation is the same for all threads of a launch, so a switch costs little, and all
// operations have one loop.
template <class E> struct Reduction {
	typedef typename E::type type;
	typedef Lanes<type> L;
	enum { folds = true, batch = 2 };
	u32 op;
	type factor;

	DEVICE_MEMBER Vector enter(Vector v, bool scaled) const {
		if (!scaled)
			return v;
		L x = bits<L>(v);
		UNROLL for (int i = 0; i < L::number; i++)
			x.lane[i] = E::prod(x.lane[i], factor);
		return bits<Vector>(x);
	}
	DEVICE_MEMBER type enter(type x, bool scaled) const { return scaled ? E::prod(x, factor) : x; }

	template <int count> DEVICE_MEMBER void fold(Vector (&value)[count], const Vector (&now)[count]) const {
		if constexpr (E::ordered) {
			switch (op) {
			case op_sum: LANES(sum);
			case op_prod: LANES(prod);
			case op_min: LANES(min);
			case op_max: LANES(max);
			}
		} else {
			switch (op) {
			case op_sum: LANES(sum);
			case op_prod: LANES(prod);
			}
		}
		if constexpr (E::unsigned_too) {
			switch (op) {
			case op_lowest: LANES(lowest);
			case op_highest: LANES(highest);
			}
		}
	}
	DEVICE_MEMBER type fold(type a, type b) const {
		if constexpr (E::unsigned_too) {
			switch (op) {
			case op_lowest: return E::lowest(a, b);
			case op_highest: return E::highest(a, b);
			}
		}
		if constexpr (E::ordered) {
			switch (op) {
			case op_min: return E::min(a, b);
			case op_max: return E::max(a, b);
			}
		}
		return op == op_sum ? E::sum(a, b) : E::prod(a, b);
	}
};

// All elements divided by a whole number of 1 or more: the end of an average. Floating-point numbers
// are divided by the number as their own type, the narrow ones by it as binary32.
template <class E, class Divisor> struct Quotient {
	typedef typename E::type type;
	typedef Lanes<type> L;
	enum { folds = false, batch = 1 };
	Divisor divisor;
	DEVICE_MEMBER type enter(type x, bool) const { return E::quotient(x, divisor); }
	DEVICE_MEMBER Vector enter(Vector v, bool) const {
		L x = bits<L>(v);
		UNROLL for (int i = 0; i < L::number; i++)
			x.lane[i] = E::quotient(x.lane[i], divisor);
		return bits<Vector>(x);
	}
};

// Integers are divided with truncation, by way of their magnitude as U. A
// divisor that is no U is larger than all of them: then kept is 0, and else has
// all bits.
template <class T, class U> struct Truncate {
	typedef T type;
	struct Divisor {
		U value, kept;
	};
	DEVICE T quotient(T a, Divisor d) {
		U size = (a < 0 ? 0 - (U)a : (U)a) & d.kept;
		return (T)(a < 0 ? 0 - size / d.value : size / d.value);
	}
};

#define REDUCE(Element, Bits, name) \
	KERNEL(treerun_reduce_##name, Batch) { \
		every(Reduction<Element>{(u32)a.op, bits<Element::type>((Bits)a.factor[0])}, a); \
	}

// The factor of a complex128 has two words.
struct Factor {
	u64 word[2];
};
#define REDUCE_WIDE(Element, name) \
	KERNEL(treerun_reduce_##name, Batch) { \
		every(Reduction<Element>{(u32)a.op, bits<Element::type>(Factor{{a.factor[0], a.factor[1]}})}, a); \
	}

#define DIVIDE(Element, Divisor, name) \
	KERNEL(treerun_divide_##name, Batch) { every(Quotient<Element, Divisor>{(Divisor)(i64)a.factor[0]}, a); }

#define DIVIDE_INTEGERS(T, U, name) \
	KERNEL(treerun_divide_##name, Batch) { \
		typedef Truncate<T, U> E; \
		bool fits = a.factor[0] <= (U)-1; \
		every(Quotient<E, E::Divisor>{{fits ? (U)a.factor[0] : (U)1, fits ? (U)-1 : (U)0}}, a); \
	}

#endif
