// Kernels for int64 and uint64.

#include "reduce.h"

typedef Integer<i64, u64> Integer64;

REDUCE(Integer64, u64, int64)
DIVIDE_INTEGERS(i64, u64, int64)
DIVIDE_INTEGERS(u64, u64, uint64)
