// Kernels for bfloat16.

#include "reduce.h"

REDUCE(sum, BFloat16, bfloat16)
REDUCE(prod, BFloat16, bfloat16)
REDUCE(min, BFloat16, bfloat16)
REDUCE(max, BFloat16, bfloat16)
MULTIPLY(BFloat16, u16, bfloat16)
DIVIDE(BFloat16, float, bfloat16)
