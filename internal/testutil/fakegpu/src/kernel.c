#define _GNU_SOURCE
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A module is PTX text. It is not compiled: its kernels are found by name among those that were compiled for the
 * host from the same sources, and the PTX must have the same size of the arguments. */
enum { MODULE = 0x4d4f4455, FUNCTION = 0x46554e43 };

struct module {
    uint32_t magic;
    char *ptx;
    struct context *context;
    struct function *functions;
};

static struct module *resolve_module(CUmodule m) { return m && m->magic == MODULE ? m : NULL; }

static struct function *resolve_function(CUfunction f) { return f && f->magic == FUNCTION && f->module->magic == MODULE ? f : NULL; }

/* The newest PTX that a driver supports, as ten times its version. */
static int newest_ptx(void) {
    int version = driver_version(), major = version / 1000, minor = version % 1000 / 10;
    return major >= 11 ? (major - 4) * 10 + minor : 63 + minor; /* 10.0 knew 6.3 */
}

/* Checks the directives at the beginning of PTX. */
static CUresult check_ptx(const char *ptx, const struct gpu *g, char *log, size_t size) {
    int major, minor, target;
    const char *version = strstr(ptx, ".version "), *arch = strstr(ptx, ".target sm_");
    if (!version || !arch || sscanf(version, ".version %d.%d", &major, &minor) != 2 || sscanf(arch, ".target sm_%d", &target) != 1) {
        snprintf(log, size, "ptxas fatal   : no .version and .target directives (fake GPU)");
        return CUDA_ERROR_INVALID_PTX;
    }
    if (major * 10 + minor > newest_ptx()) {
        snprintf(log, size, "ptxas fatal   : PTX %d.%d is newer than this driver (fake GPU)", major, minor);
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    }
    if (target > g->major * 10 + g->minor) {
        snprintf(log, size, "ptxas fatal   : PTX is for sm_%d, this GPU is sm_%d%d (fake GPU)", target, g->major, g->minor);
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    return CUDA_SUCCESS;
}

API CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned n, int *options, void **values) {
    BEGIN("cuModuleLoadDataEx", NEED_CONTEXT);
    if (!module || !image || (n > 0 && (!options || !values)))
        return CUDA_ERROR_INVALID_VALUE;
    char *log = NULL;
    size_t room = 0;
    for (unsigned i = 0; i < n; i++) {
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
            log = values[i];
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            room = (size_t)(uintptr_t)values[i];
    }
    struct context *c = current_context();
    CUresult result = CUDA_ERROR_INVALID_IMAGE;
    drain_context(c);
    slow_compiler();
    if (memchr(image, 0x7f, 1) == NULL) /* not an ELF file */
        result = check_ptx(image, &topology()->gpu[c->gpu], log, log ? room : 0);
    if (result != CUDA_SUCCESS)
        return result;
    struct module *m = calloc(1, sizeof *m);
    if (!m || !(m->ptx = strdup(image))) {
        free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    m->magic = MODULE;
    m->context = c;
    *module = m;
    return CUDA_SUCCESS;
}

/* A few bytes stay, so that later uses of its functions and handles are detected. */
API CUresult cuModuleUnload(CUmodule module) {
    BEGIN("cuModuleUnload", NEED_CONTEXT);
    struct module *m = resolve_module(module);
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    drain_context(m->context);
    m->magic = 0;
    free(m->ptx);
    m->ptx = NULL;
    return CUDA_SUCCESS;
}

/* The position of ".entry name(" in the PTX, or NULL. */
static const char *find_entry(const char *ptx, const char *name) {
    size_t n = strlen(name);
    for (const char *p = ptx; (p = strstr(p, ".entry"));) {
        p += strlen(".entry");
        const char *word = p + strspn(p, " \t\r\n");
        if (strncmp(word, name, n) == 0 && (word[n] == '(' || word[n] == ' ' || word[n] == '\n' || word[n] == '\t'))
            return word + n;
    }
    return NULL;
}

/* The bytes of an entry's parameters: of ".param .align 8 .b8 x[56]" 56. */
static size_t parameter_bytes(const char *entry) {
    const char *end = strchr(entry, ')'), *open = strchr(entry, '[');
    return end && open && open < end ? strtoul(open + 1, NULL, 10) : 0;
}

static const struct host_kernel *checked_kernel(const char *ptx, const char *name) {
    const char *entry = find_entry(ptx, name);
    if (!entry)
        return NULL;
    const struct host_kernel *k = host_kernel(name);
    if (!k) {
        complain("the PTX has kernel %s, libtreerun_kernels.so has not: its source is not built for the host", name);
    } else if (parameter_bytes(entry) != k->args_size) {
        complain("kernel %s takes %zu bytes of arguments by its PTX and %zu by its source: generate the PTX again", name,
                 parameter_bytes(entry), k->args_size);
        k = NULL;
    }
    return k;
}

API CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    BEGIN("cuModuleGetFunction", NEED_CONTEXT);
    struct module *m = resolve_module(module);
    if (!function || !name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    const struct host_kernel *k = checked_kernel(m->ptx, name);
    if (!k)
        return CUDA_ERROR_NOT_FOUND;
    struct function *f = calloc(1, sizeof *f);
    if (!f)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *f = (struct function){FUNCTION, k, m, m->functions};
    m->functions = f;
    *function = f;
    return CUDA_SUCCESS;
}

/* The arguments are passed as pointers to each, or as one buffer. */
static const void *arguments(void **params, void **extra, size_t size) {
    const void *buffer = NULL;
    size_t length = 0;
    if (params)
        return extra ? NULL : params[0];
    for (; extra && extra[0] != (void *)CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == (void *)CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (extra[0] == (void *)CU_LAUNCH_PARAM_BUFFER_SIZE)
            length = *(size_t *)extra[1];
        else
            return NULL;
    }
    return length == size ? buffer : NULL;
}

API CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                            unsigned shared, CUstream stream, void **params, void **extra) {
    BEGIN("cuLaunchKernel", NEED_CONTEXT);
    struct function *f = resolve_function(function);
    struct stream *s = resolve_stream(stream);
    if (!f || !s || s->context != current_context() || f->module->context != current_context())
        return CUDA_ERROR_INVALID_HANDLE;
    const void *args = arguments(params, extra, f->kernel->args_size);
    if (!args || !gx || !gy || !gz || !bx || !by || !bz || gx > 0x7fffffff || gy > 65535 || gz > 65535 || bx > 1024 || by > 1024 ||
        bz > 64 || (uint64_t)bx * by * bz > 1024 || shared > 48 << 10)
        return CUDA_ERROR_INVALID_VALUE;
    struct operation o = {.kind = DO_KERNEL, .kernel = {f, {gx, gy, gz}, {bx, by, bz}, malloc(f->kernel->args_size)}};
    if (!o.kernel.args)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(o.kernel.args, args, f->kernel->args_size);
    CUresult result = submit(s, &o);
    if (result != CUDA_SUCCESS)
        free(o.kernel.args);
    return result;
}

API CUresult cuFuncGetAttribute(int *value, int which, CUfunction function) {
    BEGIN("cuFuncGetAttribute", NEED_CONTEXT);
    struct function *f = resolve_function(function);
    if (!value || which < 0 || which > 15)
        return CUDA_ERROR_INVALID_VALUE;
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    const struct gpu *g = &topology()->gpu[f->module->context->gpu];
    switch (which) {
    case 0: *value = 1024; break; /* threads per block */
    case 4: *value = 32; break;   /* registers */
    case 5:                       /* versions of PTX and of the binary */
    case 6: *value = g->major * 10 + g->minor; break;
    default: *value = 0;
    }
    return CUDA_SUCCESS;
}

API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block, size_t shared) {
    BEGIN("cuOccupancyMaxActiveBlocksPerMultiprocessor", NEED_CONTEXT);
    if (!blocks || block < 1 || block > 1024 || shared > 48 << 10)
        return CUDA_ERROR_INVALID_VALUE;
    if (!resolve_function(function))
        return CUDA_ERROR_INVALID_HANDLE;
    int warps = (block + 31) / 32;
    *blocks = 64 / warps < 32 ? 64 / warps : 32;
    return CUDA_SUCCESS;
}
