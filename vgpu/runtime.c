/* The part of CUDA's runtime (libcudart) that UCX's programs call, over the emulated driver. */
#include "driver.h"

#include <pthread.h>

#define EXPORT __attribute__((visibility("default")))

struct stream;
struct event;
/* Of the emulated libcuda. */
result cuInit(unsigned flags);
result cuDeviceGetCount(int *count);
result cuDevicePrimaryCtxRetain(struct context **context, device it);
result cuCtxGetCurrent(struct context **context);
result cuCtxSetCurrent(struct context *context);
result cuCtxSynchronize(void);
result cuMemAlloc_v2(address *at, size_t bytes);
result cuMemAllocManaged(address *at, size_t bytes, unsigned flags);
result cuMemFree_v2(address at);
result cuMemHostAlloc(void **start, size_t bytes, unsigned flags);
result cuMemFreeHost(void *start);
result cuMemHostRegister_v2(void *start, size_t bytes, unsigned flags);
result cuMemHostUnregister(void *start);
result cuMemcpy(address to, address from, size_t bytes);
result cuMemcpyAsync(address to, address from, size_t bytes, struct stream *stream);
result cuMemsetD8_v2(address at, unsigned char value, size_t bytes);
result cuStreamCreate(struct stream **stream, unsigned flags);
result cuStreamDestroy_v2(struct stream *stream);
result cuStreamSynchronize(struct stream *stream);
result cuEventCreate(struct event **event, unsigned flags);
result cuEventDestroy_v2(struct event *event);
result cuEventRecord(struct event *event, struct stream *stream);
result cuEventQuery(struct event *event);
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

/* The codes of both interfaces agree as far as they are used here. */
static result said(result code)
{
    last = code ? code : last;
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

EXPORT const char *cudaGetErrorString(result code)
{
    const char *text;
    cuGetErrorString(code, &text);
    return text;
}

EXPORT result cudaGetLastError(void)
{
    result code = last;
    last = SUCCESS;
    return code;
}

/* There are no kernels. A program that has some registers them when it is loaded. */
EXPORT result cudaLaunchKernel(void)
{
    return said(NOT_SUPPORTED);
}

EXPORT result cudaGetSymbolSize(size_t *bytes, const void *symbol)
{
    (void)bytes, (void)symbol;
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

EXPORT void __cudaRegisterFunction(void)
{
}

EXPORT void __cudaRegisterVar(void)
{
}

EXPORT unsigned __cudaPushCallConfiguration(void)
{
    return 1;
}

EXPORT result __cudaPopCallConfiguration(void)
{
    return NOT_SUPPORTED;
}
