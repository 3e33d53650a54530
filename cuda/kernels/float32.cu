// Kernels for float32.

#include "reduce.h"

REDUCE(sum, Float32, float32)
REDUCE(prod, Float32, float32)
REDUCE(min, Float32, float32)
REDUCE(max, Float32, float32)
MULTIPLY(Float32, u32, float32)
DIVIDE(Float32, float, float32)
