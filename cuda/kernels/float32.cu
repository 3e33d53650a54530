// Kernels for float32.

#include "reduce.h"

REDUCE(Float32, u32, float32)
DIVIDE(Float32, float, float32)
