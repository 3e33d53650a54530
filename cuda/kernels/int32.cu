// Kernels for int32 and uint32.

#include "reduce.h"

typedef Integer<i32, u32> Integer32;

REDUCE(Integer32, u32, int32)
DIVIDE_INTEGERS(i32, u32, int32)
DIVIDE_INTEGERS(u32, u32, uint32)
