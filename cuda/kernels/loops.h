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

// What a launch does: each part combines the elements of some arrays, its sources, from left to
// right, and stores the values in all its results. A result may be a source; else no arrays of a
// launch overlap where one of them is a result.
struct Part {
	u64 n;                // elements
	u16 at;               // of its arrays in Batch::address: results, of which there is one, then sources
	u16 results, sources; // how many
	u16 scaled;           // the source that is multiplied by the factor first, from 1 on; 0: none
};

enum { max_parts = 16, max_arrays = 40 };

struct Batch {
	u64 op, factor[2], parts;
	Addr address[max_arrays];
	Part part[max_parts];
};

// A part, and this thread's place among those that work on it.
struct Share {
	const Batch &batch;
	const Part &part;
	u32 first, all; // a grid has less than 2^24 blocks

	DEVICE_MEMBER Addr result(u32 i) const { return batch.address[part.at + i]; }
	DEVICE_MEMBER Addr source(u32 i) const { return batch.address[part.at + part.results + i]; }
};

// some computes as many vectors as count says, step bytes apart. The loads of a source come before
// the source before it is used. aligned: all arrays are at multiples of 16.
template <class F, int count, bool aligned> DEVICE void some(const F &f, const Share &s, u64 offset, u64 step) {
	typedef typename F::type T;
	Vector value[count], next[count];
	UNROLL for (int k = 0; k < count; k++) {
		Addr at = s.source(0) + offset + k * step;
		next[k] = aligned ? load_vector(at) : take(at);
	}
	ROLLED for (u32 i = 1; i <= s.part.sources; i++) {
		Vector now[count];
		UNROLL for (int k = 0; k < count; k++)
			now[k] = next[k];
		if (F::folds && i < s.part.sources)
			UNROLL for (int k = 0; k < count; k++) {
				Addr at = s.source(i) + offset + k * step;
				next[k] = aligned ? load_vector(at) : take(at);
			}
		UNROLL for (int k = 0; k < count; k++)
			now[k] = f.enter(now[k], s.part.scaled == i);
		if constexpr (F::folds) {
			if (i > 1) {
				f.fold(value, now);
				continue;
			}
		}
		UNROLL for (int k = 0; k < count; k++)
			value[k] = now[k];
	}
	ROLLED for (u32 i = 0; i < s.part.results; i++) {
		Addr at = s.result(i) + offset;
		bool even = aligned || (at & 15) == 0;
		UNROLL for (int k = 0; k < count; k++) {
			if (even)
				store_vector(at + k * step, value[k]);
			else
				store_each<T>(at + k * step, value[k]);
		}
	}
}

// one computes element i.
template <class F> DEVICE void one(const F &f, const Share &s, u64 i) {
	typedef typename F::type T;
	u64 offset = i * sizeof(T);
	T value = {};
	ROLLED for (u32 k = 1; k <= s.part.sources; k++) {
		T now = f.enter(load<T>(s.source(k - 1) + offset), s.part.scaled == k);
		if constexpr (F::folds)
			now = k > 1 ? f.fold(value, now) : now;
		value = now;
	}
	ROLLED for (u32 k = 0; k < s.part.results; k++)
		store<T>(s.result(k) + offset, value);
}

// over computes this thread's share of a part. F::folds tells whether there may be more sources than
// one, F::batch how many vectors a thread moves at once.
template <class F> DEVICE void over(const F &f, const Share &s) {
	typedef typename F::type T;
	Addr dst = s.result(0), apart = 0, other = 0;
	ROLLED for (u32 i = 0; i < s.part.sources; i++)
		apart |= dst ^ s.source(i);
	ROLLED for (u32 i = 1; i < s.part.results; i++)
		other |= dst ^ s.result(i);
	Cut c = cut(s.part.n, sizeof(T), dst, apart);
	u64 inside = c.vectors * Lanes<T>::number;

	for (u64 i = s.first; i < s.part.n - inside; i += s.all)
		one(f, s, i < c.head ? i : i + inside);

	u64 i = s.first, begin = c.head * sizeof(T), all = s.all;
	if (F::batch > 1 && c.together && (other & 15) == 0)
		for (; i + (F::batch - 1) * all < c.vectors; i += F::batch * all)
			some<F, F::batch, true>(f, s, begin + 16 * i, 16 * all);
	for (; i < c.vectors; i += all)
		some<F, 1, false>(f, s, begin + 16 * i, 0);
}

// every works off all parts: the blocks are dealt to them in turn.
template <class F> DEVICE void every(const F &f, const Batch &b) {
	u32 teams = block_count() < b.parts ? block_count() : (u32)b.parts;
	u32 team = block_number() % teams, blocks = (block_count() - team - 1) / teams + 1;
	u32 first = block_number() / teams * block_threads() + block_thread(), all = blocks * block_threads();
	for (u32 i = team; i < b.parts; i += teams)
		over(f, Share{b, b.part[i], first, all});
}

#endif
