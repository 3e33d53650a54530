/* NVML, as go-nvml uses it: by dlopen, the newest form of every function. */
#define _GNU_SOURCE
#include "drive.h"

#include <dlfcn.h>
#include <string.h>

typedef void *Device;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char text[32]; } Pci;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory;

#define NVML_CALLS(X)                                                    \
    X(nvmlInit_v2, (void))                                               \
    X(nvmlShutdown, (void))                                              \
    X(nvmlDeviceGetCount_v2, (unsigned *))                               \
    X(nvmlDeviceGetHandleByIndex_v2, (unsigned, Device *))               \
    X(nvmlDeviceGetHandleByUUID, (const char *, Device *))               \
    X(nvmlDeviceGetHandleByPciBusId_v2, (const char *, Device *))        \
    X(nvmlDeviceGetUUID, (Device, char *, unsigned))                     \
    X(nvmlDeviceGetName, (Device, char *, unsigned))                     \
    X(nvmlDeviceGetPciInfo_v3, (Device, Pci *))                          \
    X(nvmlDeviceGetNumaNodeId, (Device, unsigned *))                     \
    X(nvmlDeviceGetMemoryAffinity, (Device, unsigned, unsigned long *, unsigned)) \
    X(nvmlDeviceGetCpuAffinity, (Device, unsigned, unsigned long *))     \
    X(nvmlDeviceGetCudaComputeCapability, (Device, int *, int *))        \
    X(nvmlDeviceGetMaxPcieLinkGeneration, (Device, unsigned *))          \
    X(nvmlDeviceGetMaxPcieLinkWidth, (Device, unsigned *))               \
    X(nvmlDeviceGetCurrPcieLinkWidth, (Device, unsigned *))              \
    X(nvmlDeviceGetMigMode, (Device, unsigned *, unsigned *))            \
    X(nvmlDeviceGetMemoryInfo_v2, (Device, Memory *))                    \
    X(nvmlDeviceGetTopologyCommonAncestor, (Device, Device, int *))      \
    X(nvmlDeviceGetP2PStatus, (Device, Device, int, int *))              \
    X(nvmlDeviceGetNvLinkState, (Device, unsigned, int *))               \
    X(nvmlDeviceGetNvLinkVersion, (Device, unsigned, unsigned *))        \
    X(nvmlDeviceGetNvLinkCapability, (Device, unsigned, int, unsigned *)) \
    X(nvmlDeviceGetNvLinkRemotePciInfo_v2, (Device, unsigned, Pci *))    \
    X(nvmlDeviceGetNvLinkRemoteDeviceType, (Device, unsigned, int *))

#define X(name, parameters) static int(*name) parameters;
NVML_CALLS(X)
#undef X

static void open_nvml(void) {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_GLOBAL);
    THAT(library != NULL);
#define X(name, parameters) THAT((*(void **)&name = dlsym(library, #name)) != NULL);
    NVML_CALLS(X)
#undef X
}

/* Prints "nvlink GPU LINK VERSION PCI" for the links that are up. */
static void print_links(unsigned i, Device d) {
    for (unsigned link = 0; link < 18; link++) {
        int active, type;
        unsigned version, p2p;
        Pci remote;
        int code = nvmlDeviceGetNvLinkState(d, link, &active);
        if (code != 0) {
            THAT(code == 2 || code == 3); /* no such link, no NVLinks at all */
            continue;
        }
        if (!active) {
            WANT(3, nvmlDeviceGetNvLinkRemotePciInfo_v2(d, link, &remote));
            continue;
        }
        OK(nvmlDeviceGetNvLinkVersion(d, link, &version));
        OK(nvmlDeviceGetNvLinkCapability(d, link, 0, &p2p));
        THAT(p2p == 1);
        OK(nvmlDeviceGetNvLinkRemotePciInfo_v2(d, link, &remote));
        OK(nvmlDeviceGetNvLinkRemoteDeviceType(d, link, &type));
        THAT(type == 0);
        printf("nvlink %u %u %u %s\n", i, link, version, remote.text);
    }
}

/* Prints the answers of NVML; the test in Go compares them with the graph. */
static void print_all(void) {
    unsigned n, generation, width, now;
    Device d, same;
    WANT(1, (open_nvml(), nvmlDeviceGetCount_v2(&n))); /* not initialized */
    OK(nvmlInit_v2());
    OK(nvmlDeviceGetCount_v2(&n));
    WANT(2, nvmlDeviceGetHandleByIndex_v2(n, &d));
    for (unsigned i = 0; i < n; i++) {
        char uuid[96], name[96];
        int major, minor;
        unsigned long nodes[4], cpus[64];
        Pci pci;
        Memory memory = {.version = sizeof memory | 2 << 24};
        OK(nvmlDeviceGetHandleByIndex_v2(i, &d));
        OK(nvmlDeviceGetUUID(d, uuid, sizeof uuid));
        WANT(7, nvmlDeviceGetUUID(d, uuid, 10));
        OK(nvmlDeviceGetHandleByUUID(uuid, &same));
        THAT(same == d);
        OK(nvmlDeviceGetPciInfo_v3(d, &pci));
        OK(nvmlDeviceGetHandleByPciBusId_v2(pci.text, &same));
        THAT(same == d);
        OK(nvmlDeviceGetName(d, name, sizeof name));
        WANT(3, nvmlDeviceGetNumaNodeId(d, &now));
        OK(nvmlDeviceGetMemoryAffinity(d, 4, nodes, 0));
        OK(nvmlDeviceGetCpuAffinity(d, 64, cpus));
        unsigned long any = 0;
        for (int k = 0; k < 64; k++)
            any |= cpus[k];
        THAT(any != 0);
        OK(nvmlDeviceGetCudaComputeCapability(d, &major, &minor));
        OK(nvmlDeviceGetMaxPcieLinkGeneration(d, &generation));
        OK(nvmlDeviceGetMaxPcieLinkWidth(d, &width));
        OK(nvmlDeviceGetCurrPcieLinkWidth(d, &now));
        THAT(now == width);
        OK(nvmlDeviceGetMemoryInfo_v2(d, &memory));
        THAT(memory.total == 256 << 20 && memory.free == memory.total);
        int mig = nvmlDeviceGetMigMode(d, &now, &now);
        THAT(mig == (major < 8 ? 3 : 0));
        printf("gpu %u %s nodes %lx cc %d.%d pcie %ux%u %s\n", i, pci.text, nodes[0], major, minor, generation, width, name);
        print_links(i, d);
        for (unsigned k = 0; k < i; k++) {
            int level, p2p;
            OK(nvmlDeviceGetHandleByIndex_v2(k, &same));
            OK(nvmlDeviceGetTopologyCommonAncestor(d, same, &level));
            OK(nvmlDeviceGetP2PStatus(d, same, 0, &p2p));
            printf("pair %u %u level %d p2p %d\n", k, i, level, p2p);
        }
    }
    OK(nvmlShutdown());
    WANT(1, nvmlShutdown());
}

static void lost_gpu(void) {
    Device d;
    unsigned n;
    char name[96];
    open_nvml();
    OK(nvmlInit_v2());
    OK(nvmlDeviceGetHandleByIndex_v2(2, &d));
    use_device(2);
    for (int i = 0; i < 100; i++)
        cuCtxSynchronize();
    WANT(15, nvmlDeviceGetName(d, name, sizeof name));
    WANT(15, nvmlDeviceGetHandleByIndex_v2(2, &d));
    OK(nvmlDeviceGetHandleByIndex_v2(1, &d));
    OK(nvmlDeviceGetName(d, name, sizeof name));
    OK(nvmlDeviceGetCount_v2(&n));
    THAT(n == 8);
}

static void forbidden(void) {
    open_nvml();
    WANT(4, nvmlInit_v2());
}

static void no_host(void) {
    open_nvml();
    WANT(9, nvmlInit_v2());
}

const struct test nvml_tests[] = {{"nvml", print_all}, {"nvml-lost", lost_gpu}, {"nvml-forbidden", forbidden}, {"nvml-no-host", no_host}, {NULL, NULL}};
