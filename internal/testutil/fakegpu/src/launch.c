#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Kernels are functions of libtreerun_kernels.so, which run once per thread of
 * every block, one after the other. */
static void *library;

static void open_library(void) {
    library = dlopen("libtreerun_kernels.so", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        complain("no kernels: %s", dlerror());
}

static void *symbol(const char *name) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_library);
    void *found = library ? dlsym(library, name) : NULL;
    if (library && !found)
        complain("libtreerun_kernels.so does not export %s", name);
    return found;
}

const struct host_kernel *host_kernel(const char *name) {
    for (const struct host_kernel *k = symbol("treerun_kernels"); k && k->name; k++) {
        if (strcmp(k->name, name) == 0)
            return k;
    }
    return NULL;
}

struct index {
    unsigned x, y, z;
};

/* This thread's own threadIdx and so on. */
static _Thread_local struct { struct index *thread, *block, *block_size, *grid_size; } at;

static bool find_indices(void) {
    if (!at.grid_size) {
        at.thread = symbol("threadIdx");
        at.block = symbol("blockIdx");
        at.block_size = symbol("blockDim");
        at.grid_size = symbol("gridDim");
    }
    return at.thread && at.block && at.block_size && at.grid_size;
}

static void run_block(const struct host_kernel *k, const void *args) {
    struct index n = *at.block_size;
    for (unsigned z = 0; z < n.z; z++) {
        for (unsigned y = 0; y < n.y; y++) {
            for (unsigned x = 0; x < n.x; x++) {
                *at.thread = (struct index){x, y, z};
                k->run(args);
            }
        }
    }
}

static void run_grid(const struct host_kernel *k, const unsigned *grid, const unsigned *block, const void *args) {
    *at.block_size = (struct index){block[0], block[1], block[2]};
    *at.grid_size = (struct index){grid[0], grid[1], grid[2]};
    for (unsigned z = 0; z < grid[2]; z++) {
        for (unsigned y = 0; y < grid[1]; y++) {
            for (unsigned x = 0; x < grid[0]; x++) {
                *at.block = (struct index){x, y, z};
                run_block(k, args);
            }
        }
    }
}

/* Reports whether a word seems to be an address of this process's own heap or stack: no count is that large. */
static bool looks_like_host_memory(uintptr_t p) {
    const uintptr_t page = 4096;
    unsigned char resident;
    return p >= (uintptr_t)0xc0 << 32 && p < (uintptr_t)1 << 47 && mincore((void *)(p / page * page), page, &resident) == 0;
}

/* Replaces the memory at the other end of a link that corrupts: the kernel gets a copy with wrong bits, and its
 * writes there are lost. */
static bool replace_memory(uintptr_t *word, const struct mapping *m, void **copy) {
    *copy = malloc(m->size);
    if (!*copy)
        return false;
    memcpy(*copy, (void *)m->base, m->size);
    for (size_t i = 5; i < m->size; i += 64)
        ((unsigned char *)*copy)[i] ^= 0x40;
    *word = (uintptr_t)*copy + (*word - m->base);
    return true;
}

/* Checks one word of the arguments that may be an address. */
static CUresult check_word(struct stream *s, uintptr_t *word, void **copy) {
    struct mapping m;
    /* The end of an allocation is as valid as its last byte: kernels do not read there. */
    if (find_mapping(*word, 1, &m) || (*word && find_mapping(*word - 1, 1, &m))) {
        if (!accessible(&m, s->context))
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        switch (link_damage(s->context->gpu, m.gpu)) {
        case LINK_HANGS: hang(s); return CUDA_SUCCESS;
        case LINK_CORRUPTS: return replace_memory(word, &m, copy) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        default: return CUDA_SUCCESS;
        }
    }
    return in_reserved_range(*word) || looks_like_host_memory(*word) ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

/* Every word of the arguments that looks like an address must be one that the device can access. */
void run_kernel(struct stream *s, struct operation *o) {
    const struct host_kernel *k = o->kernel.function->kernel;
    enum { MOST = 64 };
    void *copies[MOST] = {NULL};
    CUresult error = find_indices() ? CUDA_SUCCESS : CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
    for (size_t i = 0; i < k->args_size / sizeof(uintptr_t) && i < MOST && error == CUDA_SUCCESS; i++)
        error = check_word(s, (uintptr_t *)o->kernel.args + i, &copies[i]);
    if (error != CUDA_SUCCESS)
        fail_context(s->context, error);
    else if (!must_stop(s))
        run_grid(k, o->kernel.grid, o->kernel.block, o->kernel.args);
    for (int i = 0; i < MOST; i++)
        free(copies[i]);
}
