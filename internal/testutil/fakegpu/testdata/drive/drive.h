/* Drives the fake driver as a program does: through dlopen and
 * cuGetProcAddress. Each test is one function; the first result that it does
 * not expect ends the process, with a line that describes it. */
#ifndef DRIVE_H
#define DRIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef unsigned long long Addr;
typedef struct { char b[64]; } Handle; /* of memory or of an event */

/* The calls, by name, result type int: X(name, parameters). */
#define CALLS(X)                                                                                     \
    X(cuInit, (unsigned))                                                                            \
    X(cuDriverGetVersion, (int *))                                                                   \
    X(cuGetErrorName, (int, const char **))                                                          \
    X(cuDeviceGetCount, (int *))                                                                     \
    X(cuDeviceGetName, (char *, int, int))                                                           \
    X(cuDeviceGetPCIBusId, (char *, int, int))                                                       \
    X(cuDeviceGetUuid, (void *, int))                                                                \
    X(cuDeviceGetAttribute, (int *, int, int))                                                       \
    X(cuDeviceCanAccessPeer, (int *, int, int))                                                      \
    X(cuDevicePrimaryCtxRetain, (void **, int))                                                      \
    X(cuDevicePrimaryCtxRelease, (int))                                                              \
    X(cuCtxSetCurrent, (void *))                                                                     \
    X(cuCtxSynchronize, (void))                                                                      \
    X(cuCtxEnablePeerAccess, (void *, unsigned))                                                     \
    X(cuMemGetInfo, (size_t *, size_t *))                                                            \
    X(cuMemAlloc, (Addr *, size_t))                                                                  \
    X(cuMemFree, (Addr))                                                                             \
    X(cuMemAllocAsync, (Addr *, size_t, void *))                                                     \
    X(cuMemHostAlloc, (void **, size_t, unsigned))                                                   \
    X(cuMemFreeHost, (void *))                                                                       \
    X(cuMemHostRegister, (void *, size_t, unsigned))                                                 \
    X(cuMemHostUnregister, (void *))                                                                 \
    X(cuMemHostGetDevicePointer, (Addr *, void *, unsigned))                                         \
    X(cuMemGetAddressRange, (Addr *, size_t *, Addr))                                                \
    X(cuPointerGetAttribute, (void *, int, Addr))                                                    \
    X(cuPointerGetAttributes, (unsigned, int *, void **, Addr))                                      \
    X(cuMemcpyAsync, (Addr, Addr, size_t, void *))                                                   \
    X(cuMemcpyPeerAsync, (Addr, void *, Addr, void *, size_t, void *))                               \
    X(cuMemFreeAsync, (Addr, void *))                                                                \
    X(cuDeviceGetP2PAttribute, (int *, int, int, int))                                               \
    X(cuFuncGetAttribute, (int *, int, void *))                                                      \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *, void *, int, size_t))                     \
    X(cuMemcpyHtoDAsync, (Addr, const void *, size_t, void *))                                       \
    X(cuMemcpyDtoHAsync, (void *, Addr, size_t, void *))                                             \
    X(cuMemcpyDtoDAsync, (Addr, Addr, size_t, void *))                                               \
    X(cuMemsetD8Async, (Addr, unsigned char, size_t, void *))                                        \
    X(cuStreamCreateWithPriority, (void **, unsigned, int))                                          \
    X(cuStreamDestroy, (void *))                                                                     \
    X(cuStreamSynchronize, (void *))                                                                 \
    X(cuStreamQuery, (void *))                                                                       \
    X(cuStreamWaitEvent, (void *, void *, unsigned))                                                 \
    X(cuStreamWaitValue32, (void *, Addr, uint32_t, unsigned))                                       \
    X(cuStreamWriteValue32, (void *, Addr, uint32_t, unsigned))                                      \
    X(cuStreamBatchMemOp, (void *, unsigned, void *, unsigned))                                      \
    X(cuLaunchHostFunc, (void *, void (*)(void *), void *))                                          \
    X(cuEventCreate, (void **, unsigned))                                                            \
    X(cuEventDestroy, (void *))                                                                      \
    X(cuEventRecord, (void *, void *))                                                               \
    X(cuEventQuery, (void *))                                                                        \
    X(cuEventSynchronize, (void *))                                                                  \
    X(cuEventElapsedTime, (float *, void *, void *))                                                 \
    X(cuIpcGetMemHandle, (Handle *, Addr))                                                           \
    X(cuIpcOpenMemHandle, (Addr *, Handle, unsigned))                                                \
    X(cuIpcCloseMemHandle, (Addr))                                                                   \
    X(cuModuleLoadDataEx, (void **, const void *, unsigned, int *, void **))                         \
    X(cuModuleUnload, (void *))                                                                      \
    X(cuModuleGetFunction, (void **, void *, const char *))                                          \
    X(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
                       void *, void **, void **))

#define X(name, parameters) extern int(*name) parameters;
CALLS(X)
#undef X

/* Opens the library; a call that it has not is NULL. */
void open_driver(void);
extern int (*get_address)(const char *, void **, int, uint64_t, int *);

void check(bool ok, const char *file, int line, const char *what, int got);
#define WANT(code, call) do { int got_ = (call); check(got_ == (code), __FILE__, __LINE__, #code " = " #call, got_); } while (0)
#define OK(call) WANT(0, call)
#define THAT(condition) check(condition, __FILE__, __LINE__, #condition, -1)

/* Makes device i current, after cuInit, and returns its context. */
void *use_device(int i);
void *new_stream(void);
void *load_add(void);
/* Launches to = a + b + n on some blocks of 64 threads. */
int launch_add(void *function, void *stream, Addr to, Addr a, Addr b, unsigned n, unsigned blocks);
void fill(Addr to, int value, unsigned n, void *stream); /* n ints, in stream order */
/* The first of n ints that is not value, n if all are. */
unsigned differs(Addr from, int value, unsigned n, void *stream);
void milliseconds(int n); /* sleeps */

struct test {
    const char *name;
    void (*run)(void);
};
extern const struct test single_tests[], shared_tests[], fault_tests[], nvml_tests[];

#endif
