#ifndef TREERUN_KERNEL_H
#define TREERUN_KERNEL_H

#include <stddef.h>
#include <stdint.h>

// The numbers of levels, operations and element types are those of kernel.go
// and reduce.go. n counts elements, size bytes. Memory may begin anywhere. dst
// may be the very memory of any source, and must not overlap one in part.

// The best level of this processor, at least 1.
int treerun_kernel_best(void);

// dst = a op b.
void treerun_kernel_reduce(int level, int op, int dtype, uint8_t *dst, const uint8_t *a, const uint8_t *b, size_t n);

// dst = s0 op s1 op ... over the first k sources, 2 to 8 of them, from left to
// right. stream writes dst past the caches.
void treerun_kernel_reduce_many(int level, int op, int dtype, int stream, uint8_t *dst, size_t n, int k,
	const uint8_t *s0, const uint8_t *s1, const uint8_t *s2, const uint8_t *s3,
	const uint8_t *s4, const uint8_t *s5, const uint8_t *s6, const uint8_t *s7);

// Pieces of dst, each a reduction of pieces of the sources: pieces.go says what is in
// the list, of so many words. stream writes dst past the caches.
void treerun_kernel_pieces(int level, int op, int dtype, int stream, uint8_t *dst, const uint64_t *list, size_t words,
	const uint8_t *s0, const uint8_t *s1, const uint8_t *s2, const uint8_t *s3,
	const uint8_t *s4, const uint8_t *s5, const uint8_t *s6, const uint8_t *s7);

// dst = src * factor, one element.
void treerun_kernel_multiply(int level, int dtype, uint8_t *dst, const uint8_t *src, size_t n, const uint8_t *factor);

// dst /= divisor, which is at least 1.
void treerun_kernel_divide(int level, int dtype, uint8_t *dst, size_t n, int64_t divisor);

// dst = src, past the caches. The writes are ordered before every later one of
// this thread.
void treerun_kernel_stream(int level, uint8_t *dst, const uint8_t *src, size_t size);

// Sets bit b of bits for every block b, of block bytes, that has a bit of mask,
// which is repeated all over src. Returns whether another block has a bit at all.
int treerun_kernel_nonzero(int level, const uint8_t *src, size_t size, size_t block, uint64_t mask, uint64_t *bits);

#endif
