#define _GNU_SOURCE
#include "driver.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A bad access inside an operation jumps back here and fails the context; one anywhere else goes to the previous
 * handler, such as Go's. */
__attribute__((tls_model("initial-exec"))) _Thread_local sigjmp_buf *protection; /* read in a signal handler */
static struct sigaction before[2];
static const int faults[2] = {SIGSEGV, SIGBUS};

static void on_fault(int number, siginfo_t *info, void *context) {
    if (protection)
        siglongjmp(*protection, 1);
    const struct sigaction *old = &before[number == SIGBUS];
    if (old->sa_flags & SA_SIGINFO && old->sa_sigaction) {
        old->sa_sigaction(number, info, context);
    } else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
        old->sa_handler(number);
    } else {
        signal(number, SIG_DFL);
        raise(number);
    }
}

static void install(void) {
    for (int i = 0; i < 2; i++) {
        struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
        sigfillset(&ours.sa_mask);
        sigaction(faults[i], &ours, &before[i]);
    }
}

void catch_faults(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
}

bool must_stop(struct stream *s) { return atomic_load(&s->context->dying) || context_error(s->context) != CUDA_SUCCESS; }

void hang(struct stream *s) {
    static const uint32_t never;
    while (!must_stop(s))
        futex_wait(&never, never, 20000);
}

static void wait_event(struct stream *s, struct progress *p, uint32_t generation) {
    for (;;) {
        uint32_t turn = atomic_load(&p->turn);
        if (progress_done(p, generation) || must_stop(s))
            return;
        futex_wait(&p->turn, turn, 50000);
    }
}

static bool holds(const CUstreamBatchMemOpParams *o) {
    uint64_t want = o->value.value, have;
    bool wide = o->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
    if (wide)
        have = atomic_load((_Atomic uint64_t *)(uintptr_t)o->value.address);
    else
        have = atomic_load((_Atomic uint32_t *)(uintptr_t)o->value.address);
    switch (o->value.flags) {
    case CU_STREAM_WAIT_VALUE_GEQ: return wide ? (int64_t)(have - want) >= 0 : (int32_t)((uint32_t)have - (uint32_t)want) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ: return have == want;
    case CU_STREAM_WAIT_VALUE_AND: return (have & want) != 0;
    default: return wide ? ~(have | want) != 0 : (uint32_t)~(have | want) != 0;
    }
}

/* Waits for a value. A stream's write wakes it; for writes of the host or a kernel it polls: soon at first, later
 * every 2 ms, since many streams wait on few cores. */
static void wait_value(struct stream *s, const CUstreamBatchMemOpParams *o) {
    static const long pause[] = {100, 250, 1000, 2000};
    for (unsigned looks = 0;; looks++) {
        uint32_t seen = atomic_load((_Atomic uint32_t *)(uintptr_t)o->value.address);
        if (holds(o) || must_stop(s))
            return;
        futex_wait((const void *)(uintptr_t)o->value.address, seen, pause[looks < 80 ? looks / 20 : 3]);
    }
}

static void write_value(const CUstreamBatchMemOpParams *o) {
    if (o->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64)
        atomic_store((_Atomic uint64_t *)(uintptr_t)o->value.address, o->value.value);
    else
        atomic_store((_Atomic uint32_t *)(uintptr_t)o->value.address, (uint32_t)o->value.value);
    futex_wake((const void *)(uintptr_t)o->value.address);
}

static void do_values(struct stream *s, struct operation *o) {
    for (unsigned i = 0; i < o->values.n && !must_stop(s); i++) {
        const CUstreamBatchMemOpParams *v = &o->values.list[i];
        switch (v->operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        case CU_STREAM_MEM_OP_WAIT_VALUE_64: wait_value(s, v); break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        case CU_STREAM_MEM_OP_WRITE_VALUE_64: write_value(v); break;
        }
    }
}

/* Makes one byte in every page wrong, as a corrupting link does. */
static void corrupt(unsigned char *p, size_t n) {
    for (size_t i = n / 2 % 4096; i < n; i += 4096)
        p[i] ^= 0x40;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Sleeps until a time, of a clock that no other process changes. */
static void sleep_until(double when) {
    double left = when - seconds();
    if (left > 0)
        usleep((useconds_t)(left * 1e6));
}

static void do_copy(struct stream *s, struct operation *o) {
    int gpus[3] = {s->context->gpu, o->copy.to_gpu, o->copy.from_gpu};
    enum damage worst = LINK_WHOLE;
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < i; k++) {
            if (link_damage(gpus[i], gpus[k]) > worst)
                worst = link_damage(gpus[i], gpus[k]);
        }
    }
    if (worst == LINK_HANGS) {
        hang(s);
        return;
    }
    double end = seconds() + modeled_seconds(o->copy.to_gpu, o->copy.from_gpu, s->context->gpu, o->copy.n);
    memmove((void *)o->copy.to, (void *)o->copy.from, o->copy.n);
    sleep_until(end);
    if (worst == LINK_CORRUPTS)
        corrupt((void *)o->copy.to, o->copy.n);
}

static void run(struct stream *s, struct operation *o) {
    switch (o->kind) {
    case DO_COPY: do_copy(s, o); break;
    case DO_SET: memset((void *)o->set.to, o->set.value, o->set.n); break;
    case DO_KERNEL: run_kernel(s, o); break;
    case DO_WAIT_EVENT: wait_event(s, o->event.progress, o->event.generation); break;
    case DO_VALUES: do_values(s, o); break;
    default: break;
    }
}

/* One at a time, as in the real driver: a function that waits for another never ends. */
static void run_host_function(struct operation *o) {
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&one);
    in_host_function = true;
    o->host.call(o->host.data);
    in_host_function = false;
    pthread_mutex_unlock(&one);
}

/* In a context that has failed no operation is performed any more, but recordings count as done, so that no thread
 * waits for them forever. */
void perform(struct stream *s, struct operation *o) {
    unsigned late = jitter_microseconds(&s->seed);
    if (late)
        usleep(late);
    if (!must_stop(s)) {
        sigjmp_buf here;
        if (o->kind == DO_HOST_FUNCTION) {
            run_host_function(o);
        } else if (sigsetjmp(here, 1) == 0) {
            protection = &here;
            run(s, o);
        } else {
            fail_context(s->context, CUDA_ERROR_ILLEGAL_ADDRESS);
        }
        protection = NULL;
    }
    switch (o->kind) {
    case DO_COPY: free(o->copy.staging); break;
    case DO_KERNEL: free(o->kernel.args); break;
    case DO_VALUES: free(o->values.list); break;
    case DO_RECORD: progress_finish(o->event.progress, o->event.generation); break;
    default: break;
    }
}
