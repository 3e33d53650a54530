// The kernel of fill.ptx as the fake GPU runs it: an ordinary function, called
// for every thread of every block.
#include <stddef.h>

struct treerun_kernel {
	const char *name;
	void (*run)(const void *args);
	size_t args_size;
};

struct treerun_index {
	unsigned x, y, z;
};

struct FillArgs {
	unsigned long long to;
	unsigned n, value;
};

extern "C" {
__attribute__((visibility("default"))) thread_local treerun_index threadIdx, blockIdx, blockDim, gridDim;
extern __attribute__((visibility("default"))) treerun_kernel treerun_kernels[];
}

static void fill(const void *args) {
	const FillArgs &a = *(const FillArgs *)args;
	for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += gridDim.x * blockDim.x)
		((unsigned *)a.to)[i] = a.value;
}

treerun_kernel treerun_kernels[] = {{"fill", fill, sizeof(FillArgs)}, {nullptr, nullptr, 0}};
