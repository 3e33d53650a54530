// The host side of a kernel source, as cuda/kernels/device.h gives it, in few
// lines: the names that the fake driver looks up.
#pragma once
#include <stddef.h>

struct treerun_kernel {
	const char *name;
	void (*run)(const void *args);
	size_t args_size;
};

struct treerun_index {
	unsigned x, y, z;
};

extern "C" {
__attribute__((visibility("default"))) thread_local treerun_index threadIdx, blockIdx, blockDim, gridDim;
extern __attribute__((visibility("default"))) treerun_kernel treerun_kernels[];
}

#define KERNEL(name, Args)                                                                                 \
	static void name(const Args &a);                                                                   \
	treerun_kernel treerun_kernels[] = {                                                               \
		{#name, [](const void *a) { name(*(const Args *)a); }, sizeof(Args)}, {nullptr, nullptr, 0}}; \
	static void name(const Args &a)
