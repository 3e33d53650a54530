/* How much of an AllReduce takes place while the program does other work: the MPI twin of scripts/measure overlap, with the
 * same output.
 *
 *   mpi_overlap BYTES ITERATIONS
 *
 * mpicc -O2 mpi_overlap.c */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { NOTHING, SLEEP, COMPUTE };

static volatile double sink;

static void work(int kind, double us)
{
    if (kind == SLEEP) {
        struct timespec t = { (time_t)(us / 1e6), (long)(us * 1e3) % 1000000000 };
        nanosleep(&t, NULL);
    } else if (kind == COMPUTE) {
        double x = 1;
        for (long i = 0; i < (long)(us * 1e3) / 2; i++)
            x = x * 1.0000001 + 1e-9;
        sink = x;
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int count = argc == 3 ? atoi(argv[1]) / 4 : 0, n = argc == 3 ? atoi(argv[2]) : 0, rank;
    if (count < 1 || n < 1) {
        fprintf(stderr, "usage: mpi_overlap BYTES ITERATIONS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    float *send = calloc(count, 4), *recv = calloc(count, 4);
    double *all = malloc(n * sizeof *all), row[6];
    for (int k = 0; k < 6; k++) { /* the first row warms up */
        int kind = k < 2 ? NOTHING : k < 4 ? SLEEP : COMPUTE, calls = k < 2 || k % 2 == 1;
        for (int i = 0; i < n; i++) {
            MPI_Request r = MPI_REQUEST_NULL;
            MPI_Barrier(MPI_COMM_WORLD);
            double begin = MPI_Wtime();
            if (calls)
                MPI_Iallreduce(send, recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &r);
            work(kind, k < 2 ? 0 : row[1]);
            MPI_Wait(&r, MPI_STATUS_IGNORE);
            all[i] = (MPI_Wtime() - begin) * 1e6;
        }
        qsort(all, n, sizeof *all, by_value);
        MPI_Allreduce(&all[n / 2], &row[k], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("%.1f %.1f %.1f %.1f %.1f\n", row[1], row[2], row[3], row[4], row[5]);
    MPI_Finalize();
    return 0;
}
