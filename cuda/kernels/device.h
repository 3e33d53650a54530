// What a kernel needs of its compiler, in place of the headers of the CUDA
// toolkit. A file that includes this one compiles for two machines:
//
//   - clang --cuda-device-only makes PTX of it, for GPUs;
//   - with TREERUN_HOST, a compiler of C++17 makes ordinary functions of it, for
//     tests without a GPU. Whoever runs them sets threadIdx and so on, calls the
//     function once per thread of every block, and gets the same bits.
//
// So kernels may not rely on threads that run at the same time: no barriers, no
// shared memory, no talk within a warp. Each takes one structure by value.
//
// Compile with -ffp-contract=off: a * b + c is rounded twice on either machine.

#ifndef TREERUN_DEVICE_H
#define TREERUN_DEVICE_H

typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef int i32;
typedef unsigned u32;
typedef long long i64;
typedef unsigned long long u64;

#if defined(TREERUN_HOST)

#include <stddef.h>
#pragma GCC optimize("fp-contract=off")

#define GLOBAL
#define UNROLL
#define ROLLED
#define DEVICE static inline
#define DEVICE_MEMBER inline

// A kernel of this library, as whoever runs it finds it.
struct treerun_kernel {
	const char *name;
	void (*run)(const void *args);
	size_t args_size;
};

struct treerun_index {
	unsigned x, y, z;
};

// The same objects for all files of a library: the kernels, ended by a null
// name, and which thread the running one is.
#define TREERUN_SHARED inline __attribute__((used, visibility("default")))
extern "C" {
TREERUN_SHARED thread_local treerun_index threadIdx, blockIdx, blockDim, gridDim;
TREERUN_SHARED treerun_kernel treerun_kernels[256];
}

struct treerun_entry {
	treerun_entry(const char *name, void (*run)(const void *), size_t size) {
		treerun_kernel *k = treerun_kernels;
		while (k->name)
			k++;
		if (k < treerun_kernels + sizeof treerun_kernels / sizeof *treerun_kernels - 1)
			*k = {name, run, size};
	}
};

#define KERNEL(name, Args) \
	extern "C" void name(const Args &a); \
	static const treerun_entry name##_entry(#name, [](const void *a) { name(*(const Args *)a); }, sizeof(Args)); \
	extern "C" void name(const Args &a)

DEVICE u32 block_number() { return blockIdx.x; }
DEVICE u32 block_count() { return gridDim.x; }
DEVICE u32 block_thread() { return threadIdx.x; }
DEVICE u32 block_threads() { return blockDim.x; }

#else

#define GLOBAL __attribute__((address_space(1)))
#define UNROLL _Pragma("unroll") // arrays stay in registers
#define ROLLED _Pragma("nounroll") // short code, and fewer registers
#define DEVICE static inline __attribute__((device, always_inline))
#define DEVICE_MEMBER inline __attribute__((device, always_inline))
#define KERNEL(name, Args) \
	extern "C" __attribute__((global, launch_bounds(256))) void name(const Args a)

DEVICE u32 block_number() { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE u32 block_count() { return __nvvm_read_ptx_sreg_nctaid_x(); }
DEVICE u32 block_thread() { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE u32 block_threads() { return __nvvm_read_ptx_sreg_ntid_x(); }

#endif

DEVICE u64 thread_number() { return (u64)block_number() * block_threads() + block_thread(); }
DEVICE u64 thread_count() { return (u64)block_count() * block_threads(); }

// Memory of a device, by its address: the host knows pointers there as numbers.
typedef u64 Addr;

template <class T> DEVICE T load(Addr at) { return *(const GLOBAL T *)at; }
template <class T> DEVICE void store(Addr at, T value) { *(GLOBAL T *)at = value; }

// 16 bytes, the most that a thread moves at once. The address is a multiple of 16.
struct alignas(16) Vector {
	u32 word[4];
};

typedef u32 v4 __attribute__((vector_size(16)));

DEVICE Vector load_vector(Addr at) {
	v4 x = *(const GLOBAL v4 *)at;
	return Vector{{x[0], x[1], x[2], x[3]}};
}
DEVICE void store_vector(Addr at, Vector v) {
	v4 x = {v.word[0], v.word[1], v.word[2], v.word[3]};
	*(GLOBAL v4 *)at = x;
}

// The bits of one type as another of the same size.
template <class To, class From> DEVICE To bits(From from) {
	static_assert(sizeof(To) == sizeof(From), "sizes differ");
	To to;
	__builtin_memcpy(&to, &from, sizeof to);
	return to;
}

#endif
