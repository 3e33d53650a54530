/* The fake driver's own objects. Locks are taken in the order of this list:
 * contexts, then a stream, then mappings. */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include "cuda_abi.h"
#include "host.h"

#include <pthread.h>
#include <setjmp.h>

/* --- calls.c: what every call begins with */

enum need { NEED_NOTHING, NEED_INIT, NEED_CONTEXT };

/* How often a call was made, as the file calls-PID of the host's folder has it. */
struct tally {
    char name[56];
    _Atomic uint64_t count;
};

/* Counts a call, lets it cost the time that the environment requests, and returns
 * the error it must end with: of the library, of the context, or one that the
 * environment requests. *tally is the call's own, looked up the first time. */
/* Whether a test lets a stream, given by its handle, be captured. */
bool captured_stream(const void *handle);

CUresult begin_call(const char *name, struct tally *_Atomic *tally, enum need need);

#define BEGIN(name, need)                                         \
    do {                                                          \
        static struct tally *_Atomic tally_;                      \
        CUresult begun_ = begin_call(name, &tally_, need);        \
        if (begun_ != CUDA_SUCCESS)                               \
            return begun_;                                        \
    } while (0)

extern _Thread_local bool in_host_function; /* where no call is allowed */

/* --- context.c */

enum { MAX_QUEUES = 128 };

/* A queue of the hardware does one operation after the other, whichever stream
 * it is of. Operations have numbers. */
struct queue {
    pthread_mutex_t lock;
    pthread_cond_t moved; /* done has changed */
    uint64_t given, done;
};

struct context {
    int ordinal, gpu; /* as this process and as the host counts */
    int references;   /* 0: the primary context is not active */
    _Atomic int error; /* that all calls return from now on, 0 for none */
    _Atomic bool dying;
    _Atomic bool peers[MAX_GPUS]; /* by the host's count: memory it may access */
    struct stream *streams;
    struct stream *default_stream;
    struct queue queues[MAX_QUEUES]; /* that its streams share, in turn, where the environment requests that */
    unsigned streams_made;
    pthread_mutex_t submitting; /* the caller that holds it may wait for a full queue, and all other calls wait for that caller */
};

extern pthread_mutex_t contexts_lock;

int device_count(void);
struct context *context_at(int ordinal); /* NULL for a wrong ordinal */
struct context *context_of_gpu(int gpu); /* NULL for one this process does not see */
struct context *current_context(void);   /* NULL without one */
bool valid_context(struct context *c);
void start_devices(void);
/* Notes that a context has failed; the first error stays. */
void fail_context(struct context *c, CUresult error);
/* The error a context is in: its own, or that its GPU is lost. */
CUresult context_error(struct context *c);
/* Waits for all work of a context that was given to it before. */
void drain_context(struct context *c);

/* --- faults.c: the faults that the environment requests */

CUresult injected_failure(const char *call, unsigned count, int gpu);
void spend_call_time(void); /* of the CPU */
void count_for_loss(int gpu);
bool no_memory_operations(void);
enum damage { LINK_WHOLE, LINK_CORRUPTS, LINK_HANGS };
enum damage link_damage(int gpu, int other);
unsigned jitter_microseconds(unsigned *seed); /* that an operation comes late */
unsigned jitter_seed(void);
unsigned queues_of_device(void); /* 0: every stream has its own */
unsigned queue_depth(void);      /* 0: without end */
void slow_teardown(void);
void slow_compiler(void);
double modeled_seconds(int to, int from, int by, size_t n);

/* --- mapping.c: memory that a device can access */

enum memory_kind { MEMORY_DEVICE, MEMORY_POOL, MEMORY_IMPORTED, MEMORY_PINNED, MEMORY_REGISTERED };

/* Small allocations share blocks, as with the real driver; a handle of one opens all of them. */
enum { BLOCK = 2 << 20 };

struct mapping {
    enum memory_kind kind;
    uintptr_t base; /* the address for the caller */
    size_t size;    /* from base on; of an imported block all of it, from start on */
    struct block *block; /* NULL where the memory has a file of its own */
    void *start; /* of the mapping, 0 for registered memory */
    size_t length;
    int gpu; /* whose memory it is, by the host's count; -1 for host memory */
    int file; /* of device memory, -1 otherwise */
    uint64_t id;    /* of the allocation, in all processes */
    uint64_t inode; /* of imported memory */
    struct context *context;
};

CUresult map_device_memory(enum memory_kind kind, struct context *c, size_t size, uintptr_t *base);
CUresult map_import(int file, size_t length, const struct mapping *like, uintptr_t *base);
CUresult map_host_memory(enum memory_kind kind, struct context *c, void *p, size_t size, uintptr_t *base);
/* Copies the mapping that holds all of [p, p+n), false if there is none. */
bool find_mapping(uintptr_t p, size_t n, struct mapping *m);
bool is_imported(uint64_t inode, struct context *c);
/* Removes what begins at p, if it is of that kind. */
bool drop_mapping(uintptr_t p, unsigned kinds);
void drop_mappings_of(struct context *c);
bool overlaps_mapping(uintptr_t p, size_t n);
bool in_reserved_range(uintptr_t p);
bool accessible(const struct mapping *m, const struct context *c);

/* --- event.c */

enum { GENERATIONS = 16 };

/* How far an event has come. Recording number g is done when done[g %
 * GENERATIONS] has reached g: recordings on different streams may end in any
 * order, and more than that many at once do not occur in one event. */
struct progress {
    _Atomic uint32_t recorded;
    _Atomic uint32_t turn; /* changes when anything is done: the futex */
    _Atomic uint32_t done[GENERATIONS];
    _Atomic uint64_t nanoseconds; /* when the last one was done */
};

bool progress_done(const struct progress *p, uint32_t generation);
void progress_finish(struct progress *p, uint32_t generation);

/* --- stream.c */

enum operation_kind { DO_COPY, DO_SET, DO_KERNEL, DO_HOST_FUNCTION, DO_RECORD, DO_WAIT_EVENT, DO_VALUES };

struct operation {
    struct operation *next;
    uint64_t number; /* in the queue */
    enum operation_kind kind;
    union {
        struct {
            uintptr_t to, from;
            size_t n;
            void *staging; /* freed afterwards; then from is in it */
            int to_gpu, from_gpu;
        } copy;
        struct {
            uintptr_t to;
            size_t n;
            unsigned char value;
        } set;
        struct {
            const struct function *function;
            unsigned grid[3], block[3];
            void *args; /* freed afterwards */
        } kernel;
        struct {
            CUhostFn call;
            void *data;
        } host;
        struct {
            struct progress *progress;
            uint32_t generation;
        } event;
        struct {
            unsigned n;
            CUstreamBatchMemOpParams *list; /* freed afterwards */
        } values;
    };
};

struct stream {
    uint32_t magic;
    struct context *context;
    struct stream *next; /* of the context */
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    struct operation *head, **tail;
    uint64_t submitted, completed;
    struct queue own, *queue;
    bool ending;
    unsigned seed, flags;
    int priority;
    pthread_t thread;
};

/* The stream a handle stands for, the context's default stream for 0, 1 and 2;
 * NULL for a handle that is not valid. */
struct stream *resolve_stream(CUstream handle);
CUresult submit(struct stream *s, const struct operation *o);
void init_queue(struct queue *q);
uint64_t submitted(struct stream *s);
void wait_completed(struct stream *s, uint64_t until);
void end_streams(struct context *c);

/* --- operations.c */

void perform(struct stream *s, struct operation *o);
/* Whether an operation of s that waits must give up. */
bool must_stop(struct stream *s);
void hang(struct stream *s);

/* --- kernel.c and launch.c */

struct host_kernel { /* as libtreerun_kernels.so exports them */
    const char *name;
    void (*run)(const void *args);
    size_t args_size;
};

struct function {
    uint32_t magic;
    const struct host_kernel *kernel;
    struct module *module;
    struct function *next;
};

const struct host_kernel *host_kernel(const char *name);
void run_kernel(struct stream *s, struct operation *o);

/* Catches bad memory accesses: if (protect()) { ...; unprotect(); } else it was bad. */
extern _Thread_local sigjmp_buf *protection;
void catch_faults(void);

/* --- futex.c */

/* Waits until *word is not value, or for that many microseconds. Other processes
 * may wake it. */
void futex_wait(const void *word, uint32_t value, long microseconds);
void futex_wake(const void *word);

#endif
