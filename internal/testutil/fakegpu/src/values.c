#define _GNU_SOURCE
#include "driver.h"

#include <stdlib.h>
#include <string.h>

/* Returns the error of an operation on a value for a stream of c. */
static CUresult check(const CUstreamBatchMemOpParams *o, struct context *c) {
    bool wait = o->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || o->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
    size_t n = 4;
    switch (o->operation) {
    case CU_STREAM_MEM_OP_BARRIER: return CUDA_SUCCESS; /* operations are ordered anyway */
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: return CUDA_ERROR_NOT_SUPPORTED;
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64: n = 8; break;
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_32: break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    if (wait && o->value.flags & CU_STREAM_WAIT_VALUE_FLUSH)
        return CUDA_ERROR_NOT_SUPPORTED; /* in accordance with attribute 98 of the device */
    struct mapping m;
    if (o->value.flags > (wait ? CU_STREAM_WAIT_VALUE_NOR : 1) || o->value.address % n != 0 || !find_mapping(o->value.address, n, &m) ||
        !accessible(&m, c))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult enqueue(CUstream stream, unsigned n, const CUstreamBatchMemOpParams *list) {
    struct stream *s = resolve_stream(stream);
    if (no_memory_operations())
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    for (unsigned i = 0; i < n; i++) {
        CUresult error = check(&list[i], s->context);
        if (error != CUDA_SUCCESS)
            return error;
    }
    struct operation o = {.kind = DO_VALUES};
    o.values.n = n;
    o.values.list = malloc(n * sizeof *list);
    if (!o.values.list)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(o.values.list, list, n * sizeof *list);
    CUresult result = submit(s, &o);
    if (result != CUDA_SUCCESS)
        free(o.values.list);
    return result;
}

static CUresult one(CUstream stream, int operation, CUdeviceptr address, uint32_t value, unsigned flags) {
    CUstreamBatchMemOpParams o = {.value = {operation, address, value, flags, 0}};
    return enqueue(stream, 1, &o);
}

API CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags) {
    BEGIN("cuStreamWaitValue32", NEED_CONTEXT);
    return one(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags);
}

API CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags) {
    BEGIN("cuStreamWriteValue32", NEED_CONTEXT);
    return one(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags);
}

API CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned n, CUstreamBatchMemOpParams *list, unsigned flags) {
    BEGIN("cuStreamBatchMemOp", NEED_CONTEXT);
    if (n == 0 || n > 256 || !list || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return enqueue(stream, n, list);
}
