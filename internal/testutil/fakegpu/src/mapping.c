#define _GNU_SOURCE
#include "driver.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Device memory lies in a range of addresses that nothing else uses, with holes
 * between the allocations, so that a wrong device address is seen as one. An
 * allocation ends where its last page ends (but for 256 bytes of alignment):
 * what reads beyond it hits a hole. The table is sorted by address. */
enum { PAGE = 4096, HOLE = 16 * PAGE, ALIGNMENT = 256, POISONED = 1 << 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mapping *table;
static size_t entries, room;
static uintptr_t range, range_end;

static uintptr_t round_up(uintptr_t n, uintptr_t to) { return (n + to - 1) / to * to; }

static bool reserve_range(void) {
    for (size_t length = (size_t)1 << 40; range == 0 && length >= (size_t)1 << 32; length /= 4) {
        void *p = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p != MAP_FAILED) {
            range = (uintptr_t)p;
            range_end = range + length;
        }
    }
    return range != 0;
}

bool in_reserved_range(uintptr_t p) { return p >= range && p < range_end; }

/* The first entry that ends behind p. */
static size_t position(uintptr_t p) {
    size_t low = 0, high = entries;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (table[middle].base + table[middle].size <= p)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool insert(const struct mapping *m) {
    if (entries == room) {
        struct mapping *larger = realloc(table, (2 * room + 64) * sizeof *table);
        if (!larger)
            return false;
        table = larger;
        room = 2 * room + 64;
    }
    size_t i = position(m->base);
    memmove(&table[i + 1], &table[i], (entries - i) * sizeof *table);
    table[i] = *m;
    entries++;
    return true;
}

static void erase(size_t i) {
    memmove(&table[i], &table[i + 1], (entries - i - 1) * sizeof *table);
    entries--;
}

/* A gap of the range for length bytes and a hole, 0 if there is none. */
static uintptr_t find_gap(size_t length) {
    uintptr_t at = range + HOLE;
    for (size_t i = 0; i < entries; i++) {
        uintptr_t start = (uintptr_t)table[i].start;
        if (!in_reserved_range(start))
            continue;
        if (at + length + HOLE <= start)
            break;
        at = start + table[i].length + HOLE;
    }
    return at + length + HOLE <= range_end ? at : 0;
}

static CUresult place(struct mapping *m) {
    pthread_mutex_lock(&lock);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    uintptr_t at = range || reserve_range() ? find_gap(m->length) : 0;
    if (at && mmap((void *)at, m->length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, m->file, 0) != MAP_FAILED) {
        m->start = (void *)at;
        m->base += at;
        if (insert(m))
            result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* An id that no other allocation of this host has. */
static uint64_t new_id(void) {
    static _Atomic uint32_t count;
    return (uint64_t)getpid() << 32 | (atomic_fetch_add(&count, 1) + 1);
}

CUresult map_device_memory(enum memory_kind kind, struct context *c, size_t size, uintptr_t *base) {
    struct mapping m = {.kind = kind, .size = size, .gpu = c->gpu, .context = c, .references = 1, .id = new_id()};
    m.length = round_up(round_up(size, ALIGNMENT), PAGE);
    if (!board_take(c->gpu, m.length))
        return CUDA_ERROR_OUT_OF_MEMORY;
    m.base = m.length - round_up(size, ALIGNMENT); /* from the start, which place finds */
    m.file = memfd_create("fake-gpu", MFD_CLOEXEC);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (m.file >= 0 && ftruncate(m.file, (off_t)m.length) == 0)
        result = place(&m);
    if (result != CUDA_SUCCESS) {
        complain("%zu bytes of memory for GPU %d: %m", size, c->gpu);
        if (m.file >= 0)
            close(m.file);
        board_give(c->gpu, m.length);
        return result;
    }
    if (size <= POISONED)
        memset(m.start, 0xa5, m.length); /* whoever counts on zeros is wrong */
    *base = m.base;
    return CUDA_SUCCESS;
}

CUresult map_import(int file, size_t length, const struct mapping *like, uintptr_t *base) {
    struct mapping m = *like;
    m.file = file;
    m.length = length;
    CUresult result = place(&m);
    *base = m.base;
    return result;
}

static bool overlaps(uintptr_t p, size_t n) {
    size_t i = position(p);
    return in_reserved_range(p) || (i < entries && table[i].base < p + n);
}

bool overlaps_mapping(uintptr_t p, size_t n) {
    pthread_mutex_lock(&lock);
    bool yes = overlaps(p, n);
    pthread_mutex_unlock(&lock);
    return yes;
}

CUresult map_host_memory(enum memory_kind kind, struct context *c, void *p, size_t size, uintptr_t *base) {
    struct mapping m = {.kind = kind, .size = size, .gpu = -1, .file = -1, .context = c, .references = 1, .id = new_id()};
    if (kind == MEMORY_PINNED) {
        m.length = round_up(size, PAGE);
        p = mmap(NULL, m.length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            return CUDA_ERROR_OUT_OF_MEMORY;
        m.start = p;
    }
    m.base = (uintptr_t)p;
    pthread_mutex_lock(&lock);
    CUresult result = overlaps(m.base, size) ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
                      : insert(&m)           ? CUDA_SUCCESS
                                             : CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&lock);
    *base = m.base;
    return result;
}

bool find_mapping(uintptr_t p, size_t n, struct mapping *m) {
    pthread_mutex_lock(&lock);
    size_t i = position(p);
    bool found = i < entries && table[i].base <= p && n <= table[i].size - (p - table[i].base);
    if (found)
        *m = table[i];
    pthread_mutex_unlock(&lock);
    return found;
}

bool find_import(uint64_t id, struct context *c, struct mapping *m) {
    pthread_mutex_lock(&lock);
    bool found = false;
    for (size_t i = 0; i < entries && !found; i++) {
        if (table[i].kind == MEMORY_IMPORTED && table[i].id == id && table[i].context == c) {
            table[i].references++;
            *m = table[i];
            found = true;
        }
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* Unmaps entry i, which leaves a hole. */
static void unmap(size_t i) {
    struct mapping m = table[i];
    erase(i);
    if (m.kind == MEMORY_PINNED)
        munmap(m.start, m.length);
    else if (m.start)
        mmap(m.start, m.length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (m.file >= 0)
        close(m.file);
    if (m.kind == MEMORY_DEVICE || m.kind == MEMORY_POOL)
        board_give(m.gpu, m.length);
}

bool drop_mapping(uintptr_t p, unsigned kinds, struct mapping *m) {
    pthread_mutex_lock(&lock);
    size_t i = position(p);
    bool found = i < entries && table[i].base == p && (kinds & 1u << table[i].kind);
    if (found) {
        *m = table[i];
        if (--table[i].references == 0)
            unmap(i);
    }
    pthread_mutex_unlock(&lock);
    return found;
}

void drop_mappings_of(struct context *c) {
    pthread_mutex_lock(&lock);
    for (size_t i = entries; i-- > 0;) {
        if (table[i].context == c)
            unmap(i);
    }
    pthread_mutex_unlock(&lock);
}

bool accessible(const struct mapping *m, const struct context *c) {
    return m->gpu < 0 || m->gpu == c->gpu || atomic_load(&c->peers[m->gpu]);
}
