// Kernels for int32 and uint32.

#include "reduce.h"

REDUCE(sum, Integer<u32>, uint32)
REDUCE(prod, Integer<u32>, uint32)
REDUCE(min, Integer<i32>, int32)
REDUCE(max, Integer<i32>, int32)
REDUCE(min, Integer<u32>, uint32)
REDUCE(max, Integer<u32>, uint32)
MULTIPLY(Integer<u32>, u32, uint32)
DIVIDE_INTEGERS(i32, u32, int32)
DIVIDE_INTEGERS(u32, u32, uint32)
