/* Seconds of five collectives, each as the slowest rank has it: what an application waits for.
 *
 * Prints one line for each: name, bytes, microseconds. Of REPEATS runs the median counts; a run
 * begins with a barrier, because the rank that comes late would be taken for a slow link.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { REPEATS = 5, KIB = 1024, MIB = 1024 * 1024 };

static char *send, *receive;
static int ranks;

static void barrier(int bytes) {
    (void)bytes;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void allreduce(int bytes) {
    MPI_Allreduce(send, receive, bytes / (int)sizeof(double), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void alltoall(int bytes) {
    MPI_Alltoall(send, bytes, MPI_BYTE, receive, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void bcast(int bytes) { MPI_Bcast(send, bytes, MPI_BYTE, 0, MPI_COMM_WORLD); }

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Microseconds of the slowest rank; valid on rank 0. */
static double slowest(void (*collective)(int), int bytes) {
    double times[REPEATS];
    for (int i = 0; i < REPEATS; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        collective(bytes);
        double own = 1e6 * (MPI_Wtime() - begin);
        MPI_Reduce(&own, &times[i], 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    }
    qsort(times, REPEATS, sizeof *times, ascending);
    return times[REPEATS / 2];
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(int);
        int bytes;
    } collectives[] = {
        {"barrier", barrier, 0},      {"allreduce", allreduce, 8},     {"allreduce", allreduce, MIB},
        {"bcast", bcast, MIB},        {"alltoall", alltoall, 64 * KIB},
    };
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    size_t bytes = (size_t)64 * KIB * (size_t)ranks;
    if (bytes < MIB)
        bytes = MIB;
    send = calloc(bytes, 1);
    receive = calloc(bytes, 1);
    if (!send || !receive)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++) {
        double us = slowest(collectives[i].run, collectives[i].bytes);
        if (rank == 0)
            printf("%s %d %.3f\n", collectives[i].name, collectives[i].bytes, us);
    }
    free(send);
    free(receive);
    MPI_Finalize();
    return 0;
}
