#define _GNU_SOURCE
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;

static struct context contexts[MAX_GPUS]; /* one per device: only primary contexts are supported */
static int devices;
static _Thread_local struct context *current;

/* The GPU of an entry of CUDA_VISIBLE_DEVICES: an index, or "GPU-" and the beginning of a UUID. -1 if there is none. */
static int named(const char *word) {
    const struct topology *t = topology();
    int found = -1;
    if (strncmp(word, "GPU-", 4) != 0) {
        char *end;
        long i = strtol(word, &end, 10);
        return end > word && *end == 0 && i >= 0 && i < t->gpus ? (int)i : -1;
    }
    char digits[33] = "";
    size_t n = 0;
    for (const char *p = word + 4; *p && n < 32; p++) {
        if (*p != '-')
            digits[n++] = *p;
    }
    for (int i = 0; i < t->gpus; i++) {
        char uuid[33];
        for (int k = 0; k < 16; k++)
            snprintf(uuid + 2 * k, 3, "%02x", t->gpu[i].uuid[k]);
        if (n == 0 || strncasecmp(uuid, digits, n) != 0)
            continue;
        if (found >= 0)
            return -1; /* two GPUs match */
        found = i;
    }
    return found;
}

static void add_device(int gpu) {
    contexts[devices].gpu = gpu;
    contexts[devices].ordinal = devices;
    pthread_mutex_init(&contexts[devices].submitting, NULL);
    for (int i = 0; i < MAX_QUEUES; i++)
        init_queue(&contexts[devices].queues[i]);
    devices++;
}

/* Devices are the GPUs of CUDA_VISIBLE_DEVICES up to the first wrong entry; a duplicate GPU makes the whole list
 * wrong. */
void start_devices(void) {
    const struct topology *t = topology();
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    devices = 0;
    if (!visible) {
        for (int i = 0; i < t->gpus; i++)
            add_device(i);
        return;
    }
    char *copy = strdup(visible), *rest = copy;
    for (char *word; devices < MAX_GPUS && (word = strsep(&rest, ","));) {
        int gpu = named(word + strspn(word, " "));
        if (gpu < 0)
            break;
        if (context_of_gpu(gpu)) {
            devices = 0;
            break;
        }
        add_device(gpu);
    }
    free(copy);
}

int device_count(void) { return devices; }

struct context *context_at(int ordinal) { return ordinal >= 0 && ordinal < devices ? &contexts[ordinal] : NULL; }

struct context *context_of_gpu(int gpu) {
    for (int i = 0; i < devices; i++) {
        if (contexts[i].gpu == gpu)
            return &contexts[i];
    }
    return NULL;
}

bool valid_context(struct context *c) {
    for (int i = 0; i < devices; i++) {
        if (c == &contexts[i])
            return c->references > 0;
    }
    return false;
}

struct context *current_context(void) { return current && valid_context(current) ? current : NULL; }

void fail_context(struct context *c, CUresult error) {
    int none = CUDA_SUCCESS;
    atomic_compare_exchange_strong(&c->error, &none, error);
}

CUresult context_error(struct context *c) {
    if (atomic_load(&board()->lost[c->gpu]))
        fail_context(c, CUDA_ERROR_UNKNOWN);
    return atomic_load(&c->error);
}

/* Streams are never unmapped and never count backwards, so the lock is not held while it waits. */
void drain_context(struct context *c) {
    enum { MOST = 1024 };
    struct stream *list[MOST];
    uint64_t until[MOST];
    int n = 0;
    pthread_mutex_lock(&contexts_lock);
    for (struct stream *s = c->streams; s && n < MOST; s = s->next) {
        list[n] = s;
        until[n++] = submitted(s);
    }
    pthread_mutex_unlock(&contexts_lock);
    for (int i = 0; i < n; i++)
        wait_completed(list[i], until[i]);
}

API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    BEGIN("cuDevicePrimaryCtxRetain", NEED_INIT);
    struct context *c = context_at(device);
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    if (!c)
        return CUDA_ERROR_INVALID_DEVICE;
    if (atomic_load(&board()->lost[c->gpu]))
        return CUDA_ERROR_UNKNOWN;
    pthread_mutex_lock(&contexts_lock);
    if (c->references++ == 0) {
        slow_teardown();
        atomic_store(&c->error, CUDA_SUCCESS);
        atomic_store(&c->dying, false);
        for (int i = 0; i < MAX_GPUS; i++)
            atomic_store(&c->peers[i], false);
    }
    pthread_mutex_unlock(&contexts_lock);
    catch_faults();
    *context = c;
    return CUDA_SUCCESS;
}

/* The last release destroys the context with all its resources. */
API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    BEGIN("cuDevicePrimaryCtxRelease", NEED_INIT);
    struct context *c = context_at(device);
    if (!c)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&contexts_lock);
    if (c->references == 0) {
        pthread_mutex_unlock(&contexts_lock);
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    bool last = c->references == 1;
    if (last)
        atomic_store(&c->dying, true);
    else
        c->references--;
    pthread_mutex_unlock(&contexts_lock);
    if (last) {
        end_streams(c);
        drop_mappings_of(c);
        pthread_mutex_lock(&contexts_lock);
        c->references--;
        pthread_mutex_unlock(&contexts_lock);
    }
    return CUDA_SUCCESS;
}

API CUresult cuCtxSetCurrent(CUcontext context) {
    BEGIN("cuCtxSetCurrent", NEED_INIT);
    if (context && !valid_context(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    current = context;
    return CUDA_SUCCESS;
}

API CUresult cuCtxGetCurrent(CUcontext *context) {
    BEGIN("cuCtxGetCurrent", NEED_INIT);
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    *context = current_context();
    return CUDA_SUCCESS;
}

/* The contexts below the current one of a thread. */
enum { CONTEXTS_DEEP = 8 };
static _Thread_local struct context *below[CONTEXTS_DEEP];
static _Thread_local int deep;

API CUresult cuCtxPushCurrent_v2(CUcontext context) {
    BEGIN("cuCtxPushCurrent", NEED_INIT);
    if (!valid_context(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (deep == CONTEXTS_DEEP)
        return CUDA_ERROR_INVALID_VALUE; /* some caller does not pop the contexts that it pushes */
    below[deep++] = current;
    current = context;
    return CUDA_SUCCESS;
}

API CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    BEGIN("cuCtxPopCurrent", NEED_INIT);
    if (!deep)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context)
        *context = current;
    current = below[--deep];
    return CUDA_SUCCESS;
}

API CUresult cuCtxGetDevice(CUdevice *device) {
    BEGIN("cuCtxGetDevice", NEED_CONTEXT);
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = current->ordinal;
    return CUDA_SUCCESS;
}

API CUresult cuCtxSynchronize(void) {
    BEGIN("cuCtxSynchronize", NEED_CONTEXT);
    struct context *c = current;
    drain_context(c);
    return context_error(c);
}

API CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    BEGIN("cuCtxEnablePeerAccess", NEED_CONTEXT);
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!valid_context(peer) || peer == current)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!topology()->peer[current->gpu][peer->gpu])
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    return atomic_exchange(&current->peers[peer->gpu], true) ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_SUCCESS;
}
