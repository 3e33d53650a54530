// Kernels for complex64.

#include "reduce.h"

REDUCE(Complex64, u64, complex64)
DIVIDE(Complex64, float, complex64)
