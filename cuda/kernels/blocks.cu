// Kernels that look at blocks of an array, and copy some of them.

#include "loops.h"

// Which blocks of an array hold an element that counts? Bit i of bitmap, of 32-bit
// words, is set if block i has one: ((element & mask) + add) > limit, in the bits of
// an element. The bitmap is zero before.
struct Search {
	Addr bitmap, src;
	u64 n, block, mask, add, limit; // elements, elements of a block, bits of elements
};

DEVICE void mark(Addr bitmap, u64 block) {
	Addr word = bitmap + block / 32 * 4;
	u32 bit = 1u << block % 32;
	if ((load<u32>(word) & bit) == 0) // only few of the threads that find the block must write
		__atomic_fetch_or((GLOBAL u32 *)word, bit, __ATOMIC_RELAXED);
}

// Most arrays are short enough for the division of 32 bits, which is faster.
DEVICE u64 block_of(u64 i, u64 block) { return (i | block) >> 32 == 0 ? (u32)i / (u32)block : i / block; }

template <class T> DEVICE bool counts(T x, const Search &a) {
	return (T)((x & (T)a.mask) + (T)a.add) > (T)a.limit;
}

template <class T> DEVICE void search(const Search &a) {
	const u64 lanes = Lanes<T>::number;
	Cut c = cut(a.n, sizeof(T), a.src, 0);
	u64 inside = c.vectors * lanes, first = thread_number(), all = thread_count();

	for (u64 e = first; e < a.n - inside; e += all) {
		u64 i = e < c.head ? e : e + inside;
		if (counts<T>(load<T>(a.src + i * sizeof(T)), a))
			mark(a.bitmap, block_of(i, a.block));
	}
	for (u64 v = first; v < c.vectors; v += all) {
		u64 i = c.head + v * lanes;
		Lanes<T> x = bits<Lanes<T>>(load_vector(a.src + i * sizeof(T)));
		bool any = false;
		UNROLL for (u64 k = 0; k < lanes; k++)
			any |= counts<T>(x.lane[k], a);
		if (!any)
			continue;
		u64 begin = block_of(i, a.block);
		if (begin == block_of(i + lanes - 1, a.block)) {
			mark(a.bitmap, begin);
			continue;
		}
		UNROLL for (u64 k = 0; k < lanes; k++)
			if (counts<T>(x.lane[k], a))
				mark(a.bitmap, block_of(i + k, a.block));
	}
}

KERNEL(treerun_search_8, Search) { search<u8>(a); }
KERNEL(treerun_search_16, Search) { search<u16>(a); }
KERNEL(treerun_search_32, Search) { search<u32>(a); }
KERNEL(treerun_search_64, Search) { search<u64>(a); }

// The blocks of src whose bits are set go to their places in dst. Of the others dst
// becomes zero if zero is not 0; else it stays as it is, and src is not read there.
struct Pick {
	Addr bitmap, dst, src;
	u64 n, block, zero; // elements, elements of a block
};

DEVICE bool picked(Addr bitmap, u64 block) { return load<u32>(bitmap + block / 32 * 4) >> block % 32 & 1; }

template <class T> DEVICE void pick_one(const Pick &a, u64 i) {
	u64 offset = i * sizeof(T);
	if (picked(a.bitmap, block_of(i, a.block)))
		store<T>(a.dst + offset, load<T>(a.src + offset));
	else if (a.zero)
		store<T>(a.dst + offset, 0);
}

template <class T> DEVICE void pick(const Pick &a) {
	const u64 lanes = Lanes<T>::number;
	Cut c = cut(a.n, sizeof(T), a.dst, a.dst ^ a.src);
	u64 inside = c.vectors * lanes, first = thread_number(), all = thread_count();

	for (u64 e = first; e < a.n - inside; e += all)
		pick_one<T>(a, e < c.head ? e : e + inside);
	for (u64 v = first; v < c.vectors; v += all) {
		u64 i = c.head + v * lanes, offset = i * sizeof(T);
		u64 begin = block_of(i, a.block);
		if (begin != block_of(i + lanes - 1, a.block)) {
			UNROLL for (u64 k = 0; k < lanes; k++)
				pick_one<T>(a, i + k);
		} else if (picked(a.bitmap, begin)) {
			store_vector(a.dst + offset, take(a.src + offset));
		} else if (a.zero) {
			store_vector(a.dst + offset, Vector{{0, 0, 0, 0}});
		}
	}
}

KERNEL(treerun_pick_8, Pick) { pick<u8>(a); }
KERNEL(treerun_pick_16, Pick) { pick<u16>(a); }
KERNEL(treerun_pick_32, Pick) { pick<u32>(a); }
KERNEL(treerun_pick_64, Pick) { pick<u64>(a); }

// The blocks whose bits are set in any lie one behind the other in packed, in the order given by before: the number of
// bits that are set before each word of any. They go there from whole, and become zero where their bits are not set in
// own; or, where back is not 0, they go to whole, in which the other blocks become zero.
struct Compact {
	Addr own, any, before, whole, packed;
	u64 n, block, back; // elements of whole, elements of a block
};

// packed_at is where element i, of a block that is in any, lies in packed.
template <class T> DEVICE Addr packed_at(const Compact &a, u64 i, u64 block) {
	u64 word = block / 32 * 4;
	u32 below = load<u32>(a.any + word) & ((1u << block % 32) - 1);
	u64 place = load<u32>(a.before + word) + __builtin_popcount(below);
	return a.packed + (place * a.block + i - block * a.block) * sizeof(T);
}

template <class T> DEVICE void compact_one(const Compact &a, u64 i) {
	u64 block = block_of(i, a.block);
	Addr whole = a.whole + i * sizeof(T);
	bool there = picked(a.any, block);
	if (a.back)
		store<T>(whole, there ? load<T>(packed_at<T>(a, i, block)) : 0);
	else if (there)
		store<T>(packed_at<T>(a, i, block), picked(a.own, block) ? load<T>(whole) : 0);
}

template <class T> DEVICE void compact(const Compact &a) {
	const u64 lanes = Lanes<T>::number;
	Cut c = cut(a.n, sizeof(T), a.whole, 0);
	u64 inside = c.vectors * lanes, first = thread_number(), all = thread_count();

	for (u64 e = first; e < a.n - inside; e += all)
		compact_one<T>(a, e < c.head ? e : e + inside);
	for (u64 v = first; v < c.vectors; v += all) {
		u64 i = c.head + v * lanes, block = block_of(i, a.block);
		bool there = picked(a.any, block);
		Addr whole = a.whole + i * sizeof(T), packed = there ? packed_at<T>(a, i, block) : 0;
		if (block != block_of(i + lanes - 1, a.block) || (packed & 15) != 0) {
			ROLLED for (u64 k = 0; k < lanes; k++)
				compact_one<T>(a, i + k);
			continue;
		}
		const Vector zero = {{0, 0, 0, 0}};
		if (a.back)
			store_vector(whole, there ? load_vector(packed) : zero);
		else if (there)
			store_vector(packed, picked(a.own, block) ? load_vector(whole) : zero);
	}
}

KERNEL(treerun_compact_8, Compact) { compact<u8>(a); }
KERNEL(treerun_compact_16, Compact) { compact<u16>(a); }
KERNEL(treerun_compact_32, Compact) { compact<u32>(a); }
KERNEL(treerun_compact_64, Compact) { compact<u64>(a); }
