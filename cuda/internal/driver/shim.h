// The functions that Go calls: one per entry point of the driver. Those that
// take a context make it the current one of this thread first, and the one before it
// last, within the same call, since a goroutine may be on another thread the next time. They return
// the driver's result, plus TREERUN_NO_CONTEXT when the context could not
// be made current. Nothing here keeps a pointer or allocates.

#ifndef TREERUN_CUDA_SHIM_H
#define TREERUN_CUDA_SHIM_H

#include "abi.h"

enum { TREERUN_NO_CONTEXT = 1 << 20 };

typedef struct {
    CUresult result;
    uint64_t value;
} treerun_cuda_value; // a result, and the value on success

typedef struct {
    CUresult result;
    uint64_t a, b;
} treerun_cuda_pair;

// The driver's description of a device.
typedef struct {
    CUresult result;  // of the first call that failed
    const char *call; // and its name
    CUdevice device;
    char name[256], pci[64];
    CUuuid uuid;
    size_t memory;
    int multiprocessors;
} treerun_cuda_device;

// The driver's description of an address.
typedef struct {
    CUresult result;
    uint32_t memory_type; // 0: not known to the driver, 1 host, 2 device
    uint32_t managed;
    int32_t device;
    uint32_t exportable; // by cuIpcGetMemHandle
    uint32_t pooled;     // memory of a pool
    uint64_t start, size;
    uint64_t id; // of the allocation: no other of this process ever has it
} treerun_cuda_pointer;

// treerun_cuda_open loads the library and looks up all entry points. 0 is
// success; otherwise text is the reason, and *result the result of the call that
// failed, 0 without one. *version is the driver's, 12040 for CUDA 12.4, 0 if not
// known.
int treerun_cuda_open(const char *library, int *version, CUresult *result, char *text, size_t size);
void treerun_cuda_error(CUresult code, const char **name, const char **text);

treerun_cuda_value treerun_cuda_device_count(void);
treerun_cuda_device treerun_cuda_device_describe(int ordinal);
treerun_cuda_value treerun_cuda_device_can_access(CUdevice d, CUdevice peer);
treerun_cuda_value treerun_cuda_context_retain(CUdevice d);
CUresult treerun_cuda_context_release(CUdevice d);
CUresult treerun_cuda_enable_peer(uintptr_t c, uintptr_t peer);

treerun_cuda_pair treerun_cuda_memory_info(uintptr_t c); // free, total
treerun_cuda_value treerun_cuda_alloc(uintptr_t c, size_t n);
CUresult treerun_cuda_free(uintptr_t c, uint64_t address);
treerun_cuda_value treerun_cuda_alloc_pooled(uintptr_t c, uintptr_t s, size_t n);
CUresult treerun_cuda_free_pooled(uintptr_t c, uintptr_t s, uint64_t address);
treerun_cuda_value treerun_cuda_host_alloc(uintptr_t c, size_t n);
CUresult treerun_cuda_host_free(uintptr_t c, void *p);
CUresult treerun_cuda_host_register(uintptr_t c, void *p, size_t n);
CUresult treerun_cuda_host_unregister(uintptr_t c, void *p);
treerun_cuda_value treerun_cuda_host_address(uintptr_t c, void *p);
treerun_cuda_pair treerun_cuda_address_range(uintptr_t c, uint64_t address); // base, size
treerun_cuda_pointer treerun_cuda_pointer_of(uintptr_t c, uint64_t address);

CUresult treerun_cuda_copy(uintptr_t c, uint64_t dst, uint64_t src, size_t n, uintptr_t s);
CUresult treerun_cuda_copy_in(uintptr_t c, uint64_t dst, const void *src, size_t n, uintptr_t s);
CUresult treerun_cuda_copy_out(uintptr_t c, void *dst, uint64_t src, size_t n, uintptr_t s);
CUresult treerun_cuda_set(uintptr_t c, uint64_t dst, unsigned char v, size_t n, uintptr_t s);

treerun_cuda_value treerun_cuda_stream_create(uintptr_t c, int priority);
CUresult treerun_cuda_stream_destroy(uintptr_t c, uintptr_t s);
CUresult treerun_cuda_stream_query(uintptr_t c, uintptr_t s);
CUresult treerun_cuda_stream_uncaptured(uintptr_t c, uintptr_t s); // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED where it is captured
treerun_cuda_value treerun_cuda_stream_context(uintptr_t c, uintptr_t s);
CUresult treerun_cuda_stream_wait_event(uintptr_t c, uintptr_t s, uintptr_t e);

// An operation writes the value to the address, or waits for it: MemOp of Go's.
typedef struct {
    uint64_t address;
    uint32_t value;
    uint8_t wait;
} treerun_cuda_mem_op;

// treerun_cuda_stream_batch runs n operations in their order.
enum { TREERUN_MAX_BATCH = 64 };
CUresult treerun_cuda_stream_batch(uintptr_t c, uintptr_t s, unsigned n, const treerun_cuda_mem_op *op);

treerun_cuda_value treerun_cuda_event_create(uintptr_t c, unsigned flags);
CUresult treerun_cuda_event_destroy(uintptr_t c, uintptr_t e);
CUresult treerun_cuda_event_record(uintptr_t c, uintptr_t e, uintptr_t s);
CUresult treerun_cuda_event_query(uintptr_t c, uintptr_t e);
CUresult treerun_cuda_event_elapsed(uintptr_t c, float *ms, uintptr_t from, uintptr_t to);

// Handles are 64 bytes.
CUresult treerun_cuda_memory_export(uintptr_t c, uint64_t base, unsigned char *handle);
treerun_cuda_value treerun_cuda_memory_open(uintptr_t c, const unsigned char *handle);
CUresult treerun_cuda_memory_close(uintptr_t c, uint64_t address);

// image ends with a zero byte. log gets the messages of the driver's compiler.
treerun_cuda_value treerun_cuda_module_load(uintptr_t c, const char *image, char *log, unsigned size);
CUresult treerun_cuda_module_unload(uintptr_t c, uintptr_t m);
treerun_cuda_value treerun_cuda_module_function(uintptr_t c, uintptr_t m, const char *name);
CUresult treerun_cuda_function_load(uintptr_t c, uintptr_t f);

// The kernel's only parameter is the struct of size bytes at args.
enum { TREERUN_MAX_ARGS = 4096 };
CUresult treerun_cuda_launch(uintptr_t c, uintptr_t s, uintptr_t f, unsigned grid, unsigned block, const void *args, size_t size);

#endif
