/* Several processes. */
#define _GNU_SOURCE
#include "drive.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 8, N = 50000 };

/* The data that the processes share in addition to device memory. */
static struct board {
    _Atomic int arrived;
    Handle memory[RANKS];
    Addr distance;
    struct { _Atomic uint32_t word; char line[60]; } flag[RANKS];
} *board;

static void barrier(int round) {
    board->arrived++;
    while (board->arrived < RANKS * round)
        milliseconds(1);
}

static int start(int ranks, void (*run)(int rank)) {
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int r = 0; r < ranks; r++) {
        if (fork() == 0) {
            run(r);
            exit(0);
        }
    }
    int failed = 0, status;
    while (wait(&status) > 0)
        failed += status != 0;
    return failed;
}

/* Neighbours joined by NVLinks: a ring through all of them. */
static const int ring[RANKS] = {0, 1, 2, 3, 7, 6, 5, 4};

/* Every rank has its number and gets its left neighbour's from there, RANKS times: the sum is that of all numbers.
 * Only waits and writes of values order the steps, and no thread of the host. */
static void ring_rank(int r) {
    void *s, *add;
    Addr own, out, left, flags;
    use_device(ring[r]);
    s = new_stream();
    add = load_add();
    OK(cuMemAlloc(&out, 2 * N * 4 + 3));
    own = out + N * 4 / 2; /* inside an allocation: base and offset */
    OK(cuIpcGetMemHandle(&board->memory[r], own));
    OK(cuMemHostRegister(board, sizeof *board, 3));
    OK(cuMemHostGetDevicePointer(&flags, board->flag, 0));
    WANT(201, cuIpcOpenMemHandle(&left, board->memory[r], 1)); /* a handle of its own */
    barrier(1);
    int from = (r + RANKS - 1) % RANKS;
    OK(cuIpcOpenMemHandle(&left, board->memory[from], 1));
    left += N * 4 / 2;
    Addr kept;
    OK(cuMemAlloc(&kept, N * 4));
    fill(own, 1 << r, N, s);
    fill(kept, 0, N, s);
    /* Round k: publish the own value, take the left one's into kept, which then is the own value. */
    for (uint32_t k = 1; k <= RANKS; k++) {
        OK(cuStreamWriteValue32(s, flags + 64 * (unsigned)r, 2 * k - 1, 0));
        OK(cuStreamWaitValue32(s, flags + 64 * (unsigned)from, 2 * k - 1, 0));
        OK(launch_add(add, s, kept, kept, left, N, 2));
        OK(cuMemcpyAsync(out, left, 8, s));
        OK(cuStreamWriteValue32(s, flags + 64 * (unsigned)r, 2 * k, 0));
        OK(cuStreamWaitValue32(s, flags + 64 * (unsigned)((r + 1) % RANKS), 2 * k, 0));
    }
    THAT(differs(kept, RANKS * (1 << from) + RANKS * N, N, s) == N);
    OK(cuIpcCloseMemHandle(left - N * 4 / 2));
    WANT(1, cuIpcCloseMemHandle(left - N * 4 / 2));
    barrier(2);
}

static void ipc(void) { THAT(start(RANKS, ring_rank) == 0); }

static void dead_rank(int r) {
    Addr x, y;
    void *s;
    size_t left, total;
    if (r >= 2) {
        barrier(1), barrier(2), barrier(3);
        return;
    }
    use_device(r);
    s = new_stream();
    if (r == 1) {
        OK(cuMemAlloc(&x, 64 << 20));
        fill(x, 9, N, s);
        OK(cuStreamSynchronize(s));
        OK(cuIpcGetMemHandle(&board->memory[1], x));
        OK(cuStreamWaitValue32(s, x, 1234, 1)); /* waits forever */
        barrier(1), barrier(2);
        board->arrived++; /* at the third */
        raise(SIGKILL);
    }
    barrier(1);
    OK(cuIpcOpenMemHandle(&x, board->memory[1], 1));
    THAT(differs(x, 9, N, s) == N);
    barrier(2);
    use_device(1);
    for (int i = 0; i < 5000; i++) { /* until it is dead */
        OK(cuMemGetInfo(&left, &total));
        if (left == total)
            break;
        milliseconds(1);
    }
    THAT(left == total);
    use_device(0);
    s = new_stream();
    THAT(differs(x, 9, N, s) == N); /* mapped memory stays */
    OK(cuIpcCloseMemHandle(x));
    WANT(1, cuIpcOpenMemHandle(&y, board->memory[1], 1));
    barrier(3);
}

static void ipc_dead(void) { THAT(start(RANKS, dead_rank) == 1); }

/* Handles that cannot be opened. */
static void bad_rank(int r) {
    Addr x, y;
    if (r == 1) {
        use_device(1);
        OK(cuMemAlloc(&x, 4096));
        OK(cuIpcGetMemHandle(&board->memory[1], x));
        OK(cuMemAlloc(&y, 4 << 20)); /* a small one's handle opens its block */
        OK(cuIpcGetMemHandle(&board->memory[2], y));
        OK(cuMemFree(y));
        WANT(1, cuIpcGetMemHandle(&board->memory[3], y));
        barrier(1);
    }
    if (r == 0) {
        barrier(1);
        use_device(0);
        WANT(1, cuIpcOpenMemHandle(&y, board->memory[2], 1)); /* freed */
        WANT(1, cuIpcOpenMemHandle(&y, board->memory[1], 0)); /* flags */
        Handle h = board->memory[1];
        for (unsigned i = 0; i < sizeof h; i++) { /* any bit wrong: no crash, and not that memory */
            h.b[i] ^= 0x41;
            if (cuIpcOpenMemHandle(&y, h, 1) == 0)
                OK(cuIpcCloseMemHandle(y));
            h.b[i] ^= 0x41;
        }
        use_device(5);
        WANT(217, cuIpcOpenMemHandle(&y, (use_device(6), board->memory[1]), 1)); /* no link joins 6 and 1 */
        use_device(5);
        OK(cuIpcOpenMemHandle(&y, board->memory[1], 1));
    }
    if (r >= 2)
        barrier(1);
    barrier(2);
}

static void ipc_bad(void) { THAT(start(RANKS, bad_rank) == 0); }

/* Small allocations share a block, which a process opens once, by any of their handles. */
static void block_rank(int r) {
    Addr small[2], large, a, b;
    void *s;
    use_device(r);
    s = new_stream();
    if (r == 1) {
        OK(cuMemAlloc(&small[0], 1000));
        OK(cuMemAlloc(&small[1], 5000));
        OK(cuMemAlloc(&large, 2 << 20));
        THAT(small[0] >> 21 == small[1] >> 21 && large >> 21 != small[0] >> 21);
        OK(cuMemsetD8Async(small[0], 3, 1000, s));
        OK(cuMemsetD8Async(small[1], 4, 5000, s));
        OK(cuStreamSynchronize(s));
        OK(cuIpcGetMemHandle(&board->memory[0], small[0]));
        OK(cuIpcGetMemHandle(&board->memory[1], small[1]));
        OK(cuIpcGetMemHandle(&board->memory[2], large));
        board->distance = small[1] - small[0];
    }
    barrier(1);
    if (r == 0) {
        OK(cuIpcOpenMemHandle(&a, board->memory[0], 1));
        WANT(208, cuIpcOpenMemHandle(&b, board->memory[0], 1));
        WANT(208, cuIpcOpenMemHandle(&b, board->memory[1], 1));
        THAT(differs(a, 0x03030303, 250, s) == 250);
        THAT(differs(a + board->distance, 0x04040404, 1250, s) == 1250);
        OK(cuIpcOpenMemHandle(&b, board->memory[2], 1));
        OK(cuIpcCloseMemHandle(b));
        OK(cuIpcCloseMemHandle(a));
        OK(cuIpcOpenMemHandle(&b, board->memory[1], 1));
        THAT(differs(b, 0x04040404, 1250, s) == 1250);
    }
    barrier(2);
}

static void ipc_block(void) { THAT(start(RANKS, block_rank) == 0); }

/* Each process sees only one GPU, and can still open the other's memory. */
static void hidden_rank(int r) {
    if (r >= 2) {
        barrier(1), barrier(2);
        return;
    }
    Addr x, y, sum;
    int count;
    setenv("CUDA_VISIBLE_DEVICES", r == 0 ? "0" : "1", 1);
    use_device(0);
    OK(cuDeviceGetCount(&count));
    THAT(count == 1);
    void *s = new_stream();
    OK(cuMemAlloc(&x, N * 4));
    fill(x, 7 + r, N, s);
    OK(cuStreamSynchronize(s));
    OK(cuIpcGetMemHandle(&board->memory[r], x));
    barrier(1);
    OK(cuIpcOpenMemHandle(&y, board->memory[1 - r], 1));
    THAT(differs(y, 8 - r, N, s) == N);
    OK(cuMemAlloc(&sum, N * 4));
    OK(launch_add(load_add(), s, sum, y, x, N, 2));
    THAT(differs(sum, 15 + N, N, s) == N);
    barrier(2);
}

static void ipc_hidden(void) { THAT(start(RANKS, hidden_rank) == 0); }

/* For two fake hosts: one process prints a handle and holds the memory until its input ends, the other reads the
 * handle and cannot open it. */
static void export_handle(void) {
    Addr x;
    Handle h;
    use_device(1);
    OK(cuMemAlloc(&x, 4096));
    OK(cuIpcGetMemHandle(&h, x));
    for (unsigned i = 0; i < sizeof h; i++)
        printf("%02x", (unsigned char)h.b[i]);
    printf("\n");
    fflush(stdout);
    while (getchar() != EOF)
        ;
}

static void read_handle(Handle *h) {
    for (unsigned i = 0; i < sizeof *h; i++)
        THAT(scanf("%2hhx", (unsigned char *)&h->b[i]) == 1);
}

static void import_foreign(void) {
    Addr x;
    Handle h;
    use_device(0);
    read_handle(&h);
    WANT(1, cuIpcOpenMemHandle(&x, h, 1));
}

static void import_own(void) {
    Addr x;
    Handle h;
    use_device(0);
    read_handle(&h);
    OK(cuIpcOpenMemHandle(&x, h, 1));
}

const struct test shared_tests[] = {
    {"ipc", ipc}, {"ipc-dead", ipc_dead}, {"ipc-bad", ipc_bad}, {"ipc-hidden", ipc_hidden},
    {"ipc-block", ipc_block},
    {"export", export_handle}, {"import-foreign", import_foreign}, {"import", import_own}, {NULL, NULL},
};
