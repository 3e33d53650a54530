// Kernels for float16.

#include "reduce.h"

REDUCE(Float16, u16, float16)
DIVIDE(Float16, float, float16)
