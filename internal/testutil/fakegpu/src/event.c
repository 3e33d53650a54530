#define _GNU_SOURCE
#include "driver.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Destroyed events keep their memory, so that a later use of a handle is detected. If there are enough of them, a
 * new event reuses the one that was destroyed longest ago. */
enum { EVENT = 0x45564e54, SPARE = 256 };

struct event {
    uint32_t magic;
    unsigned flags;
    struct context *context;
    struct progress *progress;
    struct event *next;
    bool captured; /* the latest recording is part of a graph */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct event *spare, **spare_end = &spare;
static int spares;

static struct event *take(void) {
    struct event *e = NULL;
    pthread_mutex_lock(&lock);
    if (spares > SPARE) {
        e = spare;
        spare = e->next;
        spares--;
    }
    pthread_mutex_unlock(&lock);
    return e ? e : malloc(sizeof *e);
}

static void keep(struct event *e) {
    e->magic = 0;
    e->next = NULL;
    pthread_mutex_lock(&lock);
    *spare_end = e;
    spare_end = &e->next;
    spares++;
    pthread_mutex_unlock(&lock);
}

static struct event *resolve(CUevent e) { return e && e->magic == EVENT ? e : NULL; }

/* The counter wraps around, so a generation is reached if the difference is not negative. */
bool progress_done(const struct progress *p, uint32_t generation) {
    return generation == 0 || (int32_t)(atomic_load(&p->done[generation % GENERATIONS]) - generation) >= 0;
}

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void progress_finish(struct progress *p, uint32_t generation) {
    atomic_store(&p->nanoseconds, now());
    atomic_store(&p->done[generation % GENERATIONS], generation);
    atomic_fetch_add(&p->turn, 1);
    futex_wake(&p->turn);
}

API CUresult cuEventCreate(CUevent *event, unsigned flags) {
    BEGIN("cuEventCreate", NEED_CONTEXT);
    if (!event || flags & ~(unsigned)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_VALUE; /* in treerun no other process waits for events */
    struct progress *p = calloc(1, sizeof *p);
    struct event *e = take();
    if (!p || !e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *e = (struct event){EVENT, flags, current_context(), p, NULL, false};
    *event = e;
    return CUDA_SUCCESS;
}

/* Work that refers to the event continues as if it still existed: its progress stays, which is some bytes per event
 * that tests can afford. */
API CUresult cuEventDestroy_v2(CUevent event) {
    BEGIN("cuEventDestroy", NEED_CONTEXT);
    struct event *e = resolve(event);
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    keep(e);
    return CUDA_SUCCESS;
}

API CUresult cuEventRecord(CUevent event, CUstream stream) {
    BEGIN("cuEventRecord", NEED_CONTEXT);
    struct event *e = resolve(event);
    struct stream *s = resolve_stream(stream);
    if (!e || !s || e->context != s->context)
        return CUDA_ERROR_INVALID_HANDLE;
    e->captured = captured_stream(s);
    struct operation o = {.kind = DO_RECORD};
    o.event.progress = e->progress;
    if (!e->captured)
        o.event.generation = atomic_fetch_add(&e->progress->recorded, 1) + 1;
    return submit(s, &o);
}

API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    BEGIN("cuStreamWaitEvent", NEED_CONTEXT);
    struct event *e = resolve(event);
    struct stream *s = resolve_stream(stream);
    if (!e || !s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (e->captured != captured_stream(s))
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION; /* the real driver captures a stream that waits for one */
    struct operation o = {.kind = DO_WAIT_EVENT};
    o.event.progress = e->progress;
    o.event.generation = atomic_load(&e->progress->recorded);
    return submit(s, &o);
}

API CUresult cuEventQuery(CUevent event) {
    BEGIN("cuEventQuery", NEED_CONTEXT);
    struct event *e = resolve(event);
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    if (e->captured)
        return CUDA_ERROR_CAPTURED_EVENT;
    return progress_done(e->progress, atomic_load(&e->progress->recorded)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

API CUresult cuEventSynchronize(CUevent event) {
    BEGIN("cuEventSynchronize", NEED_CONTEXT);
    struct event *e = resolve(event);
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    if (e->captured)
        return CUDA_ERROR_CAPTURED_EVENT;
    uint32_t generation = atomic_load(&e->progress->recorded);
    while (context_error(e->context) == CUDA_SUCCESS) {
        uint32_t turn = atomic_load(&e->progress->turn);
        if (progress_done(e->progress, generation))
            break;
        futex_wait(&e->progress->turn, turn, 20000);
    }
    return context_error(e->context);
}

API CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    BEGIN("cuEventElapsedTime", NEED_CONTEXT);
    struct event *a = resolve(start), *b = resolve(end);
    if (!milliseconds)
        return CUDA_ERROR_INVALID_VALUE;
    if (!a || !b || a->context != b->context || (a->flags | b->flags) & CU_EVENT_DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
    uint32_t first = atomic_load(&a->progress->recorded), last = atomic_load(&b->progress->recorded);
    if (first == 0 || last == 0)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!progress_done(a->progress, first) || !progress_done(b->progress, last))
        return CUDA_ERROR_NOT_READY;
    *milliseconds = (float)((double)(int64_t)(atomic_load(&b->progress->nanoseconds) - atomic_load(&a->progress->nanoseconds)) / 1e6);
    return CUDA_SUCCESS;
}
