/* The part of CUDA's runtime (libcudart) that the programs of UCX and OSU call, over the emulated
 * driver. Kernels are not emulated: each launch fails and names the kernel. */
#include "driver.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

struct stream;
struct event;
/* Of the emulated libcuda. */
result cuInit(unsigned flags);
result cuDeviceGetCount(int *count);
result cuDriverGetVersion(int *version);
result cuDeviceGetAttribute(int *value, int attribute, device it);
result cuDeviceGetName(char *name, int length, device it);
result cuDeviceGetUuid(unsigned char *uuid, device it);
result cuDeviceTotalMem_v2(size_t *bytes, device it);
result cuDeviceCanAccessPeer(int *can, device a, device b);
result cuDevicePrimaryCtxRetain(struct context **context, device it);
result cuDevicePrimaryCtxReset_v2(device it);
result cuCtxGetCurrent(struct context **context);
result cuCtxSetCurrent(struct context *context);
result cuCtxSynchronize(void);
result cuMemAlloc_v2(address *at, size_t bytes);
result cuMemAllocManaged(address *at, size_t bytes, unsigned flags);
result cuMemFree_v2(address at);
result cuMemGetInfo_v2(size_t *unused, size_t *total);
result cuMemHostAlloc(void **start, size_t bytes, unsigned flags);
result cuMemFreeHost(void *start);
result cuMemHostRegister_v2(void *start, size_t bytes, unsigned flags);
result cuMemHostUnregister(void *start);
result cuMemcpy(address to, address from, size_t bytes);
result cuMemcpyAsync(address to, address from, size_t bytes, struct stream *stream);
result cuMemsetD8_v2(address at, unsigned char value, size_t bytes);
result cuMemsetD8Async(address at, unsigned char value, size_t bytes, struct stream *stream);
result cuMemPrefetchAsync(address at, size_t bytes, device to, struct stream *stream);
result cuStreamCreate(struct stream **stream, unsigned flags);
result cuStreamDestroy_v2(struct stream *stream);
result cuStreamSynchronize(struct stream *stream);
result cuStreamQuery(struct stream *stream);
result cuStreamWaitEvent(struct stream *stream, struct event *event, unsigned flags);
result cuEventCreate(struct event **event, unsigned flags);
result cuEventDestroy_v2(struct event *event);
result cuEventRecord(struct event *event, struct stream *stream);
result cuEventQuery(struct event *event);
result cuEventSynchronize(struct event *event);
result cuEventElapsedTime(float *passed, struct event *from, struct event *to);
result cuGetErrorString(result code, const char **text);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static result started;
static _Thread_local device chosen;
static _Thread_local struct context *contexts[MAX_DEVICES];
static _Thread_local result last;

static void start(void)
{
    started = cuInit(0);
}

/* The codes of both interfaces agree as far as they are used here. "Not ready" is no error. */
static result said(result code)
{
    last = code && code != NOT_READY ? code : last;
    return code;
}

/* Makes the context of the chosen device current, as the runtime does at its first call. */
static result prepare(void)
{
    struct context *context;
    pthread_once(&once, start);
    result problem = started ? started : cuCtxGetCurrent(&context);
    if (problem || context)
        return problem;
    if (!contexts[chosen])
        problem = cuDevicePrimaryCtxRetain(&contexts[chosen], chosen);
    return problem ? problem : cuCtxSetCurrent(contexts[chosen]);
}

#define CALL(call)                                                                                 \
    do {                                                                                           \
        result problem_ = prepare();                                                               \
        return said(problem_ ? problem_ : (call));                                                 \
    } while (0)

EXPORT result cudaGetDeviceCount(int *count)
{
    *count = 0;
    pthread_once(&once, start);
    return said(started ? started : cuDeviceGetCount(count));
}

EXPORT result cudaSetDevice(int number)
{
    int count;
    result problem = cudaGetDeviceCount(&count);
    if (problem)
        return problem;
    if (number < 0 || number >= count)
        return said(INVALID_DEVICE);
    chosen = number;
    if (!contexts[chosen])
        problem = cuDevicePrimaryCtxRetain(&contexts[chosen], chosen);
    return said(problem ? problem : cuCtxSetCurrent(contexts[chosen]));
}

/* Begins the runtime without a context. */
#define ASK(call)                                                                                  \
    do {                                                                                           \
        pthread_once(&once, start);                                                                \
        return said(started ? started : (call));                                                   \
    } while (0)

EXPORT result cudaDriverGetVersion(int *version)
{
    return said(cuDriverGetVersion(version));
}

EXPORT result cudaRuntimeGetVersion(int *version)
{
    return said(cuDriverGetVersion(version));
}

EXPORT result cudaDeviceGetAttribute(int *value, int attribute, int number)
{
    ASK(cuDeviceGetAttribute(value, attribute, number));
}

EXPORT result cudaDeviceCanAccessPeer(int *can, int number, int peer)
{
    ASK(cuDeviceCanAccessPeer(can, number, peer));
}

/* cudaDeviceProp of CUDA 12, of 1032 B. What is not listed is 0. */
static result describe(unsigned char *properties, int number)
{
    static const struct {
        short at, attribute; /* offset [B]; as cuDeviceGetAttribute numbers it */
    } known[] = {{308, 10}, {320, 1},  {360, 75}, {364, 76}, {388, 16}, {400, 19},
                 {584, 33}, {600, 40}, {604, 41}, {652, 83}};
    enum { NAME = 0, NAME_BYTES = 256, UUID = 256, MEMORY = 288, BYTES = 1032 };
    size_t memory;
    memset(properties, 0, BYTES);
    result problem = cuDeviceTotalMem_v2(&memory, number);
    if (problem)
        return problem;
    memcpy(properties + MEMORY, &memory, sizeof(memory));
    cuDeviceGetName((char *)properties + NAME, NAME_BYTES, number);
    cuDeviceGetUuid(properties + UUID, number);
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); ++i) {
        int value;
        cuDeviceGetAttribute(&value, known[i].attribute, number);
        memcpy(properties + known[i].at, &value, sizeof(value));
    }
    return SUCCESS;
}

EXPORT result cudaGetDeviceProperties_v2(void *properties, int number)
{
    ASK(describe(properties, number));
}

EXPORT result cudaGetDevice(int *number)
{
    *number = chosen;
    return SUCCESS;
}

/* Frees the memory of the device; then no context is current, until the next call makes it so.
 * Streams and events stay, which CUDA would destroy. */
EXPORT result cudaDeviceReset(void)
{
    result problem = prepare();
    problem = problem ? problem : cuDevicePrimaryCtxReset_v2(chosen);
    return said(problem ? problem : cuCtxSetCurrent(NULL));
}

EXPORT result cudaDeviceSynchronize(void)
{
    CALL(cuCtxSynchronize());
}

EXPORT result cudaMalloc(void **at, size_t bytes)
{
    CALL(cuMemAlloc_v2((address *)at, bytes));
}

EXPORT result cudaMallocManaged(void **at, size_t bytes, unsigned flags)
{
    CALL(cuMemAllocManaged((address *)at, bytes, flags));
}

EXPORT result cudaFree(void *at)
{
    CALL(cuMemFree_v2((address)at));
}

EXPORT result cudaMemGetInfo(size_t *unused, size_t *total)
{
    CALL(cuMemGetInfo_v2(unused, total));
}

EXPORT result cudaMallocHost(void **start_, size_t bytes)
{
    CALL(cuMemHostAlloc(start_, bytes, 0));
}

EXPORT result cudaHostAlloc(void **start_, size_t bytes, unsigned flags)
{
    CALL(cuMemHostAlloc(start_, bytes, flags));
}

EXPORT result cudaFreeHost(void *start_)
{
    CALL(cuMemFreeHost(start_));
}

EXPORT result cudaHostRegister(void *start_, size_t bytes, unsigned flags)
{
    CALL(cuMemHostRegister_v2(start_, bytes, flags));
}

EXPORT result cudaHostUnregister(void *start_)
{
    CALL(cuMemHostUnregister(start_));
}

EXPORT result cudaHostGetDevicePointer(void **at, void *start_, unsigned flags)
{
    (void)flags;
    *at = start_;
    return SUCCESS;
}

EXPORT result cudaMemcpy(void *to, const void *from, size_t bytes, int kind)
{
    (void)kind;
    CALL(cuMemcpy((address)to, (address)from, bytes));
}

EXPORT result cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind,
                              struct stream *stream)
{
    (void)kind;
    CALL(cuMemcpyAsync((address)to, (address)from, bytes, stream));
}

EXPORT result cudaMemset(void *at, int value, size_t bytes)
{
    CALL(cuMemsetD8_v2((address)at, (unsigned char)value, bytes));
}

EXPORT result cudaMemsetAsync(void *at, int value, size_t bytes, struct stream *stream)
{
    CALL(cuMemsetD8Async((address)at, (unsigned char)value, bytes, stream));
}

EXPORT result cudaMemPrefetchAsync(const void *at, size_t bytes, int to, struct stream *stream)
{
    CALL(cuMemPrefetchAsync((address)at, bytes, to, stream));
}

EXPORT result cudaStreamCreate(struct stream **stream)
{
    CALL(cuStreamCreate(stream, 0));
}

EXPORT result cudaStreamCreateWithFlags(struct stream **stream, unsigned flags)
{
    CALL(cuStreamCreate(stream, flags));
}

EXPORT result cudaStreamDestroy(struct stream *stream)
{
    CALL(cuStreamDestroy_v2(stream));
}

EXPORT result cudaStreamSynchronize(struct stream *stream)
{
    CALL(cuStreamSynchronize(stream));
}

EXPORT result cudaStreamQuery(struct stream *stream)
{
    CALL(cuStreamQuery(stream));
}

EXPORT result cudaStreamWaitEvent(struct stream *stream, struct event *event, unsigned flags)
{
    CALL(cuStreamWaitEvent(stream, event, flags));
}

EXPORT result cudaEventCreate(struct event **event)
{
    CALL(cuEventCreate(event, 0));
}

EXPORT result cudaEventCreateWithFlags(struct event **event, unsigned flags)
{
    CALL(cuEventCreate(event, flags));
}

EXPORT result cudaEventDestroy(struct event *event)
{
    CALL(cuEventDestroy_v2(event));
}

EXPORT result cudaEventRecord(struct event *event, struct stream *stream)
{
    CALL(cuEventRecord(event, stream));
}

EXPORT result cudaEventQuery(struct event *event)
{
    CALL(cuEventQuery(event));
}

EXPORT result cudaEventSynchronize(struct event *event)
{
    CALL(cuEventSynchronize(event));
}

EXPORT result cudaEventElapsedTime(float *passed, struct event *from, struct event *to)
{
    CALL(cuEventElapsedTime(passed, from, to));
}

EXPORT const char *cudaGetErrorString(result code)
{
    const char *text;
    return cuGetErrorString(code, &text) ? "unrecognized error code" : text;
}

/* The runtime has names of its own for the codes of the driver. */
EXPORT const char *cudaGetErrorName(result code)
{
    switch (code) {
    case SUCCESS: return "cudaSuccess";
    case INVALID_VALUE: return "cudaErrorInvalidValue";
    case OUT_OF_MEMORY: return "cudaErrorMemoryAllocation";
    case NOT_INITIALIZED: return "cudaErrorInitializationError";
    case NO_DEVICE: return "cudaErrorNoDevice";
    case INVALID_DEVICE: return "cudaErrorInvalidDevice";
    case INVALID_CONTEXT: return "cudaErrorDeviceUninitialized";
    case MAP_FAILED_: return "cudaErrorMapBufferObjectFailed";
    case PEER_ACCESS_UNSUPPORTED: return "cudaErrorPeerAccessUnsupported";
    case INVALID_HANDLE: return "cudaErrorInvalidResourceHandle";
    case NOT_FOUND: return "cudaErrorSymbolNotFound";
    case NOT_READY: return "cudaErrorNotReady";
    case CONTEXT_IS_DESTROYED: return "cudaErrorContextIsDestroyed";
    case ALREADY_REGISTERED: return "cudaErrorHostMemoryAlreadyRegistered";
    case NOT_REGISTERED: return "cudaErrorHostMemoryNotRegistered";
    case NOT_SUPPORTED: return "cudaErrorNotSupported";
    case DRIVER_MISMATCH: return "cudaErrorSystemDriverMismatch";
    default: return "unrecognized error code";
    }
}

EXPORT result cudaPeekAtLastError(void)
{
    return last;
}

EXPORT result cudaGetLastError(void)
{
    result code = last;
    last = SUCCESS;
    return code;
}

EXPORT result cudaGetSymbolSize(size_t *bytes, const void *symbol)
{
    (void)bytes, (void)symbol;
    return said(NOT_SUPPORTED);
}

/* --- kernels ---
 * A program registers its kernels when it is loaded. `kernel<<<grid, block>>>()` pushes the shape of
 * the launch and calls a function of the program, which pops it and calls cudaLaunchKernel. */

struct shape {
    unsigned x, y, z;
};
static _Thread_local struct launch {
    struct shape grid, block;
    size_t shared;
    struct stream *stream;
} pushed;

enum { KERNELS = 4096 };
static struct kernel {
    const void *function;
    const char *name;
    bool named; /* in a message */
} kernels[KERNELS];
static int number;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

EXPORT void __cudaRegisterFunction(void **binary, const void *function, char *on_device,
                                   const char *name)
{
    (void)binary, (void)on_device;
    pthread_mutex_lock(&lock);
    if (number < KERNELS)
        kernels[number++] = (struct kernel){function, name, false};
    pthread_mutex_unlock(&lock);
}

EXPORT unsigned __cudaPushCallConfiguration(struct shape grid, struct shape block, size_t shared,
                                            struct stream *stream)
{
    pushed = (struct launch){grid, block, shared, stream};
    return 0;
}

EXPORT result __cudaPopCallConfiguration(struct shape *grid, struct shape *block, size_t *shared,
                                         struct stream **stream)
{
    *grid = pushed.grid;
    *block = pushed.block;
    *shared = pushed.shared;
    *stream = pushed.stream;
    return SUCCESS;
}

/* Many programs do not look at the result, so the first launch of each kernel is also said aloud. */
EXPORT result cudaLaunchKernel(const void *function)
{
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < number && kernels[i].function != function)
        ++i;
    if (i == number || !kernels[i].named)
        fprintf(stderr, "EMULATED GPU: cudaErrorNotSupported: kernels do not run here: %s\n",
                i < number ? kernels[i].name : "one that was not registered");
    if (i < number)
        kernels[i].named = true;
    pthread_mutex_unlock(&lock);
    trace("refused cudaLaunchKernel", 0);
    return said(NOT_SUPPORTED);
}

EXPORT void **__cudaRegisterFatBinary(void *binary)
{
    static void *none;
    (void)binary;
    return &none;
}

EXPORT void __cudaRegisterFatBinaryEnd(void **binary)
{
    (void)binary;
}

EXPORT void __cudaUnregisterFatBinary(void **binary)
{
    (void)binary;
}

EXPORT void __cudaRegisterVar(void)
{
}
