#define _GNU_SOURCE
#include "driver.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The contents of a handle's 64 bytes. The memory is a file without a name: another process opens it through the
 * exporter's descriptor, for as long as the exporter keeps it. An open file stays valid when the exporter ends. */
struct handle {
    uint32_t magic;
    int32_t process, file, gpu;
    uint64_t host, inode, id;
    uint64_t length, offset, size; /* of the file; of the memory in it */
};

_Static_assert(sizeof(struct handle) == 64, "a handle has 64 bytes");
enum { MEMORY_MAGIC = 0x6d656d31 };

static bool describe(struct handle *h, int file) {
    struct stat s;
    if (fstat(file, &s) != 0)
        return false;
    h->process = getpid();
    h->file = file;
    h->host = topology()->nonce;
    h->inode = s.st_ino;
    h->length = (uint64_t)s.st_size;
    return true;
}

/* Opens the memory of a handle. A handle of another host, of a process that has ended or of freed memory is an
 * invalid value, as with a real driver, and one of the own process is of an invalid context. */
static CUresult open_handle(const struct handle *h, int *file) {
    if (h->magic != MEMORY_MAGIC || h->host != topology()->nonce || h->length == 0 || h->offset > h->length || h->size > h->length - h->offset)
        return CUDA_ERROR_INVALID_VALUE;
    if (h->process == getpid())
        return CUDA_ERROR_INVALID_CONTEXT;
    char path[64];
    struct stat s;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", h->process, h->file);
    *file = open(path, O_RDWR | O_CLOEXEC);
    if (*file < 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (fstat(*file, &s) == 0 && s.st_ino == h->inode && (uint64_t)s.st_size == h->length)
        return CUDA_SUCCESS;
    close(*file);
    return CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address) {
    BEGIN("cuIpcGetMemHandle", NEED_CONTEXT);
    struct mapping m;
    if (!handle || !find_mapping(address, 1, &m) || m.kind != MEMORY_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    uintptr_t start = m.block ? m.base / BLOCK * BLOCK : (uintptr_t)m.start;
    struct handle h = {.magic = MEMORY_MAGIC, .gpu = m.gpu, .id = m.id, .offset = m.base - start, .size = m.size};
    if (!describe(&h, m.file))
        return CUDA_ERROR_MAP_FAILED;
    memcpy(handle, &h, sizeof h);
    return CUDA_SUCCESS;
}

API CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags) {
    BEGIN("cuIpcOpenMemHandle", NEED_CONTEXT);
    struct context *c = current_context();
    struct handle h;
    memcpy(&h, &handle, sizeof h);
    if (!address || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || h.gpu < 0 || h.gpu >= topology()->gpus)
        return CUDA_ERROR_INVALID_VALUE;
    int file;
    CUresult result = open_handle(&h, &file);
    if (result != CUDA_SUCCESS)
        return result;
    if (h.gpu != c->gpu && !topology()->peer[c->gpu][h.gpu]) {
        close(file);
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    }
    if (is_imported(h.inode, c)) {
        close(file);
        return CUDA_ERROR_ALREADY_MAPPED;
    }
    struct mapping m = {.kind = MEMORY_IMPORTED, .base = h.offset, .size = h.size, .gpu = h.gpu, .id = h.id, .inode = h.inode, .context = c};
    if (h.length == BLOCK) /* a small allocation in the block */
        m.base = 0, m.size = BLOCK;
    uintptr_t base;
    result = map_import(file, h.length, &m, &base);
    if (result != CUDA_SUCCESS) {
        close(file);
        return CUDA_ERROR_MAP_FAILED;
    }
    if (h.gpu != c->gpu)
        atomic_store(&c->peers[h.gpu], true);
    *address = base - m.base + h.offset;
    return CUDA_SUCCESS;
}

API CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
    BEGIN("cuIpcCloseMemHandle", NEED_CONTEXT);
    struct mapping m;
    if (!find_mapping(address, 1, &m) || m.kind != MEMORY_IMPORTED)
        return CUDA_ERROR_INVALID_VALUE;
    drain_context(m.context);
    return drop_mapping(m.base, 1 << MEMORY_IMPORTED) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
