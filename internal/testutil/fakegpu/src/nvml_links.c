#define _GNU_SOURCE
#include "nvml.h"

#include <string.h>
#include <sys/time.h>

/* Positions of GPUs, and the links between them. */

static int index_of(nvmlDevice_t device) { return (int)(device - topology()->gpu); }

/* GPUs are NUMA nodes themselves only on a few platforms, and not on this one. */
API nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned *node) {
    DEVICE(device);
    return node ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}

API nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned words, unsigned long *nodes, unsigned scope) {
    DEVICE(device);
    if (!nodes || words == 0 || scope > 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    memset(nodes, 0, words * sizeof *nodes);
    nodes[0] = 1ul << device->numa;
    return NVML_SUCCESS;
}

static nvmlReturn_t cpus(nvmlDevice_t device, unsigned words, unsigned long *set, unsigned scope) {
    DEVICE(device);
    if (!set || words == 0 || scope > 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    memset(set, 0, words * sizeof *set);
    for (unsigned i = 0; i < words && i < CPU_WORDS; i++)
        set[i] = topology()->cpus[device->numa][i];
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned words, unsigned long *set) { return cpus(device, words, set, 0); }
API nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned words, unsigned long *set, unsigned scope) {
    return cpus(device, words, set, scope);
}

API nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b, int *level) {
    DEVICE(a);
    DEVICE(b);
    if (!level)
        return NVML_ERROR_INVALID_ARGUMENT;
    *level = a == b ? 0 : topology()->level[index_of(a)][index_of(b)];
    return NVML_SUCCESS;
}

/* Writes the GPUs that are as near as level, or only their number. */
API nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, int level, unsigned *count, nvmlDevice_t *list) {
    DEVICE(device);
    if (!count || (*count > 0 && !list))
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned n = 0;
    for (int i = 0; i < topology()->gpus; i++) {
        if (i == index_of(device) || topology()->level[index_of(device)][i] != level)
            continue;
        if (n < *count)
            list[n] = &topology()->gpu[i];
        n++;
    }
    *count = n;
    return NVML_SUCCESS;
}

static bool joined(nvmlDevice_t a, nvmlDevice_t b) {
    for (int i = 0; i < a->nvlinks; i++) {
        const struct nvlink *l = &a->nvlink[i];
        if (l->remote == REMOTE_GPU && l->index == index_of(b))
            return true;
    }
    return false;
}

API nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, int what, int *status) {
    enum { READ, WRITE, NVLINK, ATOMICS, PCI, OK = 0, CHIPSET_NOT_SUPPORTED = 1, NOT_SUPPORTED = 5 };
    DEVICE(a);
    DEVICE(b);
    if (!status || a == b)
        return NVML_ERROR_INVALID_ARGUMENT;
    bool access = topology()->peer[index_of(a)][index_of(b)], link = joined(a, b);
    switch (what) {
    case READ:
    case WRITE: *status = access ? OK : CHIPSET_NOT_SUPPORTED; break;
    case NVLINK:
    case ATOMICS: *status = link ? OK : NOT_SUPPORTED; break;
    case PCI: *status = access && !link ? OK : CHIPSET_NOT_SUPPORTED; break;
    default: return NVML_ERROR_INVALID_ARGUMENT;
    }
    return NVML_SUCCESS;
}

/* Checks one NVLink of a device. */
static nvmlReturn_t link_of(nvmlDevice_t device, unsigned link, const void *result) {
    DEVICE(device);
    if (!result || link >= MAX_NVLINKS)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (device->nvlink_version == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    return link < (unsigned)device->nvlinks ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

#define LINK(device, link, result)                              \
    do {                                                        \
        nvmlReturn_t linked_ = link_of(device, link, result);   \
        if (linked_ != NVML_SUCCESS)                            \
            return linked_;                                     \
    } while (0)

API nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, int *active) {
    LINK(device, link, active);
    *active = device->nvlink[link].remote != REMOTE_NONE;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link, unsigned *version) {
    LINK(device, link, version);
    *version = (unsigned)device->nvlink_version;
    return NVML_SUCCESS;
}

/* P2P, access to the host's memory, atomics of both, SLI, and whether it is a link. */
API nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned link, int capability, unsigned *result) {
    static const unsigned has[] = {1, 0, 1, 0, 0, 1};
    LINK(device, link, result);
    if (capability < 0 || capability > 5)
        return NVML_ERROR_INVALID_ARGUMENT;
    *result = has[capability];
    return NVML_SUCCESS;
}

/* A link that leads nowhere has no other end. */
static nvmlReturn_t other_end(nvmlDevice_t device, unsigned link, nvmlPciInfo_t *pci) {
    LINK(device, link, pci);
    const struct nvlink *l = &device->nvlink[link];
    if (l->remote == REMOTE_NONE)
        return NVML_ERROR_NOT_SUPPORTED;
    nvml_pci(topology()->gpu[l->index].bus, nvml_device_id(device), pci);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link, nvmlPciInfo_t *pci) { return other_end(device, link, pci); }
API nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned link, nvmlPciInfo_t *pci) { return other_end(device, link, pci); }

API nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned link, int *type) {
    LINK(device, link, type);
    if (device->nvlink[link].remote == REMOTE_NONE)
        return NVML_ERROR_NOT_SUPPORTED;
    *type = 0; /* a GPU */
    return NVML_SUCCESS;
}

/* The value of a supported field. */
static nvmlReturn_t field(nvmlDevice_t device, unsigned id, unsigned link, unsigned *value) {
    enum { SPEED_COMMON = 90, LINK_COUNT = 91, LINK_SPEED = 164, LINK_STATE = 165, LINK_VERSION = 166 };
    if (device->nvlink_version == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    switch (id) {
    case SPEED_COMMON: *value = (unsigned)device->nvlink_megabytes; return NVML_SUCCESS;
    case LINK_COUNT: *value = (unsigned)device->nvlinks; return NVML_SUCCESS;
    case LINK_SPEED:
    case LINK_STATE:
    case LINK_VERSION: break;
    default: return NVML_ERROR_NOT_SUPPORTED;
    }
    LINK(device, link, value);
    bool active = device->nvlink[link].remote != REMOTE_NONE;
    *value = id == LINK_SPEED ? (active ? (unsigned)device->nvlink_megabytes : 0) : id == LINK_STATE ? active : (unsigned)device->nvlink_version;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int n, nvmlFieldValue_t *values) {
    DEVICE(device);
    if (n < 1 || !values)
        return NVML_ERROR_INVALID_ARGUMENT;
    struct timeval now;
    gettimeofday(&now, NULL);
    for (int i = 0; i < n; i++) {
        unsigned value = 0;
        values[i].nvmlReturn = field(device, values[i].fieldId, values[i].scopeId, &value);
        values[i].timestamp = now.tv_sec * 1000000ll + now.tv_usec;
        values[i].latencyUsec = 0;
        values[i].valueType = 1; /* unsigned int */
        values[i].value.wide = value;
    }
    return NVML_SUCCESS;
}
