// Kernels for int8 and uint8.

#include "reduce.h"

REDUCE(sum, Integer<u8>, uint8)
REDUCE(prod, Integer<u8>, uint8)
REDUCE(min, Integer<i8>, int8)
REDUCE(max, Integer<i8>, int8)
REDUCE(min, Integer<u8>, uint8)
REDUCE(max, Integer<u8>, uint8)
MULTIPLY(Integer<u8>, u8, uint8)
DIVIDE_INTEGERS(i8, u32, int8)
DIVIDE_INTEGERS(u8, u32, uint8)
