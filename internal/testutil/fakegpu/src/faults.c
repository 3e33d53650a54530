#define _GNU_SOURCE
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Calls fn with every item of the comma-separated list in an environment variable. */
static void each(const char *variable, void (*fn)(const char *item)) {
    const char *list = setting(variable);
    if (!list)
        return;
    char *copy = strdup(list), *rest = copy;
    for (char *item; (item = strsep(&rest, ","));)
        fn(item);
    free(copy);
}

/* TREERUN_FAKE_GPU_FAIL=CALL:N[:CODE][@GPU]: the N-th CALL of each process fails; with @GPU only in a context of
 * that GPU. Without a CODE the error is "out of memory". */
static struct failure {
    char call[64];
    unsigned n;
    int code, gpu;
} failures[16];
static int failing;

static void read_failure(const char *item) {
    struct failure f = {.code = CUDA_ERROR_OUT_OF_MEMORY, .gpu = -1};
    char text[128];
    snprintf(text, sizeof text, "%s", item);
    char *at = strchr(text, '@');
    if (at) {
        *at = 0;
        f.gpu = atoi(at + 1);
    }
    if (failing < 16 && sscanf(text, "%63[^:]:%u:%d", f.call, &f.n, &f.code) >= 2)
        failures[failing++] = f;
    else
        complain("TREERUN_FAKE_GPU_FAIL: %s is not CALL:N[:CODE][@GPU]", item);
}

/* TREERUN_FAKE_GPU_BROKEN=A-B[:hang]: copies between A and B are wrong, or hang. */
static unsigned char damage[MAX_GPUS][MAX_GPUS];

static void read_broken(const char *item) {
    unsigned a, b;
    char how[8] = "";
    if (sscanf(item, "%u-%u:%7s", &a, &b, how) < 2 || a >= MAX_GPUS || b >= MAX_GPUS || (*how && strcmp(how, "hang") != 0))
        complain("TREERUN_FAKE_GPU_BROKEN: %s is not A-B or A-B:hang", item);
    else
        damage[a][b] = damage[b][a] = *how ? LINK_HANGS : LINK_CORRUPTS;
}

/* TREERUN_FAKE_GPU_LOST=GPU@N: the GPU is lost after N calls, counted over all processes. */
static int64_t lost_after[MAX_GPUS];

static void read_lost(const char *item) {
    unsigned gpu;
    long n;
    if (sscanf(item, "%u@%ld", &gpu, &n) != 2 || gpu >= MAX_GPUS || n < 0)
        complain("TREERUN_FAKE_GPU_LOST: %s is not GPU@CALLS", item);
    else
        lost_after[gpu] = n + 1;
}

static bool without_operations;
static unsigned jitter, seed;
static double slow, reads = 1, call_seconds;
static unsigned queues, depth;

/* A number in an environment variable, 0 if it is not set. */
static unsigned long long number(const char *variable, unsigned long long most) {
    const char *text = setting(variable);
    char *end;
    unsigned long long n = text ? strtoull(text, &end, 10) : 0;
    if (text && (*end || n > most))
        complain("%s=%s is no number up to %llu", variable, text, most);
    return n > most ? most : n;
}

static void read_settings(void) {
    each("TREERUN_FAKE_GPU_FAIL", read_failure);
    each("TREERUN_FAKE_GPU_BROKEN", read_broken);
    each("TREERUN_FAKE_GPU_LOST", read_lost);
    without_operations = setting("TREERUN_FAKE_GPU_NO_MEMOPS");
    const char *late = setting("TREERUN_FAKE_GPU_JITTER");
    if (late && sscanf(late, "%u:%u", &jitter, &seed) < 1)
        complain("TREERUN_FAKE_GPU_JITTER=%s is not MICROSECONDS[:SEED]", late);
    const char *factor = setting("TREERUN_FAKE_GPU_SLOW");
    if (factor && (sscanf(factor, "%lf:%lf", &slow, &reads) < 1 || !(slow >= 0) || !(reads >= 0)))
        complain("TREERUN_FAKE_GPU_SLOW=%s is no factor", factor);
    const char *cost = setting("TREERUN_FAKE_GPU_CALL_US");
    if (cost && (sscanf(cost, "%lf", &call_seconds) < 1 || !(call_seconds >= 0)))
        complain("TREERUN_FAKE_GPU_CALL_US=%s is no time", cost);
    call_seconds *= 1e-6;
    queues = (unsigned)number("TREERUN_FAKE_GPU_QUEUES", MAX_QUEUES);
    depth = (unsigned)number("TREERUN_FAKE_GPU_DEPTH", 1 << 30);
}

static void once(void) {
    static pthread_once_t read = PTHREAD_ONCE_INIT;
    pthread_once(&read, read_settings);
}

CUresult injected_failure(const char *call, unsigned count, int gpu) {
    once();
    for (int i = 0; i < failing; i++) {
        const struct failure *f = &failures[i];
        if (f->n == count && strcmp(f->call, call) == 0 && (f->gpu < 0 || f->gpu == gpu))
            return f->code;
    }
    return CUDA_SUCCESS;
}

static double thread_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* TREERUN_FAKE_GPU_CALL_US=MICROSECONDS: the time that a call takes of its thread. */
void spend_call_time(void) {
    once();
    if (call_seconds == 0)
        return;
    for (double end = thread_seconds() + call_seconds; thread_seconds() < end;)
        ;
}

void count_for_loss(int gpu) {
    if (lost_after[gpu] && atomic_fetch_add(&board()->calls[gpu], 1) + 1 >= lost_after[gpu])
        atomic_store(&board()->lost[gpu], 1);
}

/* TREERUN_FAKE_GPU_QUEUES=N: the number of queues that the streams of a device share. */
unsigned queues_of_device(void) {
    once();
    return queues;
}

/* TREERUN_FAKE_GPU_DEPTH=N: the number of operations that fit in a queue. */
unsigned queue_depth(void) {
    once();
    return depth;
}

/* TREERUN_FAKE_GPU_TEARDOWN=BYTES: the process maps and touches the given number of bytes, for which the kernel
 * needs time when the process ends, as for a context of a real driver. The same few pages are mapped repeatedly. */
void slow_teardown(void) {
    enum { PART = 1 << 26 };
    static bool mapped; /* under contexts_lock */
    unsigned long long bytes = mapped ? 0 : number("TREERUN_FAKE_GPU_TEARDOWN", 1ull << 40);
    if (bytes == 0)
        return;
    mapped = true;
    int file = memfd_create("fake-gpu-teardown", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, PART) != 0)
        complain("TREERUN_FAKE_GPU_TEARDOWN: %m");
    for (unsigned long long at = 0; at < bytes; at += PART)
        mmap(NULL, PART, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
    close(file);
}

/* TREERUN_FAKE_GPU_COMPILE_MS=MILLISECONDS: loading PTX takes that long. */
void slow_compiler(void) { usleep(1000 * (useconds_t)number("TREERUN_FAKE_GPU_COMPILE_MS", 1000000)); }

bool no_memory_operations(void) {
    once();
    return without_operations;
}

enum damage link_damage(int gpu, int other) {
    once();
    return gpu < 0 || other < 0 || gpu == other ? LINK_WHOLE : damage[gpu][other];
}

/* TREERUN_FAKE_GPU_JITTER=MICROSECONDS[:SEED]: every other operation of a stream begins later, by up to that time. */
unsigned jitter_microseconds(unsigned *state) {
    if (jitter == 0 || rand_r(state) % 2)
        return 0;
    return rand_r(state) % jitter + 1;
}

/* TREERUN_FAKE_GPU_SLOW=FACTOR[:READS]: the resulting time of n bytes from one GPU to another, copied by the GPU
 * "by". The link is not shared with other copies. */
double modeled_seconds(int to, int from, int by, size_t n) {
    once();
    double rate = to < 0 || from < 0 || to == from ? 0 : topology()->rate[to][from];
    return rate > 0 ? slow * (by == to ? reads : 1) * (double)n / (rate * 1e9) : 0;
}

unsigned jitter_seed(void) {
    static _Atomic unsigned streams;
    once();
    return seed * 7919 + (unsigned)getpid() * 31 + atomic_fetch_add(&streams, 1) + 1;
}
