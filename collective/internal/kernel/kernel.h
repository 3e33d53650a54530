#ifndef TREERUN_KERNEL_H
#define TREERUN_KERNEL_H

#include <stddef.h>
#include <stdint.h>

// The numbers of levels, operations and element types are those of kernel.go
// and reduce.go.

// The best level of this processor, at least 1.
int treerun_kernel_best(void);

// dst = a op b over n elements at any addresses. dst may be a or b or both.
void treerun_kernel_reduce(int level, int op, int dtype, uint8_t *dst, const uint8_t *a, const uint8_t *b, size_t n);

// dst /= divisor over n elements of a floating-point type.
void treerun_kernel_scale(int level, int dtype, uint8_t *dst, size_t n, int64_t divisor);

#endif
