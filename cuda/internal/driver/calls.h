// The entry points of the driver, once open.c has looked them up, and how shim.c
// calls them.

#ifndef TREERUN_CUDA_CALLS_H
#define TREERUN_CUDA_CALLS_H

#include "shim.h"

#define DECLARE(name, exported, since, parameters) CUresult(*name) parameters;
struct treerun_cuda_calls {
    ENTRIES(DECLARE)
};
extern struct treerun_cuda_calls treerun_cuda_calls __attribute__((visibility("hidden")));
#define cu treerun_cuda_calls

// IN makes c the current context of this thread until the function returns, which leaves the one current that was: other
// libraries may use the thread. Or it returns from the function; FAILED is how.
#define IN_OR(c, FAILED)                                       \
    CUresult r = cu.cuCtxPushCurrent((CUcontext)(c));          \
    if (r != CUDA_SUCCESS)                                     \
        return FAILED;                                         \
    __attribute__((cleanup(treerun_cuda_pop))) CUcontext before
#define IN(c) IN_OR(c, r | TREERUN_NO_CONTEXT)
#define VALUE_IN(c) IN_OR(c, ((treerun_cuda_value){r | TREERUN_NO_CONTEXT, 0}))
#define PAIR_IN(c) IN_OR(c, ((treerun_cuda_pair){r | TREERUN_NO_CONTEXT, 0, 0}))

static inline void treerun_cuda_pop(CUcontext *mine) { (void)cu.cuCtxPopCurrent(mine); }

static inline treerun_cuda_value value(CUresult r, uint64_t v) { return (treerun_cuda_value){r, r == CUDA_SUCCESS ? v : 0}; }

#endif
