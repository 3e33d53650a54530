// Kernels for float16.

#include "reduce.h"

REDUCE(sum, Float16, float16)
REDUCE(prod, Float16, float16)
REDUCE(min, Float16, float16)
REDUCE(max, Float16, float16)
MULTIPLY(Float16, u16, float16)
DIVIDE(Float16, float, float16)
