/* Operations that the peer kit's mpi_perf does not measure, in its style: gather, scatter, sendrecv (round a ring of
 * all ranks), and many AllReduces of one size at a time: inflight (MPI_Iallreduce and MPI_Waitall) and serial (one
 * MPI_Allreduce after the other), each call with its own buffers. Rows are JSON lines as mpi_perf -j prints them;
 * the time of inflight and serial is that of all calls.
 *
 *   mpi_more OP[,OP...] CALLS [options of mpi_perf except -o and -m]
 *
 * The header perf_common.h is the kit's: mpicc -O2 -I PEERS mpi_more.c -lm */
#include <mpi.h>
#include "perf_common.h"

enum { GATHER, SCATTER, SENDRECV, INFLIGHT, SERIAL, MORE_N };
static const char *const more_names[MORE_N] = { "gather", "scatter", "sendrecv", "inflight", "serial" };

static int rank, np;

typedef struct {
    int op, calls;
    size_t chunk;   /* elements of a rank's part, or of a call */
    size_t count;   /* elements of the size that is printed */
    size_t stride;  /* bytes from one call's buffers to the next's */
    char *s, *r;
    MPI_Request *requests;
} job;

static void run_once(job *j)
{
    int c = (int)j->chunk;
    switch (j->op) {
    case GATHER: MPI_Gather(j->s, c, MPI_FLOAT, j->r, c, MPI_FLOAT, 0, MPI_COMM_WORLD); break;
    case SCATTER: MPI_Scatter(j->s, c, MPI_FLOAT, j->r, c, MPI_FLOAT, 0, MPI_COMM_WORLD); break;
    case SENDRECV:
        MPI_Sendrecv(j->s, c, MPI_FLOAT, (rank + 1) % np, 0, j->r, c, MPI_FLOAT, (rank + np - 1) % np, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        break;
    case INFLIGHT:
        for (int i = 0; i < j->calls; i++)
            MPI_Iallreduce(j->s + (size_t)i * j->stride, j->r + (size_t)i * j->stride, c, MPI_FLOAT, MPI_SUM,
                           MPI_COMM_WORLD, &j->requests[i]);
        MPI_Waitall(j->calls, j->requests, MPI_STATUSES_IGNORE);
        break;
    case SERIAL:
        for (int i = 0; i < j->calls; i++)
            MPI_Allreduce(j->s + (size_t)i * j->stride, j->r + (size_t)i * j->stride, c, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    }
}

/* The number of wrong elements on this rank after one call with fresh results. */
static long long wrong_after(job *j)
{
    long long w = 0;
    memset(j->r, 0x5a, j->calls > 1 ? (size_t)j->calls * j->stride : j->count * sizeof(float));
    run_once(j);
    switch (j->op) {
    case GATHER:
        for (int q = 0; q < np && !rank; q++)
            w += perf_wrong(j->r + (size_t)q * j->chunk * sizeof(float), j->chunk, TY_FLOAT, q, np, 0);
        return w;
    case SCATTER: return perf_wrong(j->r, j->chunk, TY_FLOAT, 0, np, (size_t)rank * j->chunk);
    case SENDRECV: return perf_wrong(j->r, j->chunk, TY_FLOAT, (rank + np - 1) % np, np, 0);
    default:
        for (int i = 0; i < j->calls; i++)
            w += perf_wrong(j->r + (size_t)i * j->stride, j->chunk, TY_FLOAT, -1, np, 0);
        return w;
    }
}

/* Times one case: iterations from a barrier on, each as long as on its slowest rank; as many of them as fit the cap
 * of o. Prints the row on rank 0. */
static void measure(const perf_opts *o, job *j)
{
    int n = o->iters, warmup = 0;
    double *t = malloc(sizeof(double) * (size_t)o->iters * 2), *slowest = t + o->iters;
    for (int pass = 0; pass < 2; pass++) {
        int m = pass ? warmup - 1 : 1;
        double one, worst, fit[2], x0;
        if (m <= 0) break;
        MPI_Barrier(MPI_COMM_WORLD);
        x0 = perf_now();
        for (int i = 0; i < m; i++) run_once(j);
        one = (perf_now() - x0) / m;
        MPI_Allreduce(&one, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        fit[0] = perf_fit(o->warmup, 1, o->budget / 2, worst);
        fit[1] = perf_fit(o->iters, 3, o->budget, worst);
        MPI_Bcast(fit, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        if (!pass) warmup = (int)fit[0];
        n = (int)fit[1];
    }
    for (int i = 0; i < n; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double x0 = perf_now();
        run_once(j);
        t[i] = perf_now() - x0;
    }
    MPI_Reduce(t, slowest, n, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    long long wrong = 0, total = 0;
    if (o->check) {
        wrong = wrong_after(j);
        MPI_Reduce(&wrong, &total, 1, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    }
    if (!rank) {
        double median = perf_median(slowest, n);
        printf("{\"op\":\"%s\",\"np\":%d,\"bytes\":%zu,\"calls\":%d,\"type\":\"float\",\"iters\":%d,\"time_us\":%.3f,\"min_us\":%.3f,\"wrong\":%lld}\n",
               more_names[j->op], np, j->count * sizeof(float), j->calls, n, median * 1e6, slowest[0] * 1e6, o->check ? total : 0);
        fflush(stdout);
    }
    free(t);
}

/* All cases of one operation, from the smallest size to the largest. */
static void measure_all(const perf_opts *o, int op, int calls, char *s, char *r)
{
    for (double b = (double)o->minb; b <= (double)o->maxb * 1.0000001; b = perf_next(o, b)) {
        job j = { .op = op, .calls = 1, .s = s, .r = r };
        j.count = j.chunk = (size_t)b / sizeof(float);
        if (op == GATHER || op == SCATTER) {
            j.chunk = j.chunk / (size_t)np ? j.chunk / (size_t)np : 1;
            j.count = j.chunk * (size_t)np;
        }
        j.stride = (j.count * sizeof(float) + 127) / 64 * 64;
        if (op == INFLIGHT || op == SERIAL) {
            j.calls = calls;
            j.requests = malloc(sizeof(MPI_Request) * (size_t)calls);
        }
        for (int i = 0; i < j.calls; i++) perf_fill(s + (size_t)i * j.stride, j.count, TY_FLOAT, rank);
        measure(o, &j);
        free(j.requests);
    }
}

int main(int argc, char **argv)
{
    perf_opts o;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &np);
    int calls = argc > 2 ? atoi(argv[2]) : 0;
    if (calls < 1 || perf_parse(argc - 2, argv + 2, &o)) {
        if (!rank) fprintf(stderr, "usage: mpi_more OP[,OP...] CALLS [options of mpi_perf except -o and -m]\n");
        MPI_Finalize();
        return 2;
    }
    size_t room = (size_t)calls * (o.maxb + 128) + (size_t)np * sizeof(float);
    char *s = perf_alloc(room), *r = perf_alloc(room);
    for (const char *p = argv[1]; *p;) {
        size_t len = strcspn(p, ",");
        int op = perf_find(more_names, MORE_N, p, len);
        if (op < 0) {
            if (!rank) fprintf(stderr, "mpi_more: unknown operation: %s\n", p);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        measure_all(&o, op, calls, s, r);
        p += len;
        if (*p == ',') p++;
    }
    MPI_Finalize();
    return 0;
}
