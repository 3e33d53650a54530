#define _GNU_SOURCE
#include "driver.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic bool initialized;
_Thread_local bool in_host_function;

/* The calls of this process, each once it was made. cuInit replaces the array by the host's file, in which other
 * processes read them. */
enum { CALLS = 128, CAPTURED = CALLS - 1 }; /* the last is not a call: its count is a stream, set by fakegpu.Capture */
static struct tally tallies[CALLS] __attribute__((aligned(4096)));
_Static_assert(sizeof tallies % 4096 == 0, "whole pages");

static struct tally *tally_of(const char *name) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < CAPTURED - 1 && *tallies[i].name && strcmp(tallies[i].name, name) != 0)
        i++;
    snprintf(tallies[i].name, sizeof tallies[i].name, "%s", name);
    pthread_mutex_unlock(&lock);
    return &tallies[i];
}

bool captured_stream(const void *handle) { return tallies[CAPTURED].count == (uintptr_t)handle; }

static void share_tallies(void) {
    char name[32], path[4096];
    snprintf(name, sizeof name, "calls-%d", getpid());
    host_path(path, sizeof path, name);
    int file = open(path, O_RDWR | O_CLOEXEC | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || write(file, tallies, sizeof tallies) != sizeof tallies ||
        mmap(tallies, sizeof tallies, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
        complain("count calls in %s: %m", path);
    if (file >= 0)
        close(file);
}

CUresult begin_call(const char *name, struct tally *_Atomic *tally, enum need need) {
    if (!topology())
        return CUDA_ERROR_STUB_LIBRARY;
    if (!*tally)
        *tally = tally_of(name);
    unsigned n = (unsigned)atomic_fetch_add(&(*tally)->count, 1) + 1;
    if (!strstr(name, "Current")) /* contexts change at next to no cost, before and after each call */
        spend_call_time();
    if (in_host_function)
        return CUDA_ERROR_NOT_PERMITTED;
    if (need > NEED_NOTHING && !initialized)
        return CUDA_ERROR_NOT_INITIALIZED;
    struct context *c = initialized ? current_context() : NULL;
    CUresult error = injected_failure(name, n, c ? c->gpu : -1);
    if (error != CUDA_SUCCESS)
        return error;
    if (c)
        count_for_loss(c->gpu);
    if (need < NEED_CONTEXT)
        return CUDA_SUCCESS;
    if (!c)
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&c->submitting); /* for as long as another call waits for room in a queue */
    pthread_mutex_unlock(&c->submitting);
    return context_error(c);
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
        else {
            share_tallies();
            initialized = true;
        }
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
