//go:build linux

#include "calls.h"

#include <string.h>

treerun_cuda_value treerun_cuda_device_count(void) {
    int n = 0;
    CUresult r = cu.cuDeviceGetCount(&n);
    return value(r, (uint64_t)n);
}

treerun_cuda_device treerun_cuda_device_describe(int ordinal) {
    treerun_cuda_device d = {0};
#define TRY(function, ...)                                       \
    if ((d.result = cu.function(__VA_ARGS__)) != CUDA_SUCCESS) { \
        d.call = #function;                                      \
        return d;                                                \
    }
    TRY(cuDeviceGet, &d.device, ordinal)
    TRY(cuDeviceGetUuid, &d.uuid, d.device)
    TRY(cuDeviceGetName, d.name, sizeof d.name, d.device)
    TRY(cuDeviceGetPCIBusId, d.pci, sizeof d.pci, d.device)
    TRY(cuDeviceTotalMem, &d.memory, d.device)
    TRY(cuDeviceGetAttribute, &d.multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, d.device)
#undef TRY
    return d;
}

treerun_cuda_value treerun_cuda_device_can_access(CUdevice d, CUdevice peer) {
    int can = 0;
    CUresult r = cu.cuDeviceCanAccessPeer(&can, d, peer);
    return value(r, can != 0);
}

treerun_cuda_value treerun_cuda_context_retain(CUdevice d) {
    CUcontext c = NULL;
    CUresult r = cu.cuDevicePrimaryCtxRetain(&c, d);
    return value(r, (uintptr_t)c);
}

CUresult treerun_cuda_context_release(CUdevice d) { return cu.cuDevicePrimaryCtxRelease(d); }

CUresult treerun_cuda_enable_peer(uintptr_t c, uintptr_t peer) {
    IN(c);
    return cu.cuCtxEnablePeerAccess((CUcontext)peer, 0);
}

treerun_cuda_pair treerun_cuda_memory_info(uintptr_t c) {
    PAIR_IN(c);
    size_t available = 0, total = 0;
    r = cu.cuMemGetInfo(&available, &total);
    return (treerun_cuda_pair){r, available, total};
}

treerun_cuda_value treerun_cuda_alloc(uintptr_t c, size_t n) {
    VALUE_IN(c);
    CUdeviceptr p = 0;
    r = cu.cuMemAlloc(&p, n);
    return value(r, p);
}

CUresult treerun_cuda_free(uintptr_t c, uint64_t address) {
    IN(c);
    return cu.cuMemFree(address);
}

treerun_cuda_value treerun_cuda_alloc_pooled(uintptr_t c, uintptr_t s, size_t n) {
    VALUE_IN(c);
    CUdeviceptr p = 0;
    r = cu.cuMemAllocAsync(&p, n, (CUstream)s);
    return value(r, p);
}

CUresult treerun_cuda_free_pooled(uintptr_t c, uintptr_t s, uint64_t address) {
    IN(c);
    return cu.cuMemFreeAsync(address, (CUstream)s);
}

treerun_cuda_value treerun_cuda_host_alloc(uintptr_t c, size_t n) {
    VALUE_IN(c);
    void *p = NULL;
    r = cu.cuMemHostAlloc(&p, n, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    return value(r, (uintptr_t)p);
}

CUresult treerun_cuda_host_free(uintptr_t c, void *p) {
    IN(c);
    return cu.cuMemFreeHost(p);
}

CUresult treerun_cuda_host_register(uintptr_t c, void *p, size_t n) {
    IN(c);
    return cu.cuMemHostRegister(p, n, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
}

CUresult treerun_cuda_host_unregister(uintptr_t c, void *p) {
    IN(c);
    return cu.cuMemHostUnregister(p);
}

treerun_cuda_value treerun_cuda_host_address(uintptr_t c, void *p) {
    VALUE_IN(c);
    CUdeviceptr d = 0;
    r = cu.cuMemHostGetDevicePointer(&d, p, 0);
    return value(r, d);
}

treerun_cuda_pair treerun_cuda_address_range(uintptr_t c, uint64_t address) {
    PAIR_IN(c);
    CUdeviceptr base = 0;
    size_t size = 0;
    r = cu.cuMemGetAddressRange(&base, &size, address);
    return (treerun_cuda_pair){r, base, size};
}

treerun_cuda_pointer treerun_cuda_pointer_of(uintptr_t c, uint64_t address) {
    IN_OR(c, ((treerun_cuda_pointer){.result = r | TREERUN_NO_CONTEXT}));
    unsigned int type = 0;
    int managed = 0, device = -1, exportable = 0;
    CUdeviceptr start = 0;
    size_t size = 0;
    void *pool = NULL;
    unsigned long long id = 0;
    int wanted[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,   CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,   CU_POINTER_ATTRIBUTE_BUFFER_ID,
    };
    // Some answers are one byte wide, whatever their documented type: the rest of each variable is zero before.
    void *answers[] = {&type, &managed, &device, &exportable, &start, &size, &pool, &id};
    r = cu.cuPointerGetAttributes(sizeof wanted / sizeof *wanted, wanted, answers, address);
    return (treerun_cuda_pointer){
        .result = r,
        .memory_type = type,
        .managed = managed != 0,
        .device = device,
        .exportable = exportable != 0,
        .pooled = pool != NULL,
        .start = start,
        .size = size,
        .id = id,
    };
}

CUresult treerun_cuda_copy(uintptr_t c, uint64_t dst, uint64_t src, size_t n, uintptr_t s) {
    IN(c);
    return cu.cuMemcpyAsync(dst, src, n, (CUstream)s);
}

CUresult treerun_cuda_copy_in(uintptr_t c, uint64_t dst, const void *src, size_t n, uintptr_t s) {
    IN(c);
    return cu.cuMemcpyHtoDAsync(dst, src, n, (CUstream)s);
}

CUresult treerun_cuda_copy_out(uintptr_t c, void *dst, uint64_t src, size_t n, uintptr_t s) {
    IN(c);
    return cu.cuMemcpyDtoHAsync(dst, src, n, (CUstream)s);
}

CUresult treerun_cuda_set(uintptr_t c, uint64_t dst, unsigned char v, size_t n, uintptr_t s) {
    IN(c);
    return cu.cuMemsetD8Async(dst, v, n, (CUstream)s);
}

treerun_cuda_value treerun_cuda_stream_create(uintptr_t c, int priority) {
    VALUE_IN(c);
    CUstream s = NULL;
    r = cu.cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, priority);
    return value(r, (uintptr_t)s);
}

CUresult treerun_cuda_stream_destroy(uintptr_t c, uintptr_t s) {
    IN(c);
    return cu.cuStreamDestroy((CUstream)s);
}

CUresult treerun_cuda_stream_query(uintptr_t c, uintptr_t s) {
    IN(c);
    return cu.cuStreamQuery((CUstream)s);
}

CUresult treerun_cuda_stream_uncaptured(uintptr_t c, uintptr_t s) {
    IN(c);
    int status = 0;
    r = cu.cuStreamIsCapturing((CUstream)s, &status);
    return r == CUDA_SUCCESS && status != 0 ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : r;
}

treerun_cuda_value treerun_cuda_stream_context(uintptr_t c, uintptr_t s) {
    VALUE_IN(c);
    CUcontext of = NULL;
    r = cu.cuStreamGetCtx((CUstream)s, &of);
    return value(r, (uintptr_t)of);
}

CUresult treerun_cuda_stream_wait_event(uintptr_t c, uintptr_t s, uintptr_t e) {
    IN(c);
    return cu.cuStreamWaitEvent((CUstream)s, (CUevent)e, 0);
}

CUresult treerun_cuda_stream_batch(uintptr_t c, uintptr_t s, unsigned n, const treerun_cuda_mem_op *op) {
    if (cu.cuStreamBatchMemOp == NULL)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (n > TREERUN_MAX_BATCH)
        return CUDA_ERROR_INVALID_VALUE;
    IN(c);
    CUstreamBatchMemOpParams ops[TREERUN_MAX_BATCH];
    memset(ops, 0, n * sizeof *ops);
    for (unsigned i = 0; i < n; i++) {
        ops[i].value.operation = op[i].wait ? CU_STREAM_MEM_OP_WAIT_VALUE_32 : CU_STREAM_MEM_OP_WRITE_VALUE_32;
        ops[i].value.address = op[i].address;
        ops[i].value.value = op[i].value;
        ops[i].value.flags = op[i].wait ? CU_STREAM_WAIT_VALUE_GEQ : CU_STREAM_WRITE_VALUE_DEFAULT;
    }
    return cu.cuStreamBatchMemOp((CUstream)s, n, ops, 0);
}

treerun_cuda_value treerun_cuda_event_create(uintptr_t c, unsigned flags) {
    VALUE_IN(c);
    CUevent e = NULL;
    r = cu.cuEventCreate(&e, flags);
    return value(r, (uintptr_t)e);
}

CUresult treerun_cuda_event_destroy(uintptr_t c, uintptr_t e) {
    IN(c);
    return cu.cuEventDestroy((CUevent)e);
}

CUresult treerun_cuda_event_record(uintptr_t c, uintptr_t e, uintptr_t s) {
    IN(c);
    return cu.cuEventRecord((CUevent)e, (CUstream)s);
}

CUresult treerun_cuda_event_query(uintptr_t c, uintptr_t e) {
    IN(c);
    return cu.cuEventQuery((CUevent)e);
}

CUresult treerun_cuda_event_elapsed(uintptr_t c, float *ms, uintptr_t from, uintptr_t to) {
    IN(c);
    return cu.cuEventElapsedTime(ms, (CUevent)from, (CUevent)to);
}

CUresult treerun_cuda_memory_export(uintptr_t c, uint64_t base, unsigned char *handle) {
    IN(c);
    CUipcMemHandle h = {{0}};
    r = cu.cuIpcGetMemHandle(&h, base);
    memcpy(handle, h.reserved, sizeof h.reserved);
    return r;
}

treerun_cuda_value treerun_cuda_memory_open(uintptr_t c, const unsigned char *handle) {
    VALUE_IN(c);
    CUipcMemHandle h;
    memcpy(h.reserved, handle, sizeof h.reserved);
    CUdeviceptr p = 0;
    r = cu.cuIpcOpenMemHandle(&p, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    return value(r, p);
}

CUresult treerun_cuda_memory_close(uintptr_t c, uint64_t address) {
    IN(c);
    return cu.cuIpcCloseMemHandle(address);
}

treerun_cuda_value treerun_cuda_module_load(uintptr_t c, const char *image, char *log, unsigned size) {
    VALUE_IN(c);
    CUmodule m = NULL;
    memset(log, 0, size);
    int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(size - 1)};
    r = cu.cuModuleLoadDataEx(&m, image, 2, options, values);
    return value(r, (uintptr_t)m);
}

CUresult treerun_cuda_module_unload(uintptr_t c, uintptr_t m) {
    IN(c);
    return cu.cuModuleUnload((CUmodule)m);
}

treerun_cuda_value treerun_cuda_module_function(uintptr_t c, uintptr_t m, const char *name) {
    VALUE_IN(c);
    CUfunction f = NULL;
    r = cu.cuModuleGetFunction(&f, (CUmodule)m, name);
    return value(r, (uintptr_t)f);
}

CUresult treerun_cuda_function_load(uintptr_t c, uintptr_t f) {
    IN(c);
    int threads = 0;
    return cu.cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, (CUfunction)f);
}

CUresult treerun_cuda_launch(uintptr_t c, uintptr_t s, uintptr_t f, unsigned grid, unsigned block, const void *args, size_t size) {
    // The driver reads as much as the kernel takes: from a buffer that is
    // always large enough, and aligned for any struct.
    _Alignas(16) char buffer[TREERUN_MAX_ARGS];
    if (size > sizeof buffer)
        return CUDA_ERROR_INVALID_VALUE;
    IN(c);
    memcpy(buffer, args, size);
    void *parameters[] = {buffer};
    return cu.cuLaunchKernel((CUfunction)f, grid, 1, 1, block, 1, 1, 0, (CUstream)s, parameters, NULL);
}
