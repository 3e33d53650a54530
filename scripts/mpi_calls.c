/* Every collective and every kind of message, back to back: the MPI twin of scripts/measure calls, with the same names,
 * sizes, method and output.
 *
 *   mpi_calls SECONDS [NAME...]
 *
 * mpicc -O2 mpi_calls.c */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PASSES = 5, MOST = 1 << 17, BURST = 4 };

#define W MPI_COMM_WORLD
#define D MPI_DOUBLE
#define NONE MPI_STATUS_IGNORE

static int me, n, names;
static char **name;
static double seconds; /* least time of a pass */

static int wanted(const char *row)
{
    int i = 0;
    while (i < names && strcmp(name[i], row))
        i++;
    return !names || i < names;
}

static long more(long calls, double took)
{
    double times = seconds / (took > 1e-9 ? took : 1e-9);
    return (long)(calls * (times < 1.2 ? 1.2 : times > 10 ? 10 : times)) + 1;
}

/* ROW measures a call: passes with more and more calls until one is long enough, then those that count. */
#define ROW(row, bytes, ...)                                                                                       \
    if (wanted(row)) {                                                                                             \
        double took, best = 1e9;                                                                                   \
        for (long pass = -1, calls = 1; pass < PASSES;) {                                                          \
            MPI_Barrier(W);                                                                                        \
            took = MPI_Wtime();                                                                                    \
            for (long call = 0; call < calls; call++) { __VA_ARGS__; }                                             \
            MPI_Barrier(W);                                                                                        \
            took = MPI_Wtime() - took;                                                                             \
            MPI_Bcast(&took, 1, D, 0, W);                                                                          \
            if (pass >= 0 && took / calls < best) best = took / calls;                                             \
            if (pass >= 0 || took >= seconds) pass++; else calls = more(calls, took);                              \
        }                                                                                                          \
        if (!me) printf("{\"collective\":\"%s\",\"bytes\":%d,\"time_us\":%.3f}\n", row, (int)(bytes), best * 1e6); \
    }

static void add(void *from, void *into, int *count, MPI_Datatype *type)
{
    double *x = from, *y = into;
    (void)type;
    for (int i = 0; i < 4 * *count; i++)
        y[i] += x[i];
}

static void started_allreduce(double *x, double *y, int count)
{
    MPI_Request all[BURST];
    for (int k = 0; k < BURST; k++)
        MPI_Iallreduce(x, y + k * count, count, D, MPI_SUM, W, &all[k]);
    MPI_Waitall(BURST, all, MPI_STATUSES_IGNORE);
}

static void pingpong(double *x, double *y, int count)
{
    if (me == 0)
        MPI_Send(x, count, D, 1, 0, W);
    if (me < 2)
        MPI_Recv(y, count, D, 1 - me, 0, W, NONE);
    if (me == 1)
        MPI_Send(x, count, D, 0, 0, W);
}

static void started_sendrecv(double *x, double *y, int count)
{
    MPI_Request both[2];
    MPI_Irecv(y, count, D, (me + n - 1) % n, 0, W, &both[0]);
    MPI_Isend(x, count, D, (me + 1) % n, 0, W, &both[1]);
    MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
}

static void window(double *x, double *y)
{
    MPI_Request all[64];
    for (int i = 0; i < 64; i++)
        if (me)
            MPI_Isend(x, 1, D, 0, 0, W, &all[i]);
        else
            MPI_Irecv(y + i, 1, D, 1, 0, W, &all[i]);
    MPI_Waitall(64, all, MPI_STATUSES_IGNORE);
    if (me)
        MPI_Recv(y, 1, D, 0, 1, W, NONE);
    else
        MPI_Send(x, 1, D, 1, 1, W);
}

static void probe(double *x, double *y)
{
    MPI_Status s;
    for (int i = 0; me && i < 100; i++)
        MPI_Send(x, 1, D, 0, me, W);
    for (int i = 0; !me && i < 100 * (n - 1); i++) {
        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, W, &s);
        MPI_Recv(y, 1, D, s.MPI_SOURCE, s.MPI_TAG, W, NONE);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_size(W, &n);
    MPI_Comm_rank(W, &me);
    if (argc < 2) {
        fprintf(stderr, "usage: mpi_calls SECONDS [NAME...]\n");
        MPI_Abort(W, 2);
    }
    seconds = atof(argv[1]) / PASSES, names = argc - 2, name = argv + 2;
    size_t room = (size_t)MOST * (n > BURST ? n : BURST);
    double *x = calloc(room, sizeof *x), *y = calloc(room, sizeof *y);
    int *counts = malloc(n * sizeof *counts), *at = malloc(n * sizeof *at), next = (me + 1) % n, prev = (me + n - 1) % n;
    MPI_Datatype four;
    MPI_Op sum;
    MPI_Comm child;
    MPI_Type_contiguous(4, D, &four);
    MPI_Type_commit(&four);
    MPI_Op_create(add, 1, &sum);
    ROW("barrier", 0, MPI_Barrier(W));
    for (int c = 1; c <= MOST; c = c == 1 ? 128 : 32 * c) {
        int bytes = 8 * c, fours = c < 4 ? 1 : c / 4;
        for (int i = 0; i < n; i++)
            counts[i] = c, at[i] = i * c;
        ROW("allreduce", bytes, MPI_Allreduce(x, y, c, D, MPI_SUM, W));
        ROW("allreducefunc", 32 * fours, MPI_Allreduce(x, y, fours, four, sum, W));
        ROW("reduce", bytes, MPI_Reduce(x, y, c, D, MPI_SUM, 0, W));
        ROW("broadcast", bytes, MPI_Bcast(x, c, D, 0, W));
        ROW("allgather", bytes, MPI_Allgather(x, c, D, y, c, D, W));
        ROW("allgatherv", bytes, MPI_Allgatherv(x, c, D, y, counts, at, D, W));
        ROW("reducescatter", bytes, MPI_Reduce_scatter_block(x, y, c, D, MPI_SUM, W));
        ROW("gather", bytes, MPI_Gather(x, c, D, y, c, D, 0, W));
        ROW("gatherv", bytes, MPI_Gatherv(x, c, D, y, counts, at, D, 0, W));
        ROW("scatter", bytes, MPI_Scatter(x, c, D, y, c, D, 0, W));
        ROW("alltoall", bytes, MPI_Alltoall(x, c, D, y, c, D, W));
        ROW("alltoallv", bytes, MPI_Alltoallv(x, counts, at, D, y, counts, at, D, W));
        ROW("scan", bytes, MPI_Scan(x, y, c, D, MPI_SUM, W));
        ROW("exscan", bytes, MPI_Exscan(x, y, c, D, MPI_SUM, W));
        ROW("started-allreduce", bytes, started_allreduce(x, y, c));
        ROW("pingpong", bytes, pingpong(x, y, c));
        ROW("sendrecv", bytes, MPI_Sendrecv(x, c, D, next, 0, y, c, D, prev, 0, W, NONE));
        ROW("started-sendrecv", bytes, started_sendrecv(x, y, c));
    }
    ROW("window", 8, if (me < 2) window(x, y));
    ROW("probe", 8, probe(x, y));
    ROW("split", 0, MPI_Comm_split(W, me % 2, me, &child); MPI_Barrier(child); MPI_Comm_free(&child));
    ROW("dup", 0, MPI_Comm_dup(W, &child); MPI_Comm_free(&child));
    MPI_Type_free(&four);
    MPI_Op_free(&sum);
    MPI_Finalize();
    return 0;
}
