#define _GNU_SOURCE
#include "driver.h"

#include <stdlib.h>
#include <string.h>

/* One end of a copy. Memory that the driver does not know is the host's own, which is copied through a staging
 * buffer. */
struct end {
    uintptr_t p;
    int gpu;
    bool pageable;
};

/* Looks up n bytes at p. May it be any host memory, or must the device know it? */
static bool look_up(uintptr_t p, size_t n, bool any, struct end *e) {
    struct mapping m;
    *e = (struct end){p, -1, false};
    if (find_mapping(p, n, &m)) {
        e->gpu = m.gpu;
        return true;
    }
    e->pageable = any && !in_reserved_range(p) && !overlaps_mapping(p, n);
    return e->pageable;
}

static CUresult copy(struct stream *s, struct end to, struct end from, size_t n) {
    struct operation o = {.kind = DO_COPY};
    o.copy.to = to.p;
    o.copy.from = from.p;
    o.copy.n = n;
    o.copy.to_gpu = to.gpu;
    o.copy.from_gpu = from.gpu;
    if (from.pageable && !to.pageable) { /* the caller may reuse it at once */
        o.copy.staging = malloc(n);
        if (!o.copy.staging)
            return CUDA_ERROR_OUT_OF_MEMORY;
        memcpy(o.copy.staging, (void *)from.p, n);
        o.copy.from = (uintptr_t)o.copy.staging;
    }
    CUresult result = submit(s, &o);
    if (result != CUDA_SUCCESS) {
        free(o.copy.staging);
        return result;
    }
    if (to.pageable) { /* the caller may read it at once */
        wait_completed(s, submitted(s));
        return context_error(s->context);
    }
    return CUDA_SUCCESS;
}

/* The ends that may be any host memory. */
enum { NEITHER = 0, TO_ANY = 1, FROM_ANY = 2 };

static CUresult start_copy(uintptr_t to, uintptr_t from, size_t n, CUstream stream, unsigned any) {
    struct stream *s = resolve_stream(stream);
    struct end a, b;
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (n == 0)
        return CUDA_SUCCESS;
    if (!look_up(to, n, any & TO_ANY, &a) || !look_up(from, n, any & FROM_ANY, &b))
        return CUDA_ERROR_INVALID_VALUE;
    return copy(s, a, b, n);
}

/* Without peer access the real driver copies through the host, so this is no error here either. */
API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream stream) {
    BEGIN("cuMemcpyAsync", NEED_CONTEXT);
    return start_copy(to, from, n, stream, TO_ANY | FROM_ANY);
}

API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream stream) {
    BEGIN("cuMemcpyHtoDAsync", NEED_CONTEXT);
    return start_copy(to, (uintptr_t)from, n, stream, FROM_ANY);
}

API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream stream) {
    BEGIN("cuMemcpyDtoHAsync", NEED_CONTEXT);
    return start_copy((uintptr_t)to, from, n, stream, TO_ANY);
}

API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream stream) {
    BEGIN("cuMemcpyDtoDAsync", NEED_CONTEXT);
    return start_copy(to, from, n, stream, NEITHER);
}

API CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t n, CUstream stream) {
    BEGIN("cuMemcpyPeerAsync", NEED_CONTEXT);
    if (!valid_context(to_context) || !valid_context(from_context))
        return CUDA_ERROR_INVALID_CONTEXT;
    struct mapping a, b;
    if (n > 0 && (!find_mapping(to, n, &a) || !find_mapping(from, n, &b) || a.gpu != to_context->gpu || b.gpu != from_context->gpu))
        return CUDA_ERROR_INVALID_VALUE;
    return start_copy(to, from, n, stream, NEITHER);
}

API CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream stream) {
    BEGIN("cuMemsetD8Async", NEED_CONTEXT);
    struct stream *s = resolve_stream(stream);
    struct mapping m;
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (n == 0)
        return CUDA_SUCCESS;
    if (!find_mapping(to, n, &m) || !accessible(&m, s->context))
        return CUDA_ERROR_INVALID_VALUE;
    struct operation o = {.kind = DO_SET, .set = {to, n, value}};
    return submit(s, &o);
}
