// Kernels for int8 and uint8.

#include "reduce.h"

typedef Integer<i8, u8> Integer8;

REDUCE(Integer8, u8, int8)
DIVIDE_INTEGERS(i8, u32, int8)
DIVIDE_INTEGERS(u8, u32, uint8)
