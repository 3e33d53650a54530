#define _GNU_SOURCE
#include "driver.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static CUresult allocate(enum memory_kind kind, CUdeviceptr *address, size_t size, struct context *c) {
    if (!address || size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    uintptr_t base;
    CUresult result = map_device_memory(kind, c, size, &base);
    if (result == CUDA_SUCCESS)
        *address = base;
    return result;
}

API CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size) {
    BEGIN("cuMemAlloc", NEED_CONTEXT);
    return allocate(MEMORY_DEVICE, address, size, current_context());
}

/* Waits, as the real driver does, for all work that may touch the memory. */
static void wait_for_users(const struct mapping *m) {
    for (int i = 0; i < device_count(); i++) {
        struct context *c = context_at(i);
        if (valid_context(c) && (m->gpu < 0 || accessible(m, c)))
            drain_context(c);
    }
}

static CUresult release(uintptr_t p, unsigned kinds, CUresult missing) {
    struct mapping m;
    if (!find_mapping(p, 1, &m) || m.base != p || !(kinds & 1u << m.kind))
        return missing;
    wait_for_users(&m);
    return drop_mapping(p, kinds) ? CUDA_SUCCESS : missing;
}

API CUresult cuMemFree_v2(CUdeviceptr address) {
    BEGIN("cuMemFree", NEED_CONTEXT);
    if (address == 0)
        return CUDA_SUCCESS;
    return release(address, 1 << MEMORY_DEVICE | 1 << MEMORY_POOL, CUDA_ERROR_INVALID_VALUE);
}

/* Memory of a pool: like other memory, but no process can export it. */
API CUresult cuMemAllocAsync(CUdeviceptr *address, size_t size, CUstream stream) {
    BEGIN("cuMemAllocAsync", NEED_CONTEXT);
    struct stream *s = resolve_stream(stream);
    return s ? allocate(MEMORY_POOL, address, size, s->context) : CUDA_ERROR_INVALID_HANDLE;
}

/* Waits for the earlier work, which a real driver does not. */
API CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    BEGIN("cuMemFreeAsync", NEED_CONTEXT);
    if (!resolve_stream(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    return release(address, 1 << MEMORY_POOL, CUDA_ERROR_INVALID_VALUE);
}

API CUresult cuMemHostAlloc(void **p, size_t size, unsigned flags) {
    BEGIN("cuMemHostAlloc", NEED_CONTEXT);
    if (!p || size == 0 || flags & ~(unsigned)CU_MEMHOSTALLOC_ALL)
        return CUDA_ERROR_INVALID_VALUE;
    uintptr_t base;
    CUresult result = map_host_memory(MEMORY_PINNED, current_context(), NULL, size, &base);
    if (result == CUDA_SUCCESS)
        *p = (void *)base;
    return result;
}

API CUresult cuMemFreeHost(void *p) {
    BEGIN("cuMemFreeHost", NEED_CONTEXT);
    return release((uintptr_t)p, 1 << MEMORY_PINNED, CUDA_ERROR_INVALID_VALUE);
}

/* Reports whether all pages of [p, p+n) are mapped. */
static bool pages_exist(uintptr_t p, size_t n) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = p / page * page;
    return p + n >= p && msync((void *)start, p + n - start, MS_ASYNC) == 0;
}

API CUresult cuMemHostRegister_v2(void *p, size_t size, unsigned flags) {
    BEGIN("cuMemHostRegister", NEED_CONTEXT);
    if (!p || size == 0 || flags & ~(unsigned)CU_MEMHOSTREGISTER_ALL || in_reserved_range((uintptr_t)p) || !pages_exist((uintptr_t)p, size))
        return CUDA_ERROR_INVALID_VALUE;
    uintptr_t base;
    return map_host_memory(MEMORY_REGISTERED, current_context(), p, size, &base);
}

API CUresult cuMemHostUnregister(void *p) {
    BEGIN("cuMemHostUnregister", NEED_CONTEXT);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    return release((uintptr_t)p, 1 << MEMORY_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

/* Host memory has the same address on the device. */
API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *p, unsigned flags) {
    BEGIN("cuMemHostGetDevicePointer", NEED_CONTEXT);
    struct mapping m;
    if (!address || flags != 0 || !find_mapping((uintptr_t)p, 1, &m) || m.gpu >= 0)
        return CUDA_ERROR_INVALID_VALUE;
    *address = (uintptr_t)p;
    return CUDA_SUCCESS;
}

API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address) {
    BEGIN("cuMemGetAddressRange", NEED_CONTEXT);
    struct mapping m;
    if (!find_mapping(address, 1, &m))
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = m.base;
    if (size)
        *size = m.size;
    return CUDA_SUCCESS;
}

/* Writes one attribute of memory m, or its value for memory that the driver does not know (m NULL). Returns false
 * for an unknown attribute. */
static bool attribute(void *data, int which, CUdeviceptr address, const struct mapping *m) {
    bool device = m && m->gpu >= 0;
    struct context *owner = device ? context_of_gpu(m->gpu) : m ? m->context : NULL;
    switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext *)data = m ? m->context : NULL; break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *(unsigned *)data = device ? CU_MEMORYTYPE_DEVICE : m ? CU_MEMORYTYPE_HOST : 0; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr *)data = m ? address : 0; break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER: *(void **)data = m && !device ? (void *)(uintptr_t)address : NULL; break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(uint64_t *)data = m ? m->id : 0; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data = owner ? owner->ordinal : CU_DEVICE_INVALID; break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: *(int *)data = m && m->kind == MEMORY_DEVICE; break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr *)data = m ? m->base : 0; break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)data = m ? m->size : 0; break;
    case CU_POINTER_ATTRIBUTE_MAPPED: *(int *)data = m != NULL; break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(int *)data = 0; break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: *(uint64_t *)data = 0; break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: *(void **)data = m && m->kind == MEMORY_POOL ? m->context : NULL; break;
    default: return false;
    }
    return true;
}

API CUresult cuPointerGetAttribute(void *data, int which, CUdeviceptr address) {
    BEGIN("cuPointerGetAttribute", NEED_CONTEXT);
    struct mapping m;
    if (!data || !find_mapping(address, 1, &m) || !attribute(data, which, address, &m))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* Unlike cuPointerGetAttribute it has an answer for any address. */
API CUresult cuPointerGetAttributes(unsigned n, int *which, void **data, CUdeviceptr address) {
    BEGIN("cuPointerGetAttributes", NEED_CONTEXT);
    struct mapping m;
    bool found = find_mapping(address, 1, &m);
    if (n == 0 || !which || !data)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n; i++) {
        if (!data[i] || !attribute(data[i], which[i], address, found ? &m : NULL))
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}
