// What treerun needs to know of libcuda.so.1's binary interface, in its own
// words: types, numbers and entry points of the CUDA Driver API as of CUDA
// 12.0, 64-bit. NVIDIA's header is not needed. Numbers never change once
// published; where a function got a second form, the number of its form is in
// the exported name (_v2), which ENTRIES lists.

#ifndef TREERUN_CUDA_ABI_H
#define TREERUN_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult; // an enum in C: 4 bytes
typedef int CUdevice;
typedef unsigned long long CUdeviceptr; // 8 bytes
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;

typedef struct {
    char bytes[16];
} CUuuid;

// A handle of memory that other processes can open: 64 bytes, handed over by
// value.
typedef struct {
    char reserved[64];
} CUipcMemHandle;

// One operation of cuStreamBatchMemOp. Both of the kinds used here have this
// form; the whole is as large as 6 words of 64 bits.
typedef union {
    struct {
        int operation;
        CUdeviceptr address;
        uint64_t value; // the low half, for 32 bits on a little-endian host
        unsigned int flags;
        CUdeviceptr alias;
    } value;
    uint64_t pad[6];
} CUstreamBatchMemOpParams;

_Static_assert(sizeof(void *) == 8 && sizeof(size_t) == 8, "a 64-bit system");
_Static_assert(sizeof(CUdeviceptr) == 8, "an address has 64 bits");
_Static_assert(sizeof(CUuuid) == 16 && sizeof(CUipcMemHandle) == 64, "sizes of handles");
_Static_assert(sizeof(CUstreamBatchMemOpParams) == 48, "6 words");
_Static_assert(offsetof(CUstreamBatchMemOpParams, value.address) == 8 && offsetof(CUstreamBatchMemOpParams, value.value) == 16 &&
                   offsetof(CUstreamBatchMemOpParams, value.flags) == 24 && offsetof(CUstreamBatchMemOpParams, value.alias) == 32,
               "layout of an operation");

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
};

enum { CU_STREAM_NON_BLOCKING = 1 };

enum { CU_EVENT_DEFAULT = 0, CU_EVENT_DISABLE_TIMING = 2 };

enum { CU_STREAM_WAIT_VALUE_GEQ = 0, CU_STREAM_WRITE_VALUE_DEFAULT = 0 };

enum { CU_STREAM_MEM_OP_WAIT_VALUE_32 = 1, CU_STREAM_MEM_OP_WRITE_VALUE_32 = 2 };

enum { CU_MEMHOSTALLOC_PORTABLE = 1, CU_MEMHOSTALLOC_DEVICEMAP = 2 };

enum { CU_MEMHOSTREGISTER_PORTABLE = 1, CU_MEMHOSTREGISTER_DEVICEMAP = 2 };

enum { CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1 };

enum { CU_JIT_ERROR_LOG_BUFFER = 5, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6 };

enum {
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
};

enum {
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
    CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,
    CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
    CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10,
    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
    CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
    CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17,
};

// LOADERS lists the functions that are found by their exported names, and LATER_LOADERS one that
// older drivers do not have. The others are found through them, with this form: X(name for
// cuGetProcAddress, exported name, CUDA version that brought this form, parameters).
#define LOADERS(X)                                             \
    X(cuInit, cuInit, 2000, (unsigned int))                    \
    X(cuDriverGetVersion, cuDriverGetVersion, 2020, (int *))   \
    X(cuGetProcAddress, cuGetProcAddress, 11030, (const char *, void **, int, uint64_t))
#define LATER_LOADERS(X) X(cuGetProcAddress, cuGetProcAddress_v2, 12000, (const char *, void **, int, uint64_t, int *))

// ENTRIES lists the functions that are looked up. All of them must be there.
#define MINIMUM_VERSION 11070 // R515, the oldest driver whose streams wait for memory as they do here
#define ABI_VERSION 12000     // the version whose forms cuGetProcAddress returns

#define ENTRIES(X)                                                                                                                       \
    X(cuGetErrorName, cuGetErrorName, 6000, (CUresult, const char **))                                                                   \
    X(cuGetErrorString, cuGetErrorString, 6000, (CUresult, const char **))                                                               \
    X(cuDeviceGetCount, cuDeviceGetCount, 2000, (int *))                                                                                 \
    X(cuDeviceGet, cuDeviceGet, 2000, (CUdevice *, int))                                                                                 \
    X(cuDeviceGetName, cuDeviceGetName, 2000, (char *, int, CUdevice))                                                                   \
    X(cuDeviceGetUuid, cuDeviceGetUuid_v2, 11040, (CUuuid *, CUdevice))                                                                  \
    X(cuDeviceTotalMem, cuDeviceTotalMem_v2, 3020, (size_t *, CUdevice))                                                                 \
    X(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000, (int *, int, CUdevice))                                                          \
    X(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, 4010, (char *, int, CUdevice))                                                           \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, (CUcontext *, CUdevice))                                                 \
    X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, 11000, (CUdevice))                                                        \
    X(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, 4000, (int *, CUdevice, CUdevice))                                                   \
    X(cuCtxPushCurrent, cuCtxPushCurrent_v2, 4000, (CUcontext))                                                                          \
    X(cuCtxPopCurrent, cuCtxPopCurrent_v2, 4000, (CUcontext *))                                                                          \
    X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000, (CUcontext, unsigned int))                                                     \
    X(cuMemGetInfo, cuMemGetInfo_v2, 3020, (size_t *, size_t *))                                                                         \
    X(cuMemAlloc, cuMemAlloc_v2, 3020, (CUdeviceptr *, size_t))                                                                          \
    X(cuMemFree, cuMemFree_v2, 3020, (CUdeviceptr))                                                                                      \
    X(cuMemAllocAsync, cuMemAllocAsync, 11020, (CUdeviceptr *, size_t, CUstream))                                                        \
    X(cuMemFreeAsync, cuMemFreeAsync, 11020, (CUdeviceptr, CUstream))                                                                    \
    X(cuMemHostAlloc, cuMemHostAlloc, 2020, (void **, size_t, unsigned int))                                                             \
    X(cuMemFreeHost, cuMemFreeHost, 2000, (void *))                                                                                      \
    X(cuMemHostRegister, cuMemHostRegister_v2, 6050, (void *, size_t, unsigned int))                                                     \
    X(cuMemHostUnregister, cuMemHostUnregister, 4000, (void *))                                                                          \
    X(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, 3020, (CUdeviceptr *, void *, unsigned int))                              \
    X(cuMemGetAddressRange, cuMemGetAddressRange_v2, 3020, (CUdeviceptr *, size_t *, CUdeviceptr))                                       \
    X(cuPointerGetAttributes, cuPointerGetAttributes, 7000, (unsigned int, int *, void **, CUdeviceptr))                                 \
    X(cuMemcpyAsync, cuMemcpyAsync, 4000, (CUdeviceptr, CUdeviceptr, size_t, CUstream))                                                  \
    X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, 3020, (CUdeviceptr, const void *, size_t, CUstream))                                      \
    X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, 3020, (void *, CUdeviceptr, size_t, CUstream))                                            \
    X(cuMemsetD8Async, cuMemsetD8Async, 3020, (CUdeviceptr, unsigned char, size_t, CUstream))                                            \
    X(cuStreamCreateWithPriority, cuStreamCreateWithPriority, 5050, (CUstream *, unsigned int, int))                                     \
    X(cuStreamDestroy, cuStreamDestroy_v2, 4000, (CUstream))                                                                             \
    X(cuStreamQuery, cuStreamQuery, 2000, (CUstream))                                                                                    \
    X(cuStreamIsCapturing, cuStreamIsCapturing, 10000, (CUstream, int *))                                                                \
    X(cuStreamGetCtx, cuStreamGetCtx, 9020, (CUstream, CUcontext *))                                                                     \
    X(cuStreamWaitEvent, cuStreamWaitEvent, 3020, (CUstream, CUevent, unsigned int))                                                     \
    X(cuStreamBatchMemOp, cuStreamBatchMemOp_v2, 11070, (CUstream, unsigned int, CUstreamBatchMemOpParams *, unsigned int))              \
    X(cuEventCreate, cuEventCreate, 2000, (CUevent *, unsigned int))                                                                     \
    X(cuEventDestroy, cuEventDestroy_v2, 4000, (CUevent))                                                                                \
    X(cuEventRecord, cuEventRecord, 2000, (CUevent, CUstream))                                                                           \
    X(cuEventQuery, cuEventQuery, 2000, (CUevent))                                                                                       \
    X(cuEventElapsedTime, cuEventElapsedTime, 2000, (float *, CUevent, CUevent))                                                         \
    X(cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, (CUipcMemHandle *, CUdeviceptr))                                                       \
    X(cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, 11000, (CUdeviceptr *, CUipcMemHandle, unsigned int))                                   \
    X(cuIpcCloseMemHandle, cuIpcCloseMemHandle, 4010, (CUdeviceptr))                                                                     \
    X(cuModuleLoadDataEx, cuModuleLoadDataEx, 2010, (CUmodule *, const void *, unsigned int, int *, void **))                            \
    X(cuModuleUnload, cuModuleUnload, 2000, (CUmodule))                                                                                  \
    X(cuModuleGetFunction, cuModuleGetFunction, 2000, (CUfunction *, CUmodule, const char *))                                            \
    X(cuLaunchKernel, cuLaunchKernel, 4000,                                                                                              \
      (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, CUstream, void **,  \
       void **))                                                                                                                         \
    X(cuFuncGetAttribute, cuFuncGetAttribute, 2020, (int *, int, CUfunction))

#endif
