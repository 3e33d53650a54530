#define _GNU_SOURCE
#include "host.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

/* A process holds a lock on the byte of its slot for as long as it lives, so a slot without one is that of a dead
 * process, and no longer counts. Byte 0 is locked by enter. Such locks end with the process, even by kill -9. */
static struct board *shared;
static int file = -1;
static int own = -1;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t taking = PTHREAD_MUTEX_INITIALIZER; /* enter, among the threads of this process */

static struct flock at_byte(int byte, short type) {
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
}

static bool lock_byte(int byte, bool wait) {
    struct flock l = at_byte(byte, F_WRLCK);
    return fcntl(file, wait ? F_OFD_SETLKW : F_OFD_SETLK, &l) == 0;
}

static void unlock_byte(int byte) {
    struct flock l = at_byte(byte, F_UNLCK);
    fcntl(file, F_OFD_SETLK, &l);
}

/* Between enter and leave no other thread or process takes memory, counts it, or takes a slot in which a dead
 * process has left its count. */
static void enter(void) {
    pthread_mutex_lock(&taking);
    lock_byte(0, true);
}

static void leave(void) {
    unlock_byte(0);
    pthread_mutex_unlock(&taking);
}

static bool alive(int slot) {
    struct flock l = at_byte(1 + slot, F_WRLCK);
    return slot == own || fcntl(file, F_OFD_GETLK, &l) != 0 || l.l_type != F_UNLCK;
}

static void map(void) {
    char path[4096];
    host_path(path, sizeof path, "board");
    file = open(path, O_RDWR | O_CLOEXEC | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof *shared) != 0) {
        complain("open %s: %m", path);
        return;
    }
    void *p = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (p == MAP_FAILED)
        complain("map %s: %m", path);
    else
        shared = p;
}

struct board *board(void) {
    pthread_once(&once, map);
    return shared;
}

bool board_join(void) {
    if (!board())
        return false;
    enter();
    for (int i = 0; own < 0 && i < MAX_PROCESSES; i++) {
        if (lock_byte(1 + i, false))
            own = i;
    }
    for (int gpu = 0; own >= 0 && gpu < MAX_GPUS; gpu++)
        atomic_store(&shared->slots[own].used[gpu], 0);
    leave();
    if (own < 0)
        complain("more than %d processes on this fake host", MAX_PROCESSES);
    return own >= 0;
}

static uint64_t sum_of(int gpu) {
    uint64_t sum = 0;
    for (int i = 0; i < MAX_PROCESSES; i++) {
        uint64_t used = atomic_load(&shared->slots[i].used[gpu]);
        if (used && alive(i))
            sum += used;
    }
    return sum;
}

uint64_t board_used(int gpu) {
    enter();
    uint64_t sum = sum_of(gpu);
    leave();
    return sum;
}

bool board_take(int gpu, uint64_t bytes) {
    uint64_t limit = topology()->gpu[gpu].memory;
    enter();
    bool ok = bytes <= limit && sum_of(gpu) <= limit - bytes;
    if (ok)
        atomic_fetch_add(&shared->slots[own].used[gpu], bytes);
    leave();
    return ok;
}

void board_give(int gpu, uint64_t bytes) { atomic_fetch_sub(&shared->slots[own].used[gpu], bytes); }
