/* A program on the emulated CUDA runtime: test_vgpu_runtime.py compiles it and names a scene.
 *
 * The build must not need NVIDIA's headers, so the functions are declared here. The launch of a
 * kernel is written as nvcc writes it. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct { unsigned x, y, z; } dim3;
typedef void *stream, *event;

int cudaDriverGetVersion(int *), cudaRuntimeGetVersion(int *), cudaGetDeviceProperties_v2(void *, int);
int cudaDeviceGetAttribute(int *, int, int), cudaDeviceCanAccessPeer(int *, int, int);
int cudaSetDevice(int), cudaGetDevice(int *), cudaDeviceReset(void), cudaDeviceSynchronize(void);
int cudaMalloc(void **, size_t), cudaMallocManaged(void **, size_t, unsigned), cudaFree(void *);
int cudaMallocHost(void **, size_t), cudaFreeHost(void *), cudaMemGetInfo(size_t *, size_t *);
int cudaMemcpy(void *, const void *, size_t, int), cudaMemset(void *, int, size_t);
int cudaMemcpyAsync(void *, const void *, size_t, int, stream);
int cudaMemsetAsync(void *, int, size_t, stream);
int cudaMemPrefetchAsync(const void *, size_t, int, stream);
int cudaStreamCreate(stream *), cudaStreamDestroy(stream), cudaStreamSynchronize(stream);
int cudaStreamQuery(stream), cudaStreamWaitEvent(stream, event, unsigned);
int cudaEventCreate(event *), cudaEventCreateWithFlags(event *, unsigned), cudaEventDestroy(event);
int cudaEventRecord(event, stream), cudaEventQuery(event), cudaEventSynchronize(event);
int cudaEventElapsedTime(float *, event, event);
int cudaGetLastError(void), cudaPeekAtLastError(void);
int cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, stream);
const char *cudaGetErrorName(int), *cudaGetErrorString(int);
int cuCtxGetCurrent(void **);
void **__cudaRegisterFatBinary(void *);
void __cudaRegisterFatBinaryEnd(void **), __cudaUnregisterFatBinary(void **);
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *,
                            void *, int *);
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, stream);
int __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, void *);

enum { SIZE = 1 << 16, TO_DEVICE = 1, FROM_DEVICE = 2, WITHOUT_TIME = 2, CPU = -1,
       SUCCESS = 0, NOT_READY = 600 };
static char host[SIZE];

#define SAY(call) printf(#call ": %s\n", cudaGetErrorName(call))

/* A copy to the device takes this time by the model that the test sets [s]. */
static const double TAKES = 0.2;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* What a question says whose answer is "not ready" while a copy is under way that began at `since`
 * or later. On a busy machine the copy may be done when the question comes: then a success is as
 * right, and is not told apart. */
static const char *before_its_end(int code, double since)
{
    bool late = now() - since >= TAKES;
    return cudaGetErrorName(late && code == SUCCESS ? NOT_READY : code);
}
#define SAY_EARLY(call) printf(#call ": %s\n", before_its_end(call, since))

static void events(void)
{
    void *memory;
    stream one, other;
    event begin, end, untimed, unrecorded;
    float passed = -1, none = -1, early;
    cudaMalloc(&memory, SIZE);
    cudaStreamCreate(&one);
    cudaStreamCreate(&other);
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    cudaEventCreate(&unrecorded);
    cudaEventCreateWithFlags(&untimed, WITHOUT_TIME);
    SAY(cudaEventRecord(begin, one));
    const double since = now();
    SAY(cudaMemcpyAsync(memory, host, SIZE, TO_DEVICE, one));
    SAY(cudaEventRecord(end, one));
    SAY(cudaEventRecord(untimed, one));
    SAY_EARLY(cudaEventQuery(end));
    SAY_EARLY(cudaEventElapsedTime(&early, begin, end));
    SAY_EARLY(cudaStreamQuery(one));
    SAY(cudaStreamQuery(other));
    SAY(cudaStreamWaitEvent(other, end, 0));
    SAY_EARLY(cudaStreamQuery(other));
    SAY(cudaEventSynchronize(end));
    SAY(cudaEventElapsedTime(&passed, begin, end));
    SAY(cudaEventElapsedTime(&none, begin, untimed));
    SAY(cudaEventElapsedTime(&none, begin, unrecorded));
    SAY(cudaGetLastError());
    SAY(cudaMemcpyAsync(memory, host, SIZE, TO_DEVICE, other));
    SAY(cudaDeviceSynchronize());
    SAY(cudaStreamQuery(other));
    printf("%d %d\n", passed >= 199, none == -1);
    SAY(cudaEventDestroy(begin));
    SAY(cudaStreamDestroy(one));
}

static void memory(void)
{
    void *at, *managed, *pinned, *current;
    size_t unused, total, after;
    int number = -1;
    cudaSetDevice(1);
    cudaMalloc(&at, SIZE);
    cudaMallocManaged(&managed, SIZE, 1);
    SAY(cudaMallocHost(&pinned, SIZE));
    SAY(cudaMemsetAsync(at, 0x5a, SIZE, NULL));
    SAY(cudaMemcpy(pinned, at, SIZE, FROM_DEVICE));
    printf("%x\n", ((char *)pinned)[SIZE - 1]);
    SAY(cudaFreeHost(pinned));
    SAY(cudaMemPrefetchAsync(managed, SIZE, 0, NULL));
    SAY(cudaMemPrefetchAsync(managed, SIZE, CPU, NULL));
    SAY(cudaMemPrefetchAsync(managed, SIZE, 99, NULL));
    SAY(cudaMemPrefetchAsync(at, SIZE, 0, NULL));
    SAY(cudaMemPrefetchAsync(host, SIZE, 0, NULL));
    SAY(cudaPeekAtLastError());
    cudaMemGetInfo(&unused, &total);
    SAY(cudaDeviceReset());
    cuCtxGetCurrent(&current);
    cudaGetDevice(&number);
    printf("context %d, device %d\n", current != NULL, number);
    SAY(cudaMemcpy(at, host, SIZE, TO_DEVICE));
    cudaMemGetInfo(&after, &total);
    printf("%d %d\n", unused < total, after == total);
    SAY(cudaMalloc(&at, SIZE));
    SAY(cudaMemcpy(at, host, SIZE, TO_DEVICE));
}

/* The offsets are those of cudaDeviceProp in driver_types.h of CUDA 12.4. */
static void device(void)
{
    enum { MEMORY = 288, MAJOR = 360, BUS = 584, BYTES = 1032 };
    unsigned char properties[BYTES + 1], refused[BYTES];
    int driver, runtime, bus, major, here;
    size_t bytes;
    memset(properties, 0x77, sizeof(properties));
    SAY(cudaDriverGetVersion(&driver));
    SAY(cudaRuntimeGetVersion(&runtime));
    SAY(cudaGetDeviceProperties_v2(properties, 1));
    SAY(cudaDeviceGetAttribute(&bus, 33, 1));
    SAY(cudaDeviceCanAccessPeer(&here, 0, 1));
    SAY(cudaGetDeviceProperties_v2(refused, 99));
    memcpy(&bytes, properties + MEMORY, sizeof(bytes));
    memcpy(&major, properties + MAJOR, sizeof(major));
    printf("%s, %zu GiB, %d, bus %d, ends %x\n", (char *)properties, bytes >> 30, major,
           memcmp(&bus, properties + BUS, sizeof(bus)), properties[BYTES]);
    printf("%d %d\n", driver >= runtime && runtime >= 12000, here);
}

static void scale(char *bytes, size_t length)
{
    dim3 grid, block;
    size_t shared;
    stream queue;
    void *arguments[] = {&bytes, &length};
    if (__cudaPopCallConfiguration(&grid, &block, &shared, &queue))
        return;
    printf("%u %u %zu %d\n", grid.x, block.z, shared, queue == host);
    cudaLaunchKernel((const void *)scale, grid, block, arguments, shared, queue);
}

static void kernel(void)
{
    const dim3 grid = {7, 1, 1}, block = {32, 1, 3};
    void *at;
    void **binary = __cudaRegisterFatBinary(NULL);
    __cudaRegisterFunction(binary, (const char *)scale, NULL, "_Z5scalePcm", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFatBinaryEnd(binary);
    cudaMalloc(&at, SIZE);
    for (int i = 0; i < 2; ++i) /* scale<<<grid, block, 64, host>>>(at, SIZE) */
        if (!__cudaPushCallConfiguration(grid, block, 64, host))
            scale(at, SIZE);
    SAY(cudaPeekAtLastError());
    SAY(cudaGetLastError());
    SAY(cudaGetLastError());
    SAY(cudaLaunchKernel("not registered", grid, block, NULL, 0, NULL));
    puts(cudaGetErrorString(801));
    puts(cudaGetErrorString(12345));
    __cudaUnregisterFatBinary(binary);
}

int main(int count, char **arguments)
{
    const char *scene = count > 1 ? arguments[1] : "";
    if (strcmp(scene, "events") == 0)
        events();
    else if (strcmp(scene, "device") == 0)
        device();
    else if (strcmp(scene, "memory") == 0)
        memory();
    else if (strcmp(scene, "kernel") == 0)
        kernel();
    else
        return 2;
    return 0;
}
