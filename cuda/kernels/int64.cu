// Kernels for int64 and uint64.

#include "reduce.h"

REDUCE(sum, Integer<u64>, uint64)
REDUCE(prod, Integer<u64>, uint64)
REDUCE(min, Integer<i64>, int64)
REDUCE(max, Integer<i64>, int64)
REDUCE(min, Integer<u64>, uint64)
REDUCE(max, Integer<u64>, uint64)
MULTIPLY(Integer<u64>, u64, uint64)
DIVIDE_INTEGERS(i64, u64, int64)
DIVIDE_INTEGERS(u64, u64, uint64)
