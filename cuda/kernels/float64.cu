// Kernels for float64.

#include "reduce.h"

REDUCE(sum, Float64, float64)
REDUCE(prod, Float64, float64)
REDUCE(min, Float64, float64)
REDUCE(max, Float64, float64)
MULTIPLY(Float64, u64, float64)
DIVIDE(Float64, double, float64)
