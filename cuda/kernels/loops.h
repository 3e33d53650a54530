// The way over memory that all kernels here share: 16 bytes at a time, whatever
// address an array of elements begins at.
//
// Where the result has a multiple of 16 for address, and the sources beside it
// have too, a thread moves several vectors at once. Where a source lies
// otherwise, two of its vectors make one. Elements at either end that fill no
// vector go one by one. No byte outside the arrays is touched.

#ifndef TREERUN_LOOPS_H
#define TREERUN_LOOPS_H

#include "device.h"

// How an array of n elements is cut: head elements, then vectors, then the rest.
struct Cut {
	u64 head, vectors;
	bool together; // all arrays are at multiples of 16 where the vectors begin
};

// cut cuts by the address of the result. apart has a bit among the lower four
// where a source lies otherwise. Then a vector is left to either end: what a
// thread loads beside its own bytes is still inside the array.
DEVICE Cut cut(u64 n, u64 size, Addr dst, Addr apart) {
	Cut c;
	c.together = (apart & 15) == 0;
	c.head = (-dst & 15) / size + (c.together ? 0 : 16 / size);
	if (c.head > n)
		c.head = n;
	c.vectors = (n - c.head) / (16 / size);
	if (!c.together && c.vectors > 0)
		c.vectors--;
	return c;
}

// take returns 16 bytes from anywhere.
DEVICE Vector take(Addr at) {
	u32 skip = at & 15;
	Vector low = load_vector(at - skip);
	if (skip == 0)
		return low;
	Vector high = load_vector(at - skip + 16);
	u64 w[4] = {
		low.word[0] | (u64)low.word[1] << 32, low.word[2] | (u64)low.word[3] << 32,
		high.word[0] | (u64)high.word[1] << 32, high.word[2] | (u64)high.word[3] << 32,
	};
	bool far = skip >= 8;
	u64 a = far ? w[1] : w[0], b = far ? w[2] : w[1], c = far ? w[3] : w[2];
	u32 shift = skip % 8 * 8;
	u64 x = a >> shift | b << 1 << (63 - shift), y = b >> shift | c << 1 << (63 - shift);
	return Vector{{(u32)x, (u32)(x >> 32), (u32)y, (u32)(y >> 32)}};
}

// Elements in a vector.
template <class T> struct Lanes {
	enum { number = 16 / sizeof(T) };
	T lane[number];
};

// store_each writes the elements of a vector one by one.
template <class T> DEVICE void store_each(Addr at, Vector v) {
	Lanes<T> l = bits<Lanes<T>>(v);
	UNROLL for (int i = 0; i < Lanes<T>::number; i++)
		store<T>(at + i * sizeof(T), l.lane[i]);
}

// Arrays of n elements: one or two results, of which the second may be missing,
// and one to three sources. A source may be a result; else they do not overlap.
struct Arrays {
	Addr dst, dst2, a, b, c; // 0 where there is none
	u64 n;
};

// each applies f to every element of a vector.
template <class F> DEVICE Vector each(F f, Vector a, Vector b) {
	typedef typename F::type T;
	Lanes<T> x = bits<Lanes<T>>(a), y;
	if (F::pairs)
		y = bits<Lanes<T>>(b);
	UNROLL for (int i = 0; i < Lanes<T>::number; i++)
		x.lane[i] = f(x.lane[i], F::pairs ? y.lane[i] : x.lane[i]);
	return bits<Vector>(x);
}

// some computes as many vectors as count says, step bytes apart. All loads come
// before the first use. aligned: all arrays are at multiples of 16.
template <class F, int count, bool aligned> DEVICE void some(F f, const Arrays &s, u64 offset, u64 step) {
	typedef typename F::type T;
	Vector a[count], b[count], c[count];
	UNROLL for (int k = 0; k < count; k++)
		a[k] = aligned ? load_vector(s.a + offset + k * step) : take(s.a + offset + k * step);
	if (F::pairs)
		UNROLL for (int k = 0; k < count; k++)
			b[k] = aligned ? load_vector(s.b + offset + k * step) : take(s.b + offset + k * step);
	if (F::pairs && s.c)
		UNROLL for (int k = 0; k < count; k++)
			c[k] = aligned ? load_vector(s.c + offset + k * step) : take(s.c + offset + k * step);
	UNROLL for (int k = 0; k < count; k++)
		a[k] = each(f, a[k], b[k]);
	if (F::pairs && s.c)
		UNROLL for (int k = 0; k < count; k++)
			a[k] = each(f, a[k], c[k]);
	UNROLL for (int k = 0; k < count; k++)
		store_vector(s.dst + offset + k * step, a[k]);
	if (s.dst2 == 0)
		return;
	UNROLL for (int k = 0; k < count; k++) {
		if (aligned || ((s.dst ^ s.dst2) & 15) == 0)
			store_vector(s.dst2 + offset + k * step, a[k]);
		else
			store_each<T>(s.dst2 + offset + k * step, a[k]);
	}
}

// one computes element i.
template <class F> DEVICE void one(F f, const Arrays &s, u64 i) {
	typedef typename F::type T;
	u64 offset = i * sizeof(T);
	T x = load<T>(s.a + offset);
	x = f(x, F::pairs ? load<T>(s.b + offset) : x);
	if (F::pairs && s.c)
		x = f(x, load<T>(s.c + offset));
	store<T>(s.dst + offset, x);
	if (s.dst2)
		store<T>(s.dst2 + offset, x);
}

// over computes the results: dst[i] = dst2[i] = f(a[i], b[i]), and f(f(a[i],
// b[i]), c[i]) where there is c. F::pairs tells whether f looks at its second
// argument; b and c are not read otherwise. F::batch is how many vectors a
// thread moves at once.
template <class F> DEVICE void over(F f, const Arrays &s) {
	typedef typename F::type T;
	Addr apart = s.dst ^ s.a;
	if (F::pairs)
		apart |= (s.dst ^ s.b) | (s.c ? s.dst ^ s.c : 0);
	Cut c = cut(s.n, sizeof(T), s.dst, apart);
	u64 inside = c.vectors * Lanes<T>::number, first = thread_number(), all = thread_count();

	for (u64 i = first; i < s.n - inside; i += all)
		one(f, s, i < c.head ? i : i + inside);

	u64 i = first, begin = c.head * sizeof(T);
	if (F::batch > 1 && c.together && (s.dst2 == 0 || ((s.dst ^ s.dst2) & 15) == 0))
		for (; i + (F::batch - 1) * all < c.vectors; i += F::batch * all)
			some<F, F::batch, true>(f, s, begin + 16 * i, 16 * all);
	for (; i < c.vectors; i += all)
		some<F, 1, false>(f, s, begin + 16 * i, 0);
}

#endif
