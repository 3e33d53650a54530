// abi.h agrees with NVIDIA's headers, or this file does not compile. scripts/nvidia.sh makes what it includes: cuda.h
// with int for every enum, as abi.h has it; ours.h, which is abi.h with ours_ before its structures and numbers; and
// numbers.h, which compares each of these numbers.

#define __CUDA_API_VERSION_INTERNAL // each form of a function under its exported name
#include "cuda.h"

#include "cudaTypedefs.h"

#include "ours.h"

#include "numbers.h"

#define SAME(a, b) _Static_assert(__builtin_types_compatible_p(__typeof__(a), __typeof__(b)), #b)

// The function, and the form of it that came with the version, take and return the same.
#define CHECK(name, exported, since, parameters) \
    SAME(CUresult(*) parameters, &exported);     \
    SAME(CUresult(*) parameters, (PFN_##name##_v##since)0);
LOADERS(CHECK)
ENTRIES(CHECK)
#if CUDA_VERSION >= 12000
LATER_LOADERS(CHECK)
#endif

#define PLACE(ours, theirs)                                                                                         \
    _Static_assert(offsetof(ours_CUstreamBatchMemOpParams, ours) == offsetof(CUstreamBatchMemOpParams, theirs) &&   \
                       sizeof(((ours_CUstreamBatchMemOpParams *)0)->ours) == sizeof(((CUstreamBatchMemOpParams *)0)->theirs), \
                   #theirs)
PLACE(value.operation, waitValue.operation);
PLACE(value.operation, writeValue.operation);
PLACE(value.address, waitValue.address);
PLACE(value.address, writeValue.address);
PLACE(value.value, waitValue.value64);
PLACE(value.value, writeValue.value64);
PLACE(value.flags, waitValue.flags);
PLACE(value.flags, writeValue.flags);
PLACE(value.alias, waitValue.alias);
PLACE(value.alias, writeValue.alias);
_Static_assert(offsetof(CUstreamBatchMemOpParams, waitValue.value) == offsetof(CUstreamBatchMemOpParams, waitValue.value64), "the low half");
_Static_assert(sizeof(ours_CUstreamBatchMemOpParams) == sizeof(CUstreamBatchMemOpParams), "CUstreamBatchMemOpParams");
_Static_assert(sizeof(ours_CUuuid) == sizeof(CUuuid), "CUuuid");
_Static_assert(sizeof(ours_CUipcMemHandle) == sizeof(CUipcMemHandle), "CUipcMemHandle");
