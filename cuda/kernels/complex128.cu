// Kernels for complex128.

#include "reduce.h"

REDUCE_WIDE(Complex128, complex128)
DIVIDE(Complex128, double, complex128)
