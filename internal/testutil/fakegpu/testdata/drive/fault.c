/* Misuse, and the faults that the environment sets: see TestFaults for those. */
#define _GNU_SOURCE
#include "drive.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { N = 20000 };

static void misuse(void) {
    use_device(0);
    void *s = new_stream(), *foreign;
    Addr x, freed;
    int host[64];
    Addr heap = (Addr)(uintptr_t)host;
    OK(cuMemAlloc(&x, 4096));
    OK(cuMemAlloc(&freed, 4096));
    OK(cuMemFree(freed));
    WANT(1, cuMemFree(freed));
    WANT(1, cuMemFree(x + 256));
    WANT(1, cuMemFree(heap));
    WANT(1, cuMemsetD8Async(heap, 0, 64, s));
    WANT(1, cuMemcpyDtoDAsync(x, heap, 64, s));
    WANT(1, cuMemcpyDtoDAsync(heap, x, 64, s));
    WANT(1, cuMemcpyHtoDAsync(heap, host, 64, s));
    WANT(1, cuMemcpyDtoHAsync(host, freed, 64, s));
    WANT(1, cuMemcpyAsync(x, freed, 64, s));
    WANT(1, cuMemcpyAsync(x, x, 4097, s)); /* beyond the end */
    WANT(1, cuMemsetD8Async(x + 1, 0, 4096, s));
    WANT(1, cuMemAlloc(&x, 0));
    use_device(1);
    foreign = new_stream();
    use_device(0);
    WANT(400, launch_add(load_add(), foreign, x, x, x, 10, 1));
    WANT(1, launch_add(load_add(), s, x, x, x, 10, 0));
    OK(cuStreamSynchronize(s)); /* none of the above harms the context */
    OK(cuCtxSetCurrent(NULL));
    WANT(201, cuMemAlloc(&x, 10));
}

/* A kernel with a forbidden access fails the context permanently. */
static void fails_with_700(Addr to, Addr a, Addr b) {
    void *s = new_stream();
    Addr x;
    OK(launch_add(load_add(), s, to, a, b, 64, 1));
    WANT(700, cuStreamSynchronize(s));
    WANT(700, cuMemAlloc(&x, 10));
    WANT(700, cuStreamQuery(s));
    OK(cuDevicePrimaryCtxRelease(0));
    use_device(0); /* a new context works again */
    OK(cuMemAlloc(&x, 10));
}

static void illegal(void) {
    Addr x, freed, other;
    int *host = malloc(4096);
    void *peer = use_device(1);
    OK(cuMemAlloc(&other, 4096));
    use_device(0);
    for (int i = 0; i < 5; i++) {
        OK(cuMemAlloc(&x, 4096));
        OK(cuMemAlloc(&freed, 4096));
        OK(cuMemFree(freed));
        switch (i) {
        case 0: fails_with_700(x, x, freed); break;
        case 1: fails_with_700(x, x, (Addr)(uintptr_t)host); break;
        case 2: fails_with_700(x, other, x); break; /* without peer access */
        case 3: fails_with_700(x + 4096 - 4, x, x); break; /* beyond the end */
        case 4: fails_with_700(0, x, x); break;
        }
    }
    OK(cuMemAlloc(&x, 4096));
    OK(cuCtxEnablePeerAccess(peer, 0));
    WANT(704, cuCtxEnablePeerAccess(peer, 0));
    peer = use_device(6);
    use_device(0);
    WANT(217, cuCtxEnablePeerAccess(peer, 0)); /* no link joins 0 and 6 */
    OK(launch_add(load_add(), new_stream(), x, other, x, 64, 1));
    OK(cuCtxSynchronize());
}

static void out_of_memory(void) {
    use_device(0);
    Addr x, y;
    size_t left, total;
    OK(cuMemGetInfo(&left, &total));
    THAT(total == 1 << 20 && left == total);
    OK(cuMemAlloc(&x, 700000));
    WANT(2, cuMemAlloc(&y, 400000));
    OK(cuMemFree(x));
    OK(cuMemAlloc(&y, 400000));
    use_device(1); /* has its own */
    OK(cuMemAlloc(&x, 1 << 20));
}

static void third_allocation(void) {
    Addr x;
    use_device(0);
    OK(cuMemAlloc(&x, 10));
    OK(cuMemAlloc(&x, 10));
    WANT(2, cuMemAlloc(&x, 10));
    OK(cuMemAlloc(&x, 10));
    void *s = new_stream();
    WANT(719, cuStreamSynchronize(s));
    use_device(2);
    WANT(999, cuMemsetD8Async(x, 0, 10, s));
}

static void lost(void) {
    use_device(2);
    void *s = new_stream();
    Addr flag;
    OK(cuMemAlloc(&flag, 64));
    OK(cuMemsetD8Async(flag, 0, 64, s));
    OK(cuStreamWaitValue32(s, flag, 1, 0)); /* ends although the value is not written */
    int code = 0, n = 0;
    while (code == 0 && n++ < 100)
        code = cuStreamQuery(s) == 600 ? 0 : 999;
    THAT(n > 50 && n < 100);
    WANT(999, cuStreamSynchronize(s));
    WANT(999, cuMemAlloc(&flag, 10));
    use_device(0); /* the other devices have not changed */
    OK(cuMemAlloc(&flag, 10));
}

/* Copies 0 <- 3 into y, and checks whether the copy is wrong. */
static void copy_0_3(bool wrong) {
    Addr x, y;
    void *peer = use_device(3), *s = new_stream();
    OK(cuMemAlloc(&x, N * 4));
    fill(x, 3, N, s);
    OK(cuStreamSynchronize(s));
    use_device(0);
    s = new_stream();
    OK(cuCtxEnablePeerAccess(peer, 0));
    OK(cuMemAlloc(&y, N * 4));
    OK(cuMemcpyAsync(y, x, N * 4, s));
    THAT((differs(y, 3, N, s) < N) == wrong);
    OK(cuMemsetD8Async(y, 0, N * 4, s));
    OK(launch_add(load_add(), s, y, y, x, N, 1));
    THAT((differs(y, 3 + N, N, s) < N) == wrong);
    THAT(differs(x, 3, N, (use_device(3), new_stream())) == N); /* the memory itself is intact */
}

static void corrupts(void) { copy_0_3(true); }
static void whole(void) { copy_0_3(false); }

static void hangs(void) {
    Addr x, y;
    use_device(3);
    OK(cuMemAlloc(&x, 4096));
    use_device(0);
    void *s = new_stream();
    OK(cuMemAlloc(&y, 4096));
    OK(cuMemcpyAsync(y, x, 4096, s));
    milliseconds(100);
    WANT(600, cuStreamQuery(s));
    OK(cuStreamDestroy(s)); /* returns */
    void *t = new_stream();
    OK(cuMemsetD8Async(y, 1, 4096, t)); /* other streams continue */
    OK(cuStreamSynchronize(t));
}

static void no_operations(void) {
    void *f;
    int status, can = -1;
    OK(cuInit(0));
    OK(get_address("cuStreamWaitValue32", &f, 12000, 0, &status));
    THAT(!f && status == 1);
    OK(cuDeviceGetAttribute(&can, 92, 0));
    THAT(can == 0 && !cuStreamWaitValue32);
}

static void old_driver(void) {
    int version;
    void *f;
    OK(cuDriverGetVersion(&version));
    THAT(version == 10020);
    WANT(500, get_address("cuMemAllocAsync", &f, 12000, 0, NULL)); /* since 11.2 */
    WANT(500, get_address("cuStreamWaitValue32", &f, 12000, 0, NULL));
    OK(get_address("cuDeviceGetUuid", &f, 12000, 0, NULL)); /* its first form */
}

static void no_permission(void) { WANT(304, cuInit(0)); }

static void not_asked_for(void) {
    int n;
    WANT(34, cuInit(0)); /* a stub library */
    WANT(34, cuDeviceGetCount(&n));
}

static void visible(void) {
    int n;
    char id[16];
    OK(cuInit(0));
    OK(cuDeviceGetCount(&n));
    THAT(n == 2);
    OK(cuDeviceGetPCIBusId(id, sizeof id, 0));
    THAT(strcmp(id, "0000:15:00.0") == 0); /* GPU 5 */
}

/* Waiting streams cost almost nothing: 40 of them, for a second. */
static void idle(void) {
    struct timespec t;
    uint32_t *flag;
    use_device(0);
    OK(cuMemHostAlloc((void **)&flag, 4096, 0));
    memset(flag, 0, 4096);
    void *streams[40];
    for (int i = 0; i < 40; i++) {
        streams[i] = new_stream();
        OK(cuStreamWaitValue32(streams[i], (Addr)(uintptr_t)(flag + i), 1, 0));
    }
    milliseconds(300);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    double before = (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
    milliseconds(1000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    double used = (double)t.tv_sec + (double)t.tv_nsec * 1e-9 - before;
    fprintf(stderr, "40 waiting streams used %.3f s in a second\n", used);
    THAT(used < 0.5);
    for (int i = 0; i < 40; i++)
        flag[i] = 1;
    OK(cuCtxSynchronize());
}

/* Two queues: the third stream is behind the first, which waits, and the second is not. */
static void queues(void) {
    uint32_t *flag;
    Addr x;
    use_device(0);
    OK(cuMemAlloc(&x, 4096));
    OK(cuMemHostAlloc((void **)&flag, 4096, 0));
    *flag = 0;
    void *waiting = new_stream(), *free = new_stream(), *behind = new_stream();
    OK(cuStreamWaitValue32(waiting, (Addr)(uintptr_t)flag, 1, 0));
    OK(cuMemsetD8Async(x, 1, 4096, behind));
    OK(cuMemsetD8Async(x, 1, 4096, free));
    OK(cuStreamSynchronize(free));
    milliseconds(100);
    WANT(600, cuStreamQuery(behind));
    *flag = 1;
    OK(cuStreamSynchronize(behind));
    OK(cuStreamSynchronize(waiting)); /* the queue goes to the next stream before it marks this one */
}

static void *context, *full, *other;
static Addr memory;
static _Atomic int through;

static void *one_too_many(void *call) {
    OK(cuCtxSetCurrent(context));
    through++;
    if (call)
        OK(cuStreamQuery(other));
    else
        OK(cuMemsetD8Async(memory, 1, 64, full));
    through += 2;
    return NULL;
}

/* A queue of four operations: the fifth waits, and another call in the same context waits with it. */
static void depth(void) {
    uint32_t *flag;
    pthread_t fifth, query;
    context = use_device(0);
    OK(cuMemAlloc(&memory, 64));
    OK(cuMemHostAlloc((void **)&flag, 4096, 0));
    *flag = 0;
    full = new_stream(), other = new_stream();
    OK(cuStreamWaitValue32(full, (Addr)(uintptr_t)flag, 1, 0));
    for (int i = 0; i < 3; i++)
        OK(cuMemsetD8Async(memory, 1, 64, full));
    OK(cuMemsetD8Async(memory, 1, 64, other)); /* it has its own queue */
    OK(cuStreamSynchronize(other));
    THAT(pthread_create(&fifth, NULL, one_too_many, NULL) == 0);
    milliseconds(100);
    THAT(through == 1);
    THAT(pthread_create(&query, NULL, one_too_many, other) == 0);
    milliseconds(100);
    THAT(through == 2);
    *flag = 1;
    pthread_join(fifth, NULL);
    pthread_join(query, NULL);
    THAT(through == 6);
    OK(cuCtxSynchronize());
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The time that a process with a context takes to end after SIGKILL. */
static double killed(void) {
    int ready[2], status;
    char byte;
    THAT(pipe(ready) == 0);
    pid_t child = fork();
    if (child == 0) {
        use_device(0);
        THAT(write(ready[1], "", 1) == 1);
        pause();
    }
    THAT(read(ready[0], &byte, 1) == 1);
    double began = seconds();
    kill(child, SIGKILL);
    THAT(waitpid(child, &status, 0) == child);
    return seconds() - began;
}

/* The system takes long to end a process that has touched much memory. */
static void teardown(void) {
    setenv("TREERUN_FAKE_GPU_TEARDOWN", "", 1);
    double quick = killed();
    setenv("TREERUN_FAKE_GPU_TEARDOWN", "4294967296", 1);
    double slow = killed();
    fprintf(stderr, "a killed process ends after %.3f s, with 4 GiB after %.3f s\n", quick, slow);
    THAT(slow > 3 * quick);
}

const struct test fault_tests[] = {
    {"misuse", misuse}, {"illegal", illegal}, {"out-of-memory", out_of_memory}, {"third-allocation", third_allocation},
    {"lost", lost}, {"corrupts", corrupts}, {"whole", whole}, {"hangs", hangs}, {"no-operations", no_operations},
    {"old-driver", old_driver}, {"no-permission", no_permission}, {"not-asked-for", not_asked_for}, {"visible", visible},
    {"idle", idle}, {"queues", queues}, {"depth", depth}, {"teardown", teardown}, {NULL, NULL},
};
