#define _GNU_SOURCE
#include "nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic int initialized;

static nvmlReturn_t start(void) {
    if (!topology() || !board())
        return NVML_ERROR_DRIVER_NOT_LOADED;
    if (setting("TREERUN_FAKE_GPU_NO_PERMISSION"))
        return NVML_ERROR_NO_PERMISSION;
    atomic_fetch_add(&initialized, 1);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlInit_v2(void) { return start(); }
API nvmlReturn_t nvmlInit(void) { return start(); }
API nvmlReturn_t nvmlInitWithFlags(unsigned flags) { return flags > 3 ? NVML_ERROR_INVALID_ARGUMENT : start(); }

API nvmlReturn_t nvmlShutdown(void) {
    if (atomic_load(&initialized) == 0)
        return NVML_ERROR_UNINITIALIZED;
    atomic_fetch_sub(&initialized, 1);
    return NVML_SUCCESS;
}

API const char *nvmlErrorString(nvmlReturn_t code) {
    switch (code) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
    default: return "Unknown Error";
    }
}

nvmlReturn_t nvml_check(nvmlDevice_t device) {
    if (atomic_load(&initialized) == 0)
        return NVML_ERROR_UNINITIALIZED;
    for (int i = 0; i < topology()->gpus; i++) {
        if (device == &topology()->gpu[i])
            return atomic_load(&board()->lost[i]) ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
    }
    return NVML_ERROR_INVALID_ARGUMENT;
}

static nvmlReturn_t text(char *to, unsigned length, const char *from) {
    if (!to)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (length <= strlen(from))
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(to, from);
    return NVML_SUCCESS;
}

static nvmlReturn_t system_text(char *to, unsigned length, const char *from) {
    return atomic_load(&initialized) ? text(to, length, from) : NVML_ERROR_UNINITIALIZED;
}

API nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length) { return system_text(version, length, "550.54.14"); }
API nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length) { return system_text(version, length, "12.550.54.14"); }

static nvmlReturn_t cuda_version(int *version) {
    if (atomic_load(&initialized) == 0)
        return NVML_ERROR_UNINITIALIZED;
    if (!version)
        return NVML_ERROR_INVALID_ARGUMENT;
    *version = driver_version();
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) { return cuda_version(version); }
API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) { return cuda_version(version); }

static nvmlReturn_t count(unsigned *n) {
    if (atomic_load(&initialized) == 0)
        return NVML_ERROR_UNINITIALIZED;
    if (!n)
        return NVML_ERROR_INVALID_ARGUMENT;
    *n = (unsigned)topology()->gpus;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *n) { return count(n); }
API nvmlReturn_t nvmlDeviceGetCount(unsigned *n) { return count(n); }

/* A handle, if the device answers. */
static nvmlReturn_t by_index(unsigned index, nvmlDevice_t *device) {
    if (atomic_load(&initialized) == 0)
        return NVML_ERROR_UNINITIALIZED;
    if (!device || index >= (unsigned)topology()->gpus)
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = &topology()->gpu[index];
    return nvml_check(*device);
}

API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) { return by_index(index, device); }
API nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device) { return by_index(index, device); }

static void uuid_text(nvmlDevice_t device, char to[41]) {
    char *p = to + sprintf(to, "GPU");
    for (int i = 0; i < 16; i++)
        p += sprintf(p, i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", device->uuid[i]);
}

API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    char own[41];
    if (!uuid || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; atomic_load(&initialized) && i < (unsigned)topology()->gpus; i++) {
        uuid_text(&topology()->gpu[i], own);
        if (strcmp(uuid, own) == 0)
            return by_index(i, device);
    }
    return atomic_load(&initialized) ? NVML_ERROR_NOT_FOUND : NVML_ERROR_UNINITIALIZED;
}

static nvmlReturn_t by_pci(const char *id, nvmlDevice_t *device) {
    unsigned domain, bus, slot;
    if (!id || !device || sscanf(id, "%x:%x:%x", &domain, &bus, &slot) != 3)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; atomic_load(&initialized) && i < (unsigned)topology()->gpus; i++) {
        if (domain == 0 && slot == 0 && topology()->gpu[i].bus == bus)
            return by_index(i, device);
    }
    return atomic_load(&initialized) ? NVML_ERROR_NOT_FOUND : NVML_ERROR_UNINITIALIZED;
}

API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device) { return by_pci(id, device); }
API nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *id, nvmlDevice_t *device) { return by_pci(id, device); }

API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length) {
    char own[41];
    DEVICE(device);
    uuid_text(device, own);
    return text(uuid, length, own);
}

API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length) {
    DEVICE(device);
    return text(name, length, device->name);
}

unsigned nvml_device_id(nvmlDevice_t device) {
    static const unsigned ids[] = {[6] = 0x15f9, [7] = 0x1db1, [8] = 0x20b0, [9] = 0x2330};
    return (device->major < 10 ? ids[device->major] : 0) << 16 | 0x10de;
}

void nvml_pci(unsigned bus, unsigned device_id, nvmlPciInfo_t *pci) {
    memset(pci, 0, sizeof *pci);
    pci->bus = bus;
    pci->pciDeviceId = device_id;
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "0000:%02X:00.0", bus);
    snprintf(pci->busId, sizeof pci->busId, "00000000:%02X:00.0", bus);
}

API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    DEVICE(device);
    if (!pci)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvml_pci(device->bus, nvml_device_id(device), pci);
    return NVML_SUCCESS;
}

static nvmlReturn_t number(nvmlDevice_t device, unsigned *to, unsigned value) {
    DEVICE(device);
    if (!to)
        return NVML_ERROR_INVALID_ARGUMENT;
    *to = value;
    return NVML_SUCCESS;
}

/* Reads a field of a device, 0 if the device is not valid. */
#define FIELD(device, field) (nvml_check(device) == NVML_SUCCESS ? (unsigned)(device)->field : 0)

API nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t d, unsigned *index) { return number(d, index, (unsigned)(d - topology()->gpu)); }
API nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t d, unsigned *minor) { return number(d, minor, (unsigned)(d - topology()->gpu)); }
API nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t d, unsigned *n) { return number(d, n, FIELD(d, pcie_generation)); }
API nvmlReturn_t nvmlDeviceGetGpuMaxPcieLinkGeneration(nvmlDevice_t d, unsigned *n) { return number(d, n, FIELD(d, pcie_generation)); }
API nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t d, unsigned *n) { return number(d, n, 1); /* idle: saves power */ }
API nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t d, unsigned *n) { return number(d, n, FIELD(d, pcie_width)); }
API nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t d, unsigned *n) { return number(d, n, FIELD(d, pcie_width)); }
API nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t d, unsigned *mode) { return number(d, mode, 0); /* default */ }
API nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t d, unsigned *is) { return number(d, is, 0); }

/* Architectures are numbered from Pascal (4) to Hopper (9), which has 9.0. */
API nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t d, unsigned *architecture) {
    static const unsigned of[] = {[6] = 4, [7] = 5, [8] = 7, [9] = 9};
    unsigned major = FIELD(d, major);
    return number(d, architecture, major < 10 ? of[major] : 0xffffffff);
}

API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    DEVICE(device);
    if (!major || !minor)
        return NVML_ERROR_INVALID_ARGUMENT;
    *major = device->major;
    *minor = device->minor;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *now, unsigned *pending) {
    DEVICE(device);
    if (!now || !pending)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (device->major < 8)
        return NVML_ERROR_NOT_SUPPORTED;
    *now = *pending = 0;
    return NVML_SUCCESS;
}

static uint64_t used(nvmlDevice_t device) {
    uint64_t bytes = board_used((int)(device - topology()->gpu));
    return bytes < device->memory ? bytes : device->memory;
}

API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    DEVICE(device);
    if (!memory)
        return NVML_ERROR_INVALID_ARGUMENT;
    uint64_t bytes = used(device);
    *memory = (nvmlMemory_t){device->memory, device->memory - bytes, bytes};
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    DEVICE(device);
    if (!memory)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (memory->version != (sizeof *memory | 2u << 24))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    uint64_t bytes = used(device);
    *memory = (nvmlMemory_v2_t){memory->version, device->memory, 0, device->memory - bytes, bytes};
    return NVML_SUCCESS;
}
