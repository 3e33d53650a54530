#define _GNU_SOURCE
#include "host.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct topology host;
static bool usable;
static pthread_once_t once = PTHREAD_ONCE_INIT;

const char *setting(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

void complain(const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "fake GPU: %s\n", text);
}

void host_path(char *path, size_t size, const char *file) {
    snprintf(path, size, "%s/%s", getenv("TREERUN_FAKE_GPU"), file);
}

int driver_version(void) {
    const char *version = setting("TREERUN_FAKE_GPU_DRIVER");
    return version ? atoi(version) : 12040;
}

static bool known(int gpu) { return gpu >= 0 && gpu < host.gpus; }

static bool read_uuid(const char *hex, unsigned char *uuid) {
    for (int i = 0; i < 16; i++) {
        if (sscanf(hex + 2 * i, "%2hhx", &uuid[i]) != 1)
            return false;
    }
    return hex[32] == 0;
}

static bool read_gpu(const char *line) {
    struct gpu g = {0};
    char uuid[40];
    unsigned long long memory;
    int at = 0;
    if (host.gpus == MAX_GPUS ||
        sscanf(line, "gpu %32s bus %x numa %d cc %d.%d sms %d pcie %d x%d nvlink %d %d memory %llu name %n", uuid, &g.bus, &g.numa,
               &g.major, &g.minor, &g.processors, &g.pcie_generation, &g.pcie_width, &g.nvlink_version,
               &g.nvlink_megabytes, &memory, &at) != 11 ||
        at == 0 || g.numa < 0 || g.numa >= host.numas || g.major < 0 || !read_uuid(uuid, g.uuid))
        return false;
    g.memory = memory;
    snprintf(g.name, sizeof g.name, "%.95s", line + at);
    host.gpu[host.gpus++] = g;
    return true;
}

static bool read_nvlink(const char *line) {
    int gpu, index, at = 0;
    if (sscanf(line, "nvlink %d %n", &gpu, &at) != 1 || at == 0 || !known(gpu) || host.gpu[gpu].nvlinks == MAX_NVLINKS)
        return false;
    struct nvlink *link = &host.gpu[gpu].nvlink[host.gpu[gpu].nvlinks++];
    if (strcmp(line + at, "none") == 0) {
        link->remote = REMOTE_NONE;
        return true;
    }
    link->remote = REMOTE_GPU;
    if (sscanf(line + at, "gpu %d", &index) != 1)
        return false;
    link->index = index;
    return known(index);
}

static bool read_pair(const char *line) {
    int a, b, peer, level;
    double rate;
    if (sscanf(line, "pair %d %d peer %d level %d rate %lf", &a, &b, &peer, &level, &rate) != 5 || !known(a) || !known(b))
        return false;
    host.peer[a][b] = host.peer[b][a] = peer != 0;
    host.level[a][b] = host.level[b][a] = level;
    host.rate[a][b] = host.rate[b][a] = rate;
    return true;
}

/* A CPU of a NUMA node. */
static bool read_cpu(const char *line) {
    const unsigned bits = 8 * sizeof(unsigned long);
    unsigned node, cpu;
    if (sscanf(line, "cpu %u %u", &node, &cpu) != 2 || node >= MAX_NUMAS || cpu >= CPU_WORDS * bits)
        return false;
    host.cpus[node][cpu / bits] |= 1ul << cpu % bits;
    return true;
}

/* Reads a line of the file that the Go package fakegpu writes. */
static bool read_line(const char *line) {
    unsigned long long nonce;
    if (sscanf(line, "nonce %llx", &nonce) == 1) {
        host.nonce = nonce;
        return true;
    }
    if (strncmp(line, "graph ", 6) == 0) {
        snprintf(host.graph, sizeof host.graph, "%.127s", line + 6);
        return true;
    }
    if (sscanf(line, "numas %d", &host.numas) == 1)
        return host.numas >= 1 && host.numas <= MAX_NUMAS;
    return read_cpu(line) || read_gpu(line) || read_nvlink(line) || read_pair(line);
}

static void read_memory(void) {
    const char *memory = setting("TREERUN_FAKE_GPU_MEMORY");
    if (!memory)
        return;
    char *end;
    unsigned long long bytes = strtoull(memory, &end, 10);
    if (*end || bytes == 0)
        complain("TREERUN_FAKE_GPU_MEMORY=%s is no number of bytes: every GPU keeps its memory", memory);
    else
        for (int i = 0; i < host.gpus; i++)
            host.gpu[i].memory = bytes;
}

static void part(void) {
    if (setting("TREERUN_FAKE_GPU_NO_PEERS"))
        memset(host.peer, 0, sizeof host.peer);
    for (int i = 0; setting("TREERUN_FAKE_GPU_NO_NVLINK") && i < host.gpus; i++) {
        for (int k = 0; k < host.gpu[i].nvlinks; k++)
            host.gpu[i].nvlink[k].remote = REMOTE_NONE;
    }
}

static void load(void) {
    char path[4096], line[512];
    if (!setting("TREERUN_FAKE_GPU")) {
        complain("this library is for treerun's tests and works under scripts/fake-gpu.sh only: TREERUN_FAKE_GPU is not set");
        return;
    }
    host_path(path, sizeof path, "topology");
    FILE *file = fopen(path, "re");
    if (!file) {
        complain("open %s: %m", path);
        return;
    }
    usable = true;
    for (int n = 1; usable && fgets(line, sizeof line, file); n++) {
        line[strcspn(line, "\n")] = 0;
        if (!read_line(line)) {
            complain("%s, line %d: cannot be understood: %s", path, n, line);
            usable = false;
        }
    }
    fclose(file);
    if (usable && host.gpus == 0) {
        complain("%s names no GPU", path);
        usable = false;
    }
    read_memory();
    part();
}

const struct topology *topology(void) {
    pthread_once(&once, load);
    return usable ? &host : NULL;
}
