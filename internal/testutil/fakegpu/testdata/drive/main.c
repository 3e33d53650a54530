#define _GNU_SOURCE
#include "drive.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#define X(name, parameters) int(*name) parameters;
CALLS(X)
#undef X
int (*get_address)(const char *, void **, int, uint64_t, int *);

void open_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    *(void **)&get_address = dlsym(library, "cuGetProcAddress_v2");
    int status;
#define X(name, parameters)                                              \
    if (get_address(#name, (void **)&name, 12000, 0, &status) == 34)     \
        *(void **)&name = dlsym(library, #name); /* of a stub library */
    CALLS(X)
#undef X
}

void check(bool ok, const char *file, int line, const char *what, int got) {
    if (ok)
        return;
    fprintf(stderr, "%s:%d: want %s, got %d\n", file, line, what, got);
    exit(1);
}

void *use_device(int i) {
    void *context;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, i));
    OK(cuCtxSetCurrent(context));
    return context;
}

void *new_stream(void) {
    void *s;
    OK(cuStreamCreateWithPriority(&s, 1, 0));
    return s;
}

static const char ptx[] = "// made by hand\n.version 6.0\n.target sm_60\n.address_size 64\n\n"
                          ".visible .entry add(\n\t.param .align 8 .b8 add_param_0[32]\n)\n{\n\tret;\n}\n"
                          ".visible .entry missing(\n\t.param .align 8 .b8 missing_param_0[8]\n)\n{\n\tret;\n}\n";

void *load_add(void) {
    void *module, *function;
    OK(cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL));
    WANT(500, cuModuleGetFunction(&function, module, "missing")); /* the PTX has it, the host does not */
    WANT(500, cuModuleGetFunction(&function, module, "ad"));
    OK(cuModuleGetFunction(&function, module, "add"));
    return function;
}

int launch_add(void *function, void *stream, Addr to, Addr a, Addr b, unsigned n, unsigned blocks) {
    struct { Addr to, a, b; unsigned n, pad; } args = {to, a, b, n, 0};
    void *params[] = {&args};
    return cuLaunchKernel(function, blocks, 1, 1, 64, 1, 1, 0, stream, params, NULL);
}

void fill(Addr to, int value, unsigned n, void *stream) {
    int *values = malloc(n * sizeof *values);
    for (unsigned i = 0; i < n; i++)
        values[i] = value;
    OK(cuMemcpyHtoDAsync(to, values, n * sizeof *values, stream));
    memset(values, 0x55, n * sizeof *values); /* the memory may be reused at once */
    free(values);
}

unsigned differs(Addr from, int value, unsigned n, void *stream) {
    int *values = malloc(n * sizeof *values);
    OK(cuMemcpyDtoHAsync(values, from, n * sizeof *values, stream));
    unsigned i = 0;
    while (i < n && values[i] == value)
        i++;
    free(values);
    return i;
}

void milliseconds(int n) { usleep((useconds_t)n * 1000); }

int main(int argc, char **argv) {
    const struct test *lists[] = {single_tests, shared_tests, fault_tests, nvml_tests};
    for (int i = 0; argc == 2 && i < 4; i++) {
        for (const struct test *t = lists[i]; t->name; t++) {
            if (strcmp(t->name, argv[1]) != 0)
                continue;
            open_driver();
            t->run();
            puts("ok");
            return 0;
        }
    }
    fprintf(stderr, "usage: drive TEST\n");
    return 64;
}
