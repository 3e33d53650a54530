// Another library's context is current on this thread: it is so after calls of ours, too, whether they succeed or not.

#include "../shim.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static CUresult (*get_current)(CUcontext *);

static void want(CUcontext c, const char *after) {
    CUcontext now = NULL;
    if (get_current(&now) == CUDA_SUCCESS && now == c)
        return;
    fprintf(stderr, "after %s %p is current, want %p\n", after, (void *)now, (void *)c);
    exit(1);
}

int main(void) {
    char text[256];
    int version;
    CUresult r;
    if (treerun_cuda_open("libcuda.so.1", &version, &r, text, sizeof text) != 0) {
        fprintf(stderr, "%s\n", text);
        return 1;
    }
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    get_current = (CUresult(*)(CUcontext *))dlsym(library, "cuCtxGetCurrent");
    CUresult (*set_current)(CUcontext) = (CUresult(*)(CUcontext))dlsym(library, "cuCtxSetCurrent");
    uintptr_t ours = treerun_cuda_context_retain(0).value, theirs = treerun_cuda_context_retain(1).value;
    for (int i = 0; i < 2; i++, theirs = 0) { // a foreign context, and then none
        set_current((CUcontext)theirs);
        uint64_t memory = treerun_cuda_alloc(ours, 4096).value;
        want((CUcontext)theirs, "an allocation");
        treerun_cuda_memory_info(ours);
        want((CUcontext)theirs, "a question");
        if (treerun_cuda_free(ours, memory) != CUDA_SUCCESS || treerun_cuda_free(ours, memory) == CUDA_SUCCESS)
            return 1;
        want((CUcontext)theirs, "a call that failed");
        for (int k = 0; k < 100; k++)
            treerun_cuda_pointer_of(ours, memory);
        want((CUcontext)theirs, "many calls");
        if (treerun_cuda_free(12345, memory) < TREERUN_NO_CONTEXT)
            return 1;
        want((CUcontext)theirs, "a call with a wrong context");
    }
    return 0;
}
