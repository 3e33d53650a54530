#define _GNU_SOURCE
#include "driver.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Device memory lies in a range of addresses that has no other use, with holes between the allocations, so that a
 * wrong device address is detected. An allocation ends where its last page ends (except for 256 bytes of alignment):
 * a read beyond it hits a hole. The table is sorted by address. Blocks of small allocations are in the upper half of
 * the range, each with its own file. */
enum { PAGE = 4096, HOLE = 16 * PAGE, ALIGNMENT = 256, POISONED = 1 << 20, SMALL = 1 << 20, BLOCKS = 1 << 10 };

static struct block {
    enum memory_kind kind;
    struct context *context;
    uintptr_t at;
    int file, users; /* without users there is no file */
} blocks[BLOCKS];

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

static uintptr_t middle(void) { return round_up(range + (range_end - range) / 2, BLOCK); }

bool in_reserved_range(uintptr_t p) { return p >= range && p < range_end; }

/* The first entry that ends after p. */
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

/* A gap between two addresses for length bytes and a hole, 0 if there is none. */
static uintptr_t find_gap(uintptr_t from, uintptr_t to, size_t length, size_t alignment) {
    uintptr_t at = round_up(from, alignment);
    for (size_t i = 0; i < entries; i++) {
        uintptr_t start = (uintptr_t)table[i].start;
        if (start < from || start >= to)
            continue;
        if (at + length + HOLE <= start)
            break;
        at = round_up(start + table[i].length + HOLE, alignment);
    }
    return at + length + HOLE <= to ? at : 0;
}

/* Finds room for a small allocation in a block, which may be a new one. */
static uintptr_t find_in_block(struct mapping *m) {
    struct block *unused = NULL;
    for (int i = 0; i < BLOCKS; i++) {
        struct block *b = &blocks[i];
        b->at = middle() + (uintptr_t)i * 2 * BLOCK;
        uintptr_t at = b->users > 0 && b->kind == m->kind && b->context == m->context ? find_gap(b->at, b->at + BLOCK, m->length, PAGE) : 0;
        if (at) {
            m->block = b;
            return at;
        }
        if (b->users == 0 && !unused)
            unused = b;
    }
    if (!unused || unused->at + BLOCK > range_end)
        return 0;
    int file = memfd_create("fake-gpu-block", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, BLOCK) != 0)
        return 0;
    unused->kind = m->kind;
    unused->context = m->context;
    unused->file = file;
    m->block = unused;
    return unused->at;
}

static CUresult place(struct mapping *m) {
    pthread_mutex_lock(&lock);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    uintptr_t at = 0, offset = 0;
    if ((range || reserve_range()) && m->file < 0) {
        at = find_in_block(m);
        if (at) {
            m->block->users++;
            m->file = m->block->file;
            offset = at - m->block->at;
        }
    } else if (range) {
        at = find_gap(range + HOLE, middle(), m->length, BLOCK);
    }
    if (at && mmap((void *)at, m->length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, m->file, (off_t)offset) != MAP_FAILED) {
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
    struct mapping m = {.kind = kind, .size = size, .gpu = c->gpu, .context = c, .file = -1, .id = new_id()};
    m.length = round_up(round_up(size, ALIGNMENT), PAGE);
    if (!board_take(c->gpu, m.length))
        return CUDA_ERROR_OUT_OF_MEMORY;
    m.base = m.length - round_up(size, ALIGNMENT); /* from the start, which place sets */
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (size <= SMALL) {
        result = place(&m);
    } else if ((m.file = memfd_create("fake-gpu", MFD_CLOEXEC)) >= 0 && ftruncate(m.file, (off_t)m.length) == 0) {
        result = place(&m);
    }
    if (result != CUDA_SUCCESS) {
        complain("%zu bytes of memory for GPU %d: %m", size, c->gpu);
        if (m.file >= 0 && !m.block)
            close(m.file);
        board_give(c->gpu, m.length);
        return result;
    }
    if (size <= POISONED)
        memset(m.start, 0xa5, m.length); /* a program that relies on zeros is wrong */
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
    struct mapping m = {.kind = kind, .size = size, .gpu = -1, .file = -1, .context = c, .id = new_id()};
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

bool is_imported(uint64_t inode, struct context *c) {
    pthread_mutex_lock(&lock);
    bool found = false;
    for (size_t i = 0; i < entries && !found; i++)
        found = table[i].kind == MEMORY_IMPORTED && table[i].inode == inode && table[i].context == c;
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
    if (m.block) {
        fallocate(m.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)((uintptr_t)m.start - m.block->at), (off_t)m.length);
        m.block->users--;
    }
    if (m.file >= 0 && (!m.block || m.block->users == 0))
        close(m.file);
    if (m.kind == MEMORY_DEVICE || m.kind == MEMORY_POOL)
        board_give(m.gpu, m.length);
}

bool drop_mapping(uintptr_t p, unsigned kinds) {
    pthread_mutex_lock(&lock);
    size_t i = position(p);
    bool found = i < entries && table[i].base == p && (kinds & 1u << table[i].kind);
    if (found)
        unmap(i);
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
