//go:build linux

// Opens the driver's library and looks its entry points up.

#include "calls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct treerun_cuda_calls treerun_cuda_calls;

struct entry {
    const char *name, *exported;
    int since;
    void **where;
};

#define DESCRIBE(name, exported, since, parameters) {#name, #exported, since, (void **)&cu.name},
static const struct entry entries[] = {ENTRIES(DESCRIBE)};

#define DEFINE(name, exported, since, parameters) typedef CUresult(*exported##_type) parameters;
LOADERS(DEFINE)
LATER_LOADERS(DEFINE)
#define FIND(library, exported) (exported##_type)dlsym(library, #exported)

// find looks one entry up: cuGetProcAddress knows which form of a function belongs to a version; an entry that it does
// not have is taken from the library's table of symbols, under the name of that form.
static void *find(void *library, const struct entry *e, int version) {
    if (version < e->since)
        return NULL;
    if (version > ABI_VERSION)
        version = ABI_VERSION;
    cuGetProcAddress_v2_type second = FIND(library, cuGetProcAddress_v2);
    cuGetProcAddress_type first = FIND(library, cuGetProcAddress);
    void *p = NULL;
    int status = 0;
    CUresult r = second  ? second(e->name, &p, version, 0, &status)
                 : first ? first(e->name, &p, version, 0)
                         : CUDA_ERROR_NOT_FOUND;
    if (r != CUDA_SUCCESS || p == NULL)
        p = dlsym(library, e->exported);
    return p;
}

int treerun_cuda_open(const char *name, int *version, CUresult *result, char *text, size_t size) {
    *version = 0;
    *result = CUDA_SUCCESS;
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(text, size, "%s", dlerror());
        return 1;
    }
    cuDriverGetVersion_type driver_version = FIND(library, cuDriverGetVersion);
    cuInit_type init = FIND(library, cuInit);
    if (driver_version == NULL || init == NULL) {
        snprintf(text, size, "it has no cuInit or no cuDriverGetVersion");
        goto fail;
    }
    *result = driver_version(version);
    if (*result != CUDA_SUCCESS) {
        snprintf(text, size, "cuDriverGetVersion");
        goto fail;
    }
    if (*version < MINIMUM_VERSION) {
        snprintf(text, size, "it supports CUDA %d.%d at most, and CUDA %d.%d is needed (a driver from 515 on)", *version / 1000, *version % 1000 / 10,
                 MINIMUM_VERSION / 1000, MINIMUM_VERSION % 1000 / 10);
        goto fail;
    }
    // Before cuInit, so that cuGetErrorName can name cuInit's result.
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        void *p = find(library, &entries[i], *version);
        if (p == NULL && entries[i].since <= MINIMUM_VERSION) {
            snprintf(text, size, "it lacks %s, which CUDA %d.%d should have", entries[i].exported, *version / 1000, *version % 1000 / 10);
            goto fail;
        }
        *entries[i].where = p;
    }
    *result = init(0);
    if (*result == CUDA_SUCCESS)
        return 0;
    snprintf(text, size, "cuInit");
    return 1; // the library stays, to name its errors
fail:
    memset(&cu, 0, sizeof cu);
    dlclose(library);
    return 1;
}

void treerun_cuda_error(CUresult code, const char **name, const char **text) {
    *name = *text = NULL;
    if (cu.cuGetErrorName == NULL || cu.cuGetErrorName(code, name) != CUDA_SUCCESS)
        *name = NULL;
    if (cu.cuGetErrorString == NULL || cu.cuGetErrorString(code, text) != CUDA_SUCCESS)
        *text = NULL;
}
