#define _GNU_SOURCE
#include "driver.h"

#include <stdio.h>
#include <string.h>

static const struct gpu *gpu_of(struct context *c) { return &topology()->gpu[c->gpu]; }

API CUresult cuDeviceGetCount(int *count) {
    BEGIN("cuDeviceGetCount", NEED_INIT);
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = device_count();
    return CUDA_SUCCESS;
}

API CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    BEGIN("cuDeviceGet", NEED_INIT);
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (!context_at(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

API CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
    BEGIN("cuDeviceGetName", NEED_INIT);
    struct context *c = context_at(device);
    if (!name || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!c)
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)length, "%s", gpu_of(c)->name);
    return CUDA_SUCCESS;
}

static CUresult uuid_of(CUuuid *uuid, CUdevice device) {
    struct context *c = context_at(device);
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    if (!c)
        return CUDA_ERROR_INVALID_DEVICE;
    memcpy(uuid->bytes, gpu_of(c)->uuid, sizeof uuid->bytes);
    return CUDA_SUCCESS;
}

API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
    BEGIN("cuDeviceGetUuid", NEED_INIT);
    return uuid_of(uuid, device);
}

API CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
    BEGIN("cuDeviceGetUuid", NEED_INIT);
    return uuid_of(uuid, device);
}

API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    BEGIN("cuDeviceTotalMem", NEED_INIT);
    struct context *c = context_at(device);
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (!c)
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = gpu_of(c)->memory;
    return CUDA_SUCCESS;
}

API CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device) {
    BEGIN("cuDeviceGetPCIBusId", NEED_INIT);
    struct context *c = context_at(device);
    if (!id || length < 13)
        return CUDA_ERROR_INVALID_VALUE;
    if (!c)
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(id, (size_t)length, "0000:%02X:00.0", gpu_of(c)->bus);
    return CUDA_SUCCESS;
}

/* Attributes with one value for all GPUs; those that are not listed are 0. */
static const struct {
    int attribute, value;
} attributes[] = {
    {1, 1024},           /* threads per block */
    {2, 1024},           /* block dimensions */
    {3, 1024},
    {4, 64},
    {5, 0x7fffffff},     /* grid dimensions */
    {6, 65535},
    {7, 65535},
    {8, 48 << 10},       /* shared memory per block */
    {9, 64 << 10},       /* constant memory */
    {10, 32},            /* warp */
    {11, 0x7fffffff},    /* pitch */
    {12, 65536},         /* registers per block */
    {13, 1530000},       /* clock, kHz */
    {14, 512},           /* texture alignment */
    {15, 1},             /* overlap */
    {19, 1},             /* can map host memory */
    {31, 1},             /* concurrent kernels */
    {32, 1},             /* ECC */
    {36, 877000},        /* memory clock, kHz */
    {37, 4096},          /* memory bus, bits */
    {38, 6 << 20},       /* L2 cache */
    {39, 2048},          /* threads per multiprocessor */
    {40, 3},             /* copy engines */
    {41, 1},             /* unified addressing */
    {78, 1},             /* stream priorities */
    {79, 1},             /* L1 caches */
    {80, 1},
    {81, 96 << 10},      /* shared memory and registers per multiprocessor */
    {82, 65536},
    {90, 1},             /* compute preemption */
    {91, 1},             /* host pointers are valid for registered memory */
    {95, 1},             /* cooperative launch */
    {97, 96 << 10},      /* maximum shared memory per block */
    {99, 1},             /* cuMemHostRegister */
    {106, 32},           /* blocks per multiprocessor */
    {115, 1},            /* memory pools */
    {125, 1},            /* IPC events */
};

enum { LAST_ATTRIBUTE = 148 };

static int attribute(struct context *c, int which) {
    const struct gpu *g = gpu_of(c);
    switch (which) {
    case 16: return g->processors;
    case 33: return (int)g->bus;
    case 75: return g->major;
    case 76: return g->minor;
    case 92:  /* stream memory operations: of 32 bits, 64 bits, NOR */
    case 93:
    case 94:
    case 122:
    case 123: return !no_memory_operations();
    }
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        if (attributes[i].attribute == which)
            return attributes[i].value;
    }
    return 0;
}

API CUresult cuDeviceGetAttribute(int *value, int which, CUdevice device) {
    BEGIN("cuDeviceGetAttribute", NEED_INIT);
    struct context *c = context_at(device);
    if (!value || which < 1 || which > LAST_ATTRIBUTE)
        return CUDA_ERROR_INVALID_VALUE;
    if (!c)
        return CUDA_ERROR_INVALID_DEVICE;
    *value = attribute(c, which);
    return CUDA_SUCCESS;
}

API CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    BEGIN("cuDeviceCanAccessPeer", NEED_INIT);
    struct context *a = context_at(device), *b = context_at(peer);
    if (!can)
        return CUDA_ERROR_INVALID_VALUE;
    if (!a || !b)
        return CUDA_ERROR_INVALID_DEVICE;
    *can = a != b && topology()->peer[a->gpu][b->gpu];
    return CUDA_SUCCESS;
}

/* The rank of a link among those of its GPU, the fastest first. */
static int rank_of(int a, int b) {
    const struct topology *t = topology();
    int better = 0;
    for (int i = 0; i < t->gpus; i++)
        better += t->rate[a][i] > t->rate[a][b];
    return better;
}

API CUresult cuDeviceGetP2PAttribute(int *value, int which, CUdevice device, CUdevice peer) {
    BEGIN("cuDeviceGetP2PAttribute", NEED_INIT);
    struct context *a = context_at(device), *b = context_at(peer);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (!a || !b || a == b)
        return CUDA_ERROR_INVALID_DEVICE;
    int access = topology()->peer[a->gpu][b->gpu];
    switch (which) {
    case CU_P2P_PERFORMANCE_RANK: *value = access ? rank_of(a->gpu, b->gpu) : 0; break;
    case CU_P2P_ACCESS_SUPPORTED:
    case CU_P2P_CUDA_ARRAY_ACCESS_SUPPORTED: *value = access; break;
    case CU_P2P_NATIVE_ATOMIC_SUPPORTED: *value = access && gpu_of(a)->nvlink_version > 0; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

API CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
    BEGIN("cuMemGetInfo", NEED_CONTEXT);
    if (!free || !total)
        return CUDA_ERROR_INVALID_VALUE;
    struct context *c = current_context();
    uint64_t used = board_used(c->gpu);
    *total = gpu_of(c)->memory;
    *free = used < *total ? *total - used : 0;
    return CUDA_SUCCESS;
}
