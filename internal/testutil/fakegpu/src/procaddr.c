#include "driver.h"

#include <string.h>

/* The address of each exported function is in a separate word, made by the assembler, since their types do not
 * matter here. */
#define ENTRY(name, symbol, since) extern const char at_##symbol[] __asm__(#symbol);
#include "entries.h"
#undef ENTRY

static const struct entry {
    const char *name;
    const void *address;
    int since;
} entries[] = {
#define ENTRY(name, symbol, since) {#name, at_##symbol, since},
#include "entries.h"
#undef ENTRY
};

static bool is_memory_operation(const char *name) {
    return strcmp(name, "cuStreamBatchMemOp") == 0 || (strncmp(name, "cuStream", 8) == 0 && strstr(name, "Value32"));
}

/* Finds the newest form of a function that a program written for version can use. */
static const void *find(const char *name, int version, int *status) {
    *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        const struct entry *e = &entries[i];
        if (strcmp(e->name, name) != 0 || e->since > driver_version() || (no_memory_operations() && is_memory_operation(name)))
            continue;
        if (e->since <= version) {
            *status = CU_GET_PROC_ADDRESS_SUCCESS;
            return e->address;
        }
        *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    }
    return NULL;
}

API CUresult cuGetProcAddress_v2(const char *symbol, void **address, int version, uint64_t flags, int *status) {
    BEGIN("cuGetProcAddress", NEED_NOTHING);
    if (!symbol || !*symbol || !address || flags > 2 || version < 2000)
        return CUDA_ERROR_INVALID_VALUE;
    int s;
    *address = (void *)find(symbol, version, &s);
    if (status)
        *status = s;
    /* With a status, a missing function is no error. */
    return *address || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

API CUresult cuGetProcAddress(const char *symbol, void **address, int version, uint64_t flags) {
    BEGIN("cuGetProcAddress", NEED_NOTHING);
    return cuGetProcAddress_v2(symbol, address, version, flags, NULL);
}
