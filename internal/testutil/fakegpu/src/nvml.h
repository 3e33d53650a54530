/* The part of NVML's binary interface that treerun uses, in our own words. */
#ifndef FAKE_NVML_H
#define FAKE_NVML_H

#include "host.h"

typedef int nvmlReturn_t;
typedef const struct gpu *nvmlDevice_t; /* opaque to callers */

enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
};

typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device;
    unsigned pciDeviceId; /* 16 bits of the device, then 16 of the vendor */
    unsigned pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct { unsigned long long total, free, used; } nvmlMemory_t;

typedef struct {
    unsigned version; /* the struct's size, and the version in the highest byte */
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
    unsigned fieldId, scopeId;
    long long timestamp, latencyUsec;
    int valueType;
    nvmlReturn_t nvmlReturn;
    union {
        double real;
        unsigned word;
        unsigned long long wide;
    } value;
} nvmlFieldValue_t;

_Static_assert(sizeof(nvmlPciInfo_t) == 68, "as NVML has it");
_Static_assert(sizeof(nvmlMemory_v2_t) == 40, "as NVML has it");
_Static_assert(sizeof(nvmlFieldValue_t) == 40, "as NVML has it");

/* The check that begins every query about a device: NVML is initialized, and the
 * device exists and is not lost. */
nvmlReturn_t nvml_check(nvmlDevice_t device);
void nvml_pci(unsigned bus, unsigned device_id, nvmlPciInfo_t *pci);
unsigned nvml_device_id(nvmlDevice_t device);

#define DEVICE(device)                               \
    do {                                             \
        nvmlReturn_t checked_ = nvml_check(device);  \
        if (checked_ != NVML_SUCCESS)                \
            return checked_;                         \
    } while (0)

#endif
