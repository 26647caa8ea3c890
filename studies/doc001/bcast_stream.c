/* A source broadcasts frames without a pause; workers copy, compute, check, and repair what was lost.
 *
 *   mpirun -n P bcast_stream [-p 2,4] [-s 64,65536] [-e 0,0.01] [-f FRAMES] [-b BYTES] [-w WINDOW]
 *                            [-m host|cuda] [-x FRAME] [-y FRAME]
 *
 * -p  numbers of ranks (the first ones of the world); -s sizes of frames [B], multiples of 8, from 16
 * -e  error rates: the share of frames that each worker drops as if the network had lost them
 * -f  most frames of a round; -b most bytes of a round; at least two windows of frames are sent
 * -w  broadcasts in flight
 * -m  where a worker copies each frame to and back from: host memory, or the memory of a GPU
 * -x  the last worker damages this frame; -y it does not repair this frame, which it drops (for tests)
 *
 * Word 0 of a frame is its sequence number, the others follow from that number: a worker computes and
 * compares each word. A dropped frame is overwritten, and then repaired in one of two ways:
 *   rma   the worker gets it from the backup buffer of the source, which goes on broadcasting
 *   nack  after each window, the source asks every worker what it lost, and sends it again
 * The source reuses a slot of its backup buffer once all workers have done with it.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 32, DEPTH = 4, PINGS = 50, ALONE = 100 };

static MPI_Comm comm;
static int rank, ranks, window = 16, last_worker;
static long damaged = -1, withheld = -1;
static long frames_done, dropped, retrieved, lost, wrong, verified;
static uint64_t computed;

static void fail(const char *what) {
    fprintf(stderr, "bcast_stream: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 2);
    exit(2);
}

static uint64_t mix(uint64_t x) { /* splitmix64: Steele, Lea, Flood 2014, 10.1145/2714064.2660195 */
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static void fill(uint64_t *frame, size_t words, long number) {
    uint64_t base = mix((uint64_t)number);
    frame[0] = (uint64_t)number;
    for (size_t i = 1; i < words; i++) frame[i] = mix(base + i);
}

static int is_whole(const uint64_t *frame, size_t words, long number) {
    uint64_t base = mix((uint64_t)number), different = frame[0] ^ (uint64_t)number, sum = 0;
    for (size_t i = 1; i < words; i++) {
        different |= frame[i] ^ mix(base + i);
        sum += frame[i];
    }
    computed += sum;
    return different == 0;
}

static int drops(long number, double rate) {
    if (number == withheld && rank == last_worker) return 1;
    uint64_t chance = mix(mix((uint64_t)number) ^ (uint64_t)rank * 0x2545f4914f6cdd1du);
    return (double)(chance >> 11) * 0x1p-53 < rate;
}

/* --- memory of a GPU, by the driver: the program is built without CUDA --------------------------- */

static int (*to_device)(uint64_t, const void *, size_t), (*from_device)(void *, uint64_t, size_t);
static uint64_t on_device;

static void *symbol(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (!found) fail(name);
    return found;
}

static void open_gpu(size_t bytes) {
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
    if (!cuda) fail("there is no libcuda.so.1: the node has no driver of CUDA");
    int count = 0, device = 0;
    const char *local = getenv("LOCAL_RANK"); /* rank-gpu.sh sets it */
    int (*init)(unsigned) = symbol(cuda, "cuInit");
    int (*number)(int *) = symbol(cuda, "cuDeviceGetCount");
    int (*get)(int *, int) = symbol(cuda, "cuDeviceGet");
    int (*retain)(void **, int) = symbol(cuda, "cuDevicePrimaryCtxRetain");
    int (*current)(void *) = symbol(cuda, "cuCtxSetCurrent");
    int (*allocate)(uint64_t *, size_t) = symbol(cuda, "cuMemAlloc_v2");
    to_device = symbol(cuda, "cuMemcpyHtoD_v2");
    from_device = symbol(cuda, "cuMemcpyDtoH_v2");
    if (init(0) || number(&count) || count < 1) fail("CUDA sees no GPU");
    if (get(&device, (local ? atoi(local) : 0) % count) || retain(&context, device) ||
        current(context) || allocate(&on_device, bytes))
        fail("the memory of the GPU cannot be used");
}

/* The frame goes to the device and comes back; what came back is what is checked. */
static void through_device(uint64_t *frame, uint64_t *copy, size_t bytes) {
    if (!to_device) {
        memcpy(copy, frame, bytes);
    } else if (to_device(on_device, frame, bytes) || from_device(copy, on_device, bytes)) {
        fail("a copy to or from the GPU failed");
    }
}

/* --- one round ------------------------------------------------------------------------------------ */

static uint64_t *backup, *slots, *copy;
static MPI_Win win;

static void take(uint64_t *frame, size_t bytes, long number, int was_dropped) {
    if (number == damaged && rank == last_worker) frame[1] ^= 1;
    through_device(frame, copy, bytes);
    if (is_whole(copy, bytes / 8, number)) {
        verified++;
        retrieved += was_dropped;
    } else if (was_dropped) {
        lost++;
    } else {
        wrong++;
    }
}

/* What a worker does with the frames of a window that have arrived. */
static void work(size_t bytes, long first, long end, double rate, int rma, MPI_Request *requests) {
    long again[1 + 1024] = {0};
    for (long n = first; n < end; n++) {
        uint64_t *frame = slots + (n % window) * (bytes / 8);
        MPI_Wait(&requests[n % window], MPI_STATUS_IGNORE);
        frames_done++;
        if (!drops(n, rate)) {
            take(frame, bytes, n, 0);
            continue;
        }
        dropped++;
        memset(frame, 0xee, bytes);
        if (!rma) {
            again[++again[0]] = n;
            continue;
        }
        if (!(n == withheld && rank == last_worker)) {
            MPI_Get(frame, (int)bytes, MPI_BYTE, 0, (MPI_Aint)(n % (DEPTH * window)) * (MPI_Aint)bytes,
                    (int)bytes, MPI_BYTE, win);
            MPI_Win_flush(0, win);
        }
        take(frame, bytes, n, 1);
    }
    if (rma) return;
    MPI_Gather(again, 1 + window, MPI_LONG, NULL, 0, MPI_LONG, 0, comm);
    for (long k = 1; k <= again[0]; k++) {
        uint64_t *frame = slots + (again[k] % window) * (bytes / 8);
        MPI_Recv(frame, (int)bytes, MPI_BYTE, 0, 1, comm, MPI_STATUS_IGNORE);
        if (again[k] == withheld && rank == last_worker) memset(frame, 0xee, bytes);
        take(frame, bytes, again[k], 1);
    }
}

/* The source sends again what the workers say that they lost. */
static void send_again(size_t bytes) {
    static long none[1 + 1024];
    long *asked = malloc(sizeof *asked * (size_t)ranks * (1 + (size_t)window));
    if (!asked) fail("no memory");
    MPI_Gather(none, 1 + window, MPI_LONG, asked, 1 + window, MPI_LONG, 0, comm);
    for (int r = 1; r < ranks; r++) {
        long *of_rank = asked + r * (1 + window);
        for (long k = 1; k <= of_rank[0]; k++)
            MPI_Send(backup + (of_rank[k] % (DEPTH * window)) * (long)(bytes / 8), (int)bytes, MPI_BYTE,
                     r, 1, comm);
    }
    free(asked);
}

/* Frames `first` to `end`, a window at a time. The time [s] is that of this rank. */
static double stream(size_t bytes, long first, long end, long step, double rate, int rma) {
    MPI_Request requests[1024], done[DEPTH];
    for (int d = 0; d < DEPTH; d++) done[d] = MPI_REQUEST_NULL;
    if (step > 1) MPI_Barrier(comm); /* else the frame before it ended in one */
    double start = MPI_Wtime();
    for (long at = first, turn = 0; at < end; at += step, turn++) {
        long to = at + step < end ? at + step : end;
        /* All workers have done with the frames whose slots are filled now. */
        MPI_Wait(&done[turn % DEPTH], MPI_STATUS_IGNORE);
        for (long n = at; n < to; n++) {
            uint64_t *frame = rank ? slots + (n % window) * (long)(bytes / 8)
                                   : backup + (n % (DEPTH * window)) * (long)(bytes / 8);
            if (!rank) fill(frame, bytes / 8, n);
            if (!rank && rma) MPI_Win_sync(win);
            MPI_Ibcast(frame, (int)bytes, MPI_BYTE, 0, comm, &requests[n % window]);
        }
        if (rank) {
            work(bytes, at, to, rate, rma, requests);
        } else {
            for (long n = at; n < to; n++) MPI_Wait(&requests[n % window], MPI_STATUS_IGNORE);
            frames_done += to - at;
            if (!rma) send_again(bytes);
        }
        MPI_Ibarrier(comm, &done[turn % DEPTH]);
    }
    MPI_Waitall(DEPTH, done, MPI_STATUSES_IGNORE);
    return MPI_Wtime() - start;
}

/* The longest round trip between the source and a worker [s]. */
static double round_trip(void) {
    double worst = 0;
    char byte = 0;
    for (int r = 1; r < ranks; r++) {
        MPI_Barrier(comm);
        double start = MPI_Wtime();
        for (int k = 0; k < PINGS && (rank == 0 || rank == r); k++) {
            if (rank == 0) {
                MPI_Send(&byte, 1, MPI_CHAR, r, 2, comm);
                MPI_Recv(&byte, 1, MPI_CHAR, r, 2, comm, MPI_STATUS_IGNORE);
            } else {
                MPI_Recv(&byte, 1, MPI_CHAR, 0, 2, comm, MPI_STATUS_IGNORE);
                MPI_Send(&byte, 1, MPI_CHAR, 0, 2, comm);
            }
        }
        double one = (MPI_Wtime() - start) / PINGS;
        if (rank == 0 && one > worst) worst = one;
    }
    return worst;
}

static void measure(size_t bytes, long frames, double rate, int rma) {
    long counts[5], sums[5], steps = DEPTH * window;
    double mine, slowest, alone;
    frames_done = dropped = retrieved = lost = wrong = verified = 0;
    mine = stream(bytes, 0, frames, window, rate, rma);
    MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, comm);
    long sent = frames_done;
    /* Frames alone: the next one waits until all workers have confirmed this one. */
    long few = frames < ALONE ? frames : ALONE;
    MPI_Barrier(comm);
    double start = MPI_Wtime();
    for (long n = 0; n < few; n++) {
        long number = (frames / steps + 1) * steps + n;
        stream(bytes, number, number + 1, 1, rate, rma);
    }
    alone = (MPI_Wtime() - start) / (double)few;
    long all[5] = {dropped, retrieved, lost, wrong, verified};
    memcpy(counts, all, sizeof all);
    MPI_Reduce(counts, sums, 5, MPI_LONG, MPI_SUM, 0, comm);
    if (rank) return;
    lost = sums[2], wrong = sums[3];
    printf("%d %s %g %zu %ld %ld %.6f %.2f %.2f %.3f %ld %ld %ld %ld %ld\n", ranks,
           rma ? "rma" : "nack", rate, bytes, sent, few, slowest, (double)sent / slowest,
           (double)sent / slowest * (double)bytes / 1e6, alone * 1e6, sums[0], sums[1], sums[2], sums[3],
           sums[4]);
}

static int list(const char *text, double *values) {
    int count = 0;
    char *end = (char *)text;
    while (*end && count < MOST) {
        values[count++] = strtod(end, &end);
        if (*end == ',') end++;
        else if (*end) fail("a list is not numbers with commas");
    }
    return count;
}

int main(int argc, char **argv) {
    double counts[MOST], sizes[MOST], rates[MOST] = {0};
    int given = 0, several = 0, errors = 1, world, on_gpu = 0, bad = 0;
    long most_frames = 1000;
    double most_bytes = 64e6;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    sizes[0] = 64, several = 1;
    counts[0] = world, given = 1;
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (argv[i][0] != '-' || !*value) fail("an option has no value");
        switch (argv[i][1]) {
        case 'p': given = list(value, counts); break;
        case 's': several = list(value, sizes); break;
        case 'e': errors = list(value, rates); break;
        case 'f': most_frames = atol(value); break;
        case 'b': most_bytes = atof(value); break;
        case 'w': window = atoi(value); break;
        case 'm': on_gpu = !strcmp(value, "cuda"); break;
        case 'x': damaged = atol(value); break;
        case 'y': withheld = atol(value); break;
        default: fail("an option is unknown");
        }
    }
    if (window < 1 || window > 1024) fail("-w: a window has 1 to 1024 frames");
    double largest = 0;
    for (int s = 0; s < several; s++) {
        if (sizes[s] < 16 || (long)sizes[s] % 8) fail("-s: a frame has 16 B or more, in words of 8 B");
        if (sizes[s] > largest) largest = sizes[s];
    }
    for (int p = 0; p < given; p++)
        if (counts[p] < 2 || counts[p] > world) fail("-p: 2 ranks are needed, and no more than there are");
    size_t room = (size_t)largest * (size_t)window;
    slots = malloc(room);
    copy = malloc((size_t)largest);
    if (!slots || !copy) fail("no memory");
    if (on_gpu) open_gpu((size_t)largest);
    if (rank == 0) {
        printf("# assay bcast_stream 1\n# ranks %d, window %d, backup slots %d, buffers %s\n", world, window,
               DEPTH * window, on_gpu ? "cuda" : "host");
    }
    for (int p = 0; p < given; p++) {
        int in = rank < (int)counts[p], here = rank;
        MPI_Comm_split(MPI_COMM_WORLD, in ? 0 : MPI_UNDEFINED, rank, &comm);
        if (in) {
            MPI_Comm_size(comm, &ranks);
            last_worker = ranks - 1;
            MPI_Win_allocate(rank ? 0 : (MPI_Aint)room * DEPTH, 1, MPI_INFO_NULL, comm, &backup, &win);
            MPI_Win_lock_all(0, win);
            double rtt = round_trip();
            if (rank == 0)
                printf("# round trip of %d ranks %.3f us\n# ranks repair error_rate size frames alone time "
                       "rate bandwidth latency dropped retrieved lost wrong verified\n",
                       ranks, rtt * 1e6);
            for (int e = 0; e < errors; e++)
                for (int s = 0; s < several; s++)
                    for (int rma = 0; rma < 2; rma++) {
                        long frames = (long)(most_bytes / sizes[s]);
                        if (frames > most_frames) frames = most_frames;
                        if (frames < 2 * window) frames = 2 * window;
                        measure((size_t)sizes[s], frames, rates[e], rma);
                        bad += rank == 0 && (lost || wrong);
                    }
            MPI_Win_unlock_all(win);
            MPI_Win_free(&win);
            MPI_Comm_free(&comm);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        rank = here;
    }
    uint64_t sum = 0; /* of what all workers computed */
    MPI_Reduce(&computed, &sum, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("# end, sum %016llx\n", (unsigned long long)sum);
    MPI_Finalize();
    return bad ? 1 : 0;
}
