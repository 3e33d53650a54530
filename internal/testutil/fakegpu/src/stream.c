#define _GNU_SOURCE
#include "driver.h"

#include <stdlib.h>
#include <string.h>

/* A stream is a thread that performs one operation after the other, each when its queue reaches it. Handles of
 * destroyed streams are detected: structs are reused, the longest unused first, but never freed, and their counters
 * continue. */
enum { STREAM = 0x5354524d, SPARE = 64, STACK = 1 << 20 };

static struct stream *spare, **spare_end = &spare; /* under contexts_lock */
static int spares;

void init_queue(struct queue *q) {
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->moved, NULL);
}

static struct stream *new_stream(void) {
    if (spares > SPARE) {
        struct stream *s = spare;
        spare = s->next;
        spares--;
        return s;
    }
    struct stream *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    pthread_cond_init(&s->done, NULL);
    init_queue(&s->own);
    return s;
}

static void keep(struct stream *s) {
    s->next = NULL;
    *spare_end = s;
    spare_end = &s->next;
    spares++;
}

/* The next operation; NULL if the stream has ended and has none. */
static struct operation *next(struct stream *s) {
    pthread_mutex_lock(&s->lock);
    while (!s->head && !s->ending)
        pthread_cond_wait(&s->work, &s->lock);
    struct operation *o = s->head;
    if (o && !(s->head = o->next))
        s->tail = &s->head;
    pthread_mutex_unlock(&s->lock);
    return o;
}

static void await_turn(struct queue *q, uint64_t number) {
    pthread_mutex_lock(&q->lock);
    while (q->done < number)
        pthread_cond_wait(&q->moved, &q->lock);
    pthread_mutex_unlock(&q->lock);
}

static void pass_on(struct queue *q) {
    pthread_mutex_lock(&q->lock);
    q->done++;
    pthread_cond_broadcast(&q->moved);
    pthread_mutex_unlock(&q->lock);
}

static void *serve(void *stream) {
    struct stream *s = stream;
    for (struct operation *o; (o = next(s));) {
        await_turn(s->queue, o->number);
        perform(s, o);
        pass_on(s->queue);
        free(o);
        pthread_mutex_lock(&s->lock);
        s->completed++;
        pthread_cond_broadcast(&s->done);
        pthread_mutex_unlock(&s->lock);
    }
    pthread_mutex_lock(&contexts_lock);
    keep(s);
    pthread_mutex_unlock(&contexts_lock);
    return NULL;
}

/* Makes a stream of c; contexts_lock is held. */
static struct stream *start(struct context *c, unsigned flags, int priority) {
    struct stream *s = new_stream();
    if (!s)
        return NULL;
    s->context = c;
    s->head = NULL;
    s->tail = &s->head;
    s->queue = queues_of_device() > 0 ? &c->queues[c->streams_made++ % queues_of_device()] : &s->own;
    s->ending = false;
    s->seed = jitter_seed();
    s->flags = flags;
    s->priority = priority;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK);
    int failed = pthread_create(&s->thread, &attributes, serve, s);
    pthread_attr_destroy(&attributes);
    if (failed) {
        keep(s);
        return NULL;
    }
    s->magic = STREAM;
    s->next = c->streams;
    c->streams = s;
    return s;
}

/* Removes a stream from its context's list and lets its thread end after its remaining work; contexts_lock is held. */
static void end(struct stream *s) {
    struct stream **at = &s->context->streams;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    pthread_mutex_lock(&s->lock);
    s->magic = 0;
    s->ending = true;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

/* Ends a dying context's streams: waiting operations give up. */
void end_streams(struct context *c) {
    drain_context(c);
    pthread_mutex_lock(&contexts_lock);
    while (c->streams)
        end(c->streams);
    c->default_stream = NULL;
    pthread_mutex_unlock(&contexts_lock);
}

static struct stream *default_stream(struct context *c) {
    pthread_mutex_lock(&contexts_lock);
    if (c && !c->default_stream)
        c->default_stream = start(c, 0, 0);
    pthread_mutex_unlock(&contexts_lock);
    return c ? c->default_stream : NULL;
}

/* The default stream is not ordered with any other one here, while the real driver's is with some: a program that
 * relies on that gets wrong results. */
struct stream *resolve_stream(CUstream handle) {
    if ((uintptr_t)handle <= 2)
        return default_stream(current_context());
    return handle->magic == STREAM ? handle : NULL;
}

/* Appends an operation to a stream and to its queue. If the queue is full it waits, with the context's lock, as the
 * real driver does. */
CUresult submit(struct stream *s, const struct operation *operation) {
    CUresult error = context_error(s->context);
    struct operation *o = error == CUDA_SUCCESS ? malloc(sizeof *o) : NULL;
    if (!o)
        return error != CUDA_SUCCESS ? error : CUDA_ERROR_OUT_OF_MEMORY;
    if (captured_stream(s)) { /* it is part of a graph, which is not run */
        free(o);
        return CUDA_SUCCESS;
    }
    *o = *operation;
    o->next = NULL;
    struct queue *q = s->queue;
    pthread_mutex_lock(&s->context->submitting);
    pthread_mutex_lock(&q->lock);
    while (queue_depth() > 0 && q->given - q->done >= queue_depth())
        pthread_cond_wait(&q->moved, &q->lock);
    o->number = q->given++;
    pthread_mutex_lock(&s->lock);
    *s->tail = o;
    s->tail = &o->next;
    s->submitted++;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_unlock(&q->lock);
    pthread_mutex_unlock(&s->context->submitting);
    return CUDA_SUCCESS;
}

uint64_t submitted(struct stream *s) {
    pthread_mutex_lock(&s->lock);
    uint64_t n = s->submitted;
    pthread_mutex_unlock(&s->lock);
    return n;
}

void wait_completed(struct stream *s, uint64_t until) {
    pthread_mutex_lock(&s->lock);
    while (s->completed < until)
        pthread_cond_wait(&s->done, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

static CUresult create(CUstream *stream, unsigned flags, int priority) {
    if (!stream || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&contexts_lock);
    *stream = start(current_context(), flags, priority);
    pthread_mutex_unlock(&contexts_lock);
    return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

API CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    BEGIN("cuStreamCreate", NEED_CONTEXT);
    return create(stream, flags, 0);
}

API CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
    BEGIN("cuStreamCreateWithPriority", NEED_CONTEXT);
    return create(stream, flags, priority);
}

/* Returns at once; the remaining work of the stream is still done. */
API CUresult cuStreamDestroy_v2(CUstream stream) {
    BEGIN("cuStreamDestroy", NEED_CONTEXT);
    if ((uintptr_t)stream <= 2 || !resolve_stream(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&contexts_lock);
    end(stream);
    pthread_mutex_unlock(&contexts_lock);
    return CUDA_SUCCESS;
}

API CUresult cuStreamSynchronize(CUstream stream) {
    BEGIN("cuStreamSynchronize", NEED_CONTEXT);
    struct stream *s = resolve_stream(stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (captured_stream(s))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    wait_completed(s, submitted(s));
    return context_error(s->context);
}

API CUresult cuStreamIsCapturing(CUstream stream, int *status) {
    BEGIN("cuStreamIsCapturing", NEED_CONTEXT);
    struct stream *s = resolve_stream(stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    *status = captured_stream(s);
    return CUDA_SUCCESS;
}

API CUresult cuStreamQuery(CUstream stream) {
    BEGIN("cuStreamQuery", NEED_CONTEXT);
    struct stream *s = resolve_stream(stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (captured_stream(s))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    pthread_mutex_lock(&s->lock);
    bool busy = s->completed < s->submitted;
    pthread_mutex_unlock(&s->lock);
    CUresult error = context_error(s->context);
    return error == CUDA_SUCCESS && busy ? CUDA_ERROR_NOT_READY : error;
}

API CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
    BEGIN("cuStreamGetCtx", NEED_CONTEXT);
    struct stream *s = resolve_stream(stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    *context = s->context;
    return CUDA_SUCCESS;
}

API CUresult cuLaunchHostFunc(CUstream stream, CUhostFn call, void *data) {
    BEGIN("cuLaunchHostFunc", NEED_CONTEXT);
    struct stream *s = resolve_stream(stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!call)
        return CUDA_ERROR_INVALID_VALUE;
    struct operation o = {.kind = DO_HOST_FUNCTION, .host = {call, data}};
    return submit(s, &o);
}
