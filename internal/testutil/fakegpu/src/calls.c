#define _GNU_SOURCE
#include "driver.h"

static _Atomic bool initialized;
_Thread_local bool in_host_function;

CUresult begin_call(const char *name, _Atomic unsigned *count, enum need need) {
    if (!topology())
        return CUDA_ERROR_STUB_LIBRARY;
    if (in_host_function)
        return CUDA_ERROR_NOT_PERMITTED;
    if (need > NEED_NOTHING && !initialized)
        return CUDA_ERROR_NOT_INITIALIZED;
    struct context *c = initialized ? current_context() : NULL;
    unsigned n = atomic_fetch_add(count, 1) + 1;
    CUresult error = injected_failure(name, n, c ? c->gpu : -1);
    if (error != CUDA_SUCCESS)
        return error;
    if (c)
        count_for_loss(c->gpu);
    if (need < NEED_CONTEXT)
        return CUDA_SUCCESS;
    return c ? context_error(c) : CUDA_ERROR_INVALID_CONTEXT;
}

API CUresult cuInit(unsigned flags) {
    BEGIN("cuInit", NEED_NOTHING);
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (setting("TREERUN_FAKE_GPU_NO_PERMISSION"))
        return CUDA_ERROR_OPERATING_SYSTEM; /* as with device files that cannot be opened */
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&once);
    if (!initialized) {
        start_devices();
        if (device_count() == 0)
            result = CUDA_ERROR_NO_DEVICE;
        else if (!board_join())
            result = CUDA_ERROR_OPERATING_SYSTEM;
        else
            initialized = true;
    }
    pthread_mutex_unlock(&once);
    return result;
}

API CUresult cuDriverGetVersion(int *version) {
    BEGIN("cuDriverGetVersion", NEED_NOTHING);
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = driver_version();
    return CUDA_SUCCESS;
}
