/* One process. */
#define _GNU_SOURCE
#include "drive.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

enum { N = 100000 };

static void devices(void) {
    int n, can, value;
    char text[64];
    unsigned char uuid[16], other[16];
    WANT(3, cuDeviceGetCount(&n)); /* not initialized */
    OK(cuInit(0));
    OK(cuDeviceGetCount(&n));
    THAT(n == 8);
    OK(cuDeviceGetName(text, sizeof text, 7));
    THAT(strcmp(text, "Tesla V100-SXM2-16GB (fake)") == 0);
    WANT(101, cuDeviceGetName(text, sizeof text, 8));
    OK(cuDeviceGetPCIBusId(text, sizeof text, 2));
    THAT(strcmp(text, "0000:0C:00.0") == 0);
    OK(cuDeviceGetUuid(uuid, 0));
    OK(cuDeviceGetUuid(other, 1));
    THAT(memcmp(uuid, other, 16) != 0);
    OK(cuDeviceGetAttribute(&value, 16, 0));
    THAT(value == 80);
    OK(cuDeviceCanAccessPeer(&can, 0, 4));
    THAT(can == 1);
    OK(cuDeviceCanAccessPeer(&can, 0, 5)); /* no NVLink between them */
    THAT(can == 0);
    OK(cuDeviceCanAccessPeer(&can, 3, 3));
    THAT(can == 0);
}

static void addresses(void) {
    void *f;
    int status;
    OK(get_address("cuMemAlloc", &f, 12000, 0, &status));
    THAT(f && status == 0);
    OK(get_address("cuMemAlloc_v2", &f, 12000, 0, &status)); /* plain names only */
    THAT(!f && status == 1);
    WANT(500, get_address("cuNothing", &f, 12000, 0, NULL));
    OK(get_address("cuStreamWaitValue32", &f, 11000, 0, &status)); /* since 11.7 */
    THAT(!f && status == 2);
    WANT(1, get_address("", &f, 12000, 0, &status));
}

static void kernel(void) {
    use_device(0);
    void *s = new_stream(), *add = load_add();
    Addr to, a, b;
    size_t before, after, total;
    OK(cuMemGetInfo(&before, &total));
    OK(cuMemAlloc(&to, N * 4));
    OK(cuMemAlloc(&a, N * 4));
    OK(cuMemAlloc(&b, N * 4));
    THAT(differs(to, 0, N, s) == 0); /* fresh memory contains no zeros */
    for (unsigned blocks = 1; blocks <= 7; blocks += 3) {
        fill(a, 1000, N, s);
        fill(b, (int)blocks, N, s);
        OK(launch_add(add, s, to, a, b, N, blocks));
        THAT(differs(to, 1000 + (int)blocks + N, N, s) == N);
    }
    OK(cuMemFree(to));
    OK(cuMemFree(a));
    OK(cuMemFree(b));
    OK(cuMemGetInfo(&after, &total));
    THAT(before == after && total == 256 << 20);
    OK(cuStreamDestroy(s));
    WANT(400, cuStreamSynchronize(s));
    OK(cuDevicePrimaryCtxRelease(0));
}

/* Runs b after a on two streams, joined by an event or not, and returns how often b ran too early. */
static int early(bool joined) {
    use_device(0);
    void *first = new_stream(), *second = new_stream(), *event;
    Addr x, y;
    OK(cuEventCreate(&event, 2));
    OK(cuMemAlloc(&x, 4096));
    OK(cuMemAlloc(&y, 4096));
    int wrong = 0;
    for (int i = 1; i <= 120; i++) {
        OK(cuMemsetD8Async(x, (unsigned char)i, 4096, first));
        OK(cuEventRecord(event, first));
        if (joined)
            OK(cuStreamWaitEvent(second, event, 0));
        OK(cuMemcpyAsync(y, x, 4096, second));
        wrong += differs(y, i * 0x01010101, 1024, second) != 1024;
        OK(cuStreamSynchronize(first));
    }
    return wrong;
}

static void order(void) { THAT(early(true) == 0); }
static void disorder(void) { THAT(early(false) > 2); }

static void events(void) {
    void *c = use_device(0);
    void *s = new_stream(), *a, *b, *plain;
    float ms;
    OK(cuEventCreate(&a, 0));
    OK(cuEventCreate(&b, 0));
    OK(cuEventCreate(&plain, 2));
    WANT(1, cuEventCreate(&plain, 4)); /* between processes only without timing */
    WANT(400, cuEventElapsedTime(&ms, a, b)); /* not recorded */
    OK(cuEventQuery(a));
    uint32_t *flag;
    OK(cuMemHostAlloc((void **)&flag, 64, 0));
    *flag = 0;
    OK(cuEventRecord(a, s));
    OK(cuStreamWaitValue32(s, (Addr)(uintptr_t)flag, 1, 0));
    OK(cuEventRecord(b, s));
    WANT(600, cuEventQuery(b));
    WANT(600, cuStreamQuery(s));
    WANT(600, cuEventElapsedTime(&ms, a, b));
    OK(cuEventSynchronize(a));
    milliseconds(30);
    *(volatile uint32_t *)flag = 1; /* a write of the host, which wakes no thread */
    OK(cuEventSynchronize(b));
    OK(cuEventElapsedTime(&ms, a, b));
    THAT(ms >= 29);
    OK(cuStreamSynchronize(s)); /* the stream passes the event a moment before it is done */
    OK(cuStreamQuery(s));
    use_device(1);
    WANT(400, cuEventRecord(a, new_stream())); /* of two devices */
    OK(cuCtxSetCurrent(c));
    OK(cuEventDestroy(plain));
    WANT(400, cuEventQuery(plain));
    OK(cuMemFreeHost(flag));
}

static _Atomic int calls;
static void count(void *how) {
    int n;
    if (how)
        WANT(800, cuDeviceGetCount(&n)); /* a host function may not call the driver */
    calls++;
}

static void values(void) {
    use_device(0);
    void *s = new_stream(), *t = new_stream();
    Addr flag;
    OK(cuMemAlloc(&flag, 64));
    OK(cuStreamWriteValue32(s, flag, 0xfffffff0u, 0));
    OK(cuStreamSynchronize(s));
    OK(cuStreamWaitValue32(s, flag, 5, 0)); /* cyclic: 21 away */
    OK(cuLaunchHostFunc(s, count, s));
    milliseconds(20);
    THAT(calls == 0);
    OK(cuStreamWriteValue32(t, flag, 4, 0));
    milliseconds(20);
    THAT(calls == 0);
    OK(cuStreamWriteValue32(t, flag, 5, 0));
    OK(cuStreamSynchronize(s));
    THAT(calls == 1);
    struct { int op; Addr at; uint64_t value; unsigned flags; Addr alias; } list[3] = {
        {1, flag, 5, 1, 0}, {2, flag, 77, 0, 0}, {1, flag, 77, 1, 0}};
    char operations[3 * 48] = {0};
    for (int i = 0; i < 3; i++)
        memcpy(operations + 48 * i, &list[i], sizeof list[i]);
    OK(cuStreamBatchMemOp(s, 3, operations, 0));
    THAT(differs(flag, 77, 1, s) == 1);
    WANT(1, cuStreamWaitValue32(s, flag + 2, 0, 0)); /* not aligned */
    WANT(1, cuStreamWaitValue32(s, (Addr)(uintptr_t)&calls, 0, 0)); /* not registered */
    WANT(801, cuStreamWaitValue32(s, flag, 0, 1u << 30)); /* no remote flush */
}

static void host_memory(void) {
    use_device(0);
    void *s = new_stream();
    char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    Addr d;
    int type;
    WANT(713, cuMemHostUnregister(p));
    WANT(1, cuMemHostGetDevicePointer(&d, p, 0));
    OK(cuMemHostRegister(p, 8192, 3));
    WANT(712, cuMemHostRegister(p + 4096, 4096, 3));
    OK(cuMemHostGetDevicePointer(&d, p + 100, 0));
    OK(cuMemsetD8Async(d, 7, 50, s));
    OK(cuStreamSynchronize(s));
    THAT(p[99] == 0 && p[100] == 7 && p[149] == 7 && p[150] == 0);
    OK(cuPointerGetAttribute(&type, 2, d));
    THAT(type == 1);
    OK(cuMemHostUnregister(p));
    WANT(1, cuPointerGetAttribute(&type, 2, d));
    munmap(p, 8192);
    WANT(1, cuMemHostRegister(p, 8192, 3)); /* no memory at this address */
}

static void pointers(void) {
    use_device(3);
    Addr x, base, pool;
    size_t size;
    int type = -1, ordinal = -1, ipc = -1;
    OK(cuMemAlloc(&x, 1000));
    THAT(x % 256 == 0);
    OK(cuMemGetAddressRange(&base, &size, x + 999));
    THAT(base == x && size == 1000);
    WANT(500, cuMemGetAddressRange(&base, &size, x + 1000));
    int which[] = {2, 9, 10};
    void *data[] = {&type, &ordinal, &ipc};
    OK(cuPointerGetAttributes(3, which, data, x + 5));
    THAT(type == 2 && ordinal == 3 && ipc == 1);
    OK(cuPointerGetAttributes(3, which, data, (Addr)(uintptr_t)&x)); /* the result is "unknown" */
    THAT(type == 0 && ordinal == -2 && ipc == 0);
    Handle h;
    void *s = new_stream();
    OK(cuMemAllocAsync(&pool, 1000, s));
    OK(cuPointerGetAttributes(3, which, data, pool));
    THAT(type == 2 && ordinal == 3 && ipc == 0);
    WANT(1, cuIpcGetMemHandle(&h, pool));
    OK(cuMemFree(pool));
    OK(cuMemFree(x));
}

/* Calls that the other tests do not make. */
static void peers(void) {
    void *a = use_device(0), *b, *s, *add;
    Addr x, y;
    int value;
    OK(cuMemAlloc(&x, N * 4));
    b = use_device(3);
    s = new_stream();
    OK(cuMemAlloc(&y, N * 4));
    fill(y, 11, N, s);
    OK(cuMemcpyPeerAsync(x, a, y, b, N * 4, s));
    THAT(differs(x, 11, N, s) == N);
    WANT(1, cuMemcpyPeerAsync(x, b, y, b, N * 4, s)); /* x is a's */
    WANT(201, cuMemcpyPeerAsync(x, NULL, y, b, N * 4, s));
    OK(cuDeviceGetP2PAttribute(&value, 2, 0, 3));
    THAT(value == 1);
    OK(cuDeviceGetP2PAttribute(&value, 2, 0, 7));
    THAT(value == 0);
    OK(cuDeviceGetP2PAttribute(&value, 1, 0, 3)); /* two NVLinks: the best */
    THAT(value == 0);
    WANT(101, cuDeviceGetP2PAttribute(&value, 2, 0, 0));
    add = load_add();
    OK(cuFuncGetAttribute(&value, 0, add));
    THAT(value == 1024);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, add, 256, 0));
    THAT(value == 8);
    struct { Addr to, a, b; unsigned n, pad; } args = {y, y, y, N, 0};
    size_t size = sizeof args;
    void *extra[] = {(void *)1, &args, (void *)2, &size, NULL};
    OK(cuLaunchKernel(add, 3, 1, 1, 32, 1, 1, 0, s, NULL, extra));
    THAT(differs(y, 22 + N, N, s) == N);
    size--;
    WANT(1, cuLaunchKernel(add, 3, 1, 1, 32, 1, 1, 0, s, NULL, extra));
    OK(cuMemAllocAsync(&x, 64, s));
    OK(cuMemsetD8Async(x, 1, 64, s));
    OK(cuMemFreeAsync(x, s));
    WANT(1, cuMemFreeAsync(y, s)); /* not from a pool */
}

/* A module is refused as the real driver refuses it. */
static void modules(void) {
    void *module;
    char log[200] = "";
    int options[] = {5, 6};
    void *values[] = {log, (void *)sizeof log};
    use_device(0);
    WANT(218, cuModuleLoadDataEx(&module, "nonsense", 2, options, values));
    THAT(strstr(log, ".version") != NULL);
    WANT(209, cuModuleLoadDataEx(&module, ".version 6.0\n.target sm_80\n", 2, options, values));
    WANT(222, cuModuleLoadDataEx(&module, ".version 9.9\n.target sm_70\n", 2, options, values));
    WANT(200, cuModuleLoadDataEx(&module, "\x7f" "ELF", 2, options, values));
    void *function = load_add();
    OK(cuModuleLoadDataEx(&module, ".version 6.0\n.target sm_70\n.entry add(\n.param .align 8 .b8 p[31]\n)", 0, NULL, NULL));
    WANT(500, cuModuleGetFunction(&function, module, "add")); /* a different size of arguments */
    OK(cuModuleUnload(module));
    WANT(400, cuModuleGetFunction(&function, module, "add"));
}

/* With TREERUN_FAKE_GPU_SLOW=1000 a link of 50 GB/s has 50 MB/s. */
static void slow(void) {
    float ms;
    void *e[4], *s;
    Addr x[3];
    static const int device[] = {1, 3, 0}; /* 0-1 has 25 GB/s, 0-3 has 50 */
    for (int i = 0; i < 3; i++) {
        use_device(device[i]);
        OK(cuMemAlloc(&x[i], 1 << 20));
    }
    s = new_stream();
    for (int i = 0; i < 3; i++) {
        OK(cuEventCreate(&e[i], 0));
        OK(cuEventRecord(e[i], s));
        if (i < 2)
            OK(cuMemcpyAsync(x[2], x[i], 1 << 20, s));
    }
    OK(cuStreamSynchronize(s));
    OK(cuEventElapsedTime(&ms, e[0], e[1]));
    THAT(ms >= 41.9f);
    OK(cuEventElapsedTime(&ms, e[1], e[2]));
    THAT(ms >= 20.9f);
}

static void *wait_for_flag(void *flag) {
    milliseconds(30);
    *(volatile uint32_t *)flag = 1;
    return NULL;
}

/* Freeing waits for the work that may touch the memory, as the real driver does. */
static void free_waits(void) {
    use_device(0);
    void *s = new_stream();
    Addr x;
    uint32_t *flag;
    pthread_t thread;
    OK(cuMemAlloc(&x, 64));
    OK(cuMemHostAlloc((void **)&flag, 64, 0));
    *flag = 0;
    OK(cuStreamWaitValue32(s, (Addr)(uintptr_t)flag, 1, 0));
    OK(cuMemsetD8Async(x, 1, 64, s));
    OK(cuLaunchHostFunc(s, count, NULL));
    pthread_create(&thread, NULL, wait_for_flag, flag);
    OK(cuMemFree(x));
    THAT(calls == 1);
    pthread_join(thread, NULL);
}

const struct test single_tests[] = {
    {"devices", devices}, {"addresses", addresses}, {"kernel", kernel}, {"order", order}, {"disorder", disorder},
    {"events", events}, {"values", values}, {"host-memory", host_memory}, {"pointers", pointers}, {"free-waits", free_waits},
    {"peers", peers}, {"modules", modules}, {"slow", slow}, {NULL, NULL},
};
