// Kernels for bfloat16.

#include "reduce.h"

REDUCE(BFloat16, u16, bfloat16)
DIVIDE(BFloat16, float, bfloat16)
