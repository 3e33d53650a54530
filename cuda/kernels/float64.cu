// Kernels for float64.

#include "reduce.h"

REDUCE(Float64, u64, float64)
DIVIDE(Float64, double, float64)
