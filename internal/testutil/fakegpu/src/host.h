/* What both fake libraries know of the fake host: its GPUs, from the file
 * "topology" of the folder in TREERUN_FAKE_GPU, and the board, a file of
 * that folder that all processes of the host map. */
#ifndef FAKE_HOST_H
#define FAKE_HOST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))

enum { MAX_GPUS = 64, MAX_NVLINKS = 18, MAX_PROCESSES = 256, MAX_NUMAS = 2, CPU_WORDS = 64 };

enum remote { REMOTE_NONE, REMOTE_GPU };

struct nvlink {
    enum remote remote;
    int index; /* of the GPU at the other end */
};

struct gpu {
    char name[96];
    unsigned char uuid[16];
    unsigned bus; /* PCI: domain 0, device 0 */
    int numa, major, minor, processors;
    int pcie_generation, pcie_width;
    int nvlink_version;  /* as nvmlNvlinkVersion_t counts; 0: the GPU has none */
    int nvlink_megabytes; /* of a link, MB/s each way */
    int nvlinks;
    struct nvlink nvlink[MAX_NVLINKS];
    uint64_t memory; /* bytes */
};

struct topology {
    char graph[128];
    uint64_t nonce; /* of this host: what another host exported cannot be opened here */
    int numas, gpus;
    unsigned long cpus[MAX_NUMAS][CPU_WORDS]; /* of each NUMA node, as a bitmap */
    struct gpu gpu[MAX_GPUS];
    unsigned char peer[MAX_GPUS][MAX_GPUS];  /* one can access the other's memory */
    unsigned char level[MAX_GPUS][MAX_GPUS]; /* the common ancestor, as NVML counts */
    double rate[MAX_GPUS][MAX_GPUS];         /* GB/s each way, 0 without a link */
};

/* The fake host, or NULL where TREERUN_FAKE_GPU is not set or is wrong; the
 * error goes to stderr, once. */
const struct topology *topology(void);

/* Writes the path of a file of the fake host's folder. */
void host_path(char *path, size_t size, const char *file);

/* The value of an environment variable, NULL when it is not set or empty. */
const char *setting(const char *name);

/* The driver's version, as cuDriverGetVersion counts. */
int driver_version(void);

/* One line to stderr. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct slot { /* of a process */
    _Atomic uint64_t used[MAX_GPUS]; /* bytes */
};

struct board {
    _Atomic uint32_t calls[MAX_GPUS]; /* driver calls with a context of that GPU */
    _Atomic uint32_t lost[MAX_GPUS];
    struct slot slots[MAX_PROCESSES];
};

/* Maps the board; NULL when that fails, with a line to stderr. */
struct board *board(void);

/* Takes a slot of the board for this process. */
bool board_join(void);

/* The bytes that all living processes have allocated on a GPU. */
uint64_t board_used(int gpu);

/* Takes bytes of a GPU's memory, false when there are not as many left. */
bool board_take(int gpu, uint64_t bytes);
void board_give(int gpu, uint64_t bytes);

#endif
