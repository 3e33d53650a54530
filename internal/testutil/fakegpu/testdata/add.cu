// A kernel for the tests of the fake GPU itself: to[i] = a[i] + b[i] + n.
#include "fake.h"

struct AddArgs {
	unsigned long long to, a, b;
	unsigned n, pad;
};

KERNEL(add, AddArgs) {
	for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += gridDim.x * blockDim.x)
		((int *)a.to)[i] = ((const int *)a.a)[i] + ((const int *)a.b)[i] + (int)a.n;
}
