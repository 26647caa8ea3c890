/* Initialisation, devices and contexts of the emulated driver. */
#include "memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool ready;
static int visible, devices[MAX_DEVICES];
static struct context primary[MAX_DEVICES];
static atomic_int retained[MAX_DEVICES];
static atomic_ullong last_id;

enum { DEPTH = 32 };
static _Thread_local struct context *stack[DEPTH];
static _Thread_local int depth;

unsigned long long next_id(void)
{
    return ++last_id;
}

struct context *current_context(void)
{
    return depth ? stack[depth - 1] : NULL;
}

result driver_problem(void)
{
    return ready ? SUCCESS : NOT_INITIALIZED;
}

result context_problem(void)
{
    struct context *it = current_context();
    NEED_DRIVER();
    if (!it)
        return INVALID_CONTEXT;
    return it->primary && !retained[it->device] ? CONTEXT_IS_DESTROYED : SUCCESS;
}

int visible_devices(void)
{
    return visible;
}

int node_device(device number)
{
    return devices[number];
}

int visible_device(int of_node)
{
    for (int i = 0; i < visible; ++i)
        if (devices[i] == of_node)
            return i;
    return -1;
}

ENTRY(cuInit)(unsigned flags)
{
    result problem = SUCCESS;
    if (flags)
        return INVALID_VALUE;
    if (node_fault("driver"))
        return DRIVER_MISMATCH;
    pthread_mutex_lock(&lock);
    if (!ready) {
        visible = node_visible(devices);
        for (int i = 0; i < visible; ++i)
            primary[i] = (struct context){.device = i, .primary = true, .id = next_id()};
        if (!visible)
            problem = NO_DEVICE;
        else if (!memory_reserve())
            problem = OUT_OF_MEMORY;
        ready = !problem;
    }
    pthread_mutex_unlock(&lock);
    return problem;
}

ENTRY(cuDriverGetVersion)(int *version)
{
    *version = 12090;
    return SUCCESS;
}

ENTRY(cuDeviceGetCount)(int *count)
{
    NEED_DRIVER();
    *count = visible;
    return SUCCESS;
}

ENTRY(cuDeviceGet)(device *it, int number)
{
    NEED_DEVICE(number);
    *it = number;
    return SUCCESS;
}

ENTRY(cuDeviceGetName)(char *name, int length, device it)
{
    NEED_DEVICE(it);
    snprintf(name, (size_t)length, "%s", DEVICE_NAME);
    return SUCCESS;
}

ENTRY(cuDeviceTotalMem_v2)(size_t *bytes, device it)
{
    NEED_DEVICE(it);
    *bytes = node_memory();
    return SUCCESS;
}

ENTRY(cuDeviceGetUuid)(unsigned char *uuid, device it)
{
    NEED_DEVICE(it);
    node_uuid(devices[it], uuid);
    return SUCCESS;
}
ENTRY_OF(cuDeviceGetUuid_v2, body_of_cuDeviceGetUuid);

ENTRY(cuDeviceGetAttribute)(int *value, int attribute, device it)
{
    NEED_DEVICE(it);
    switch (attribute) {
    case 1: *value = 1024; break;                   /* threads of a block */
    case 10: *value = 32; break;                    /* threads of a warp */
    case 16: *value = 80; break;                    /* multiprocessors */
    case 33: *value = node_bus(devices[it]); break; /* PCI bus; domain and device are 0 */
    case 40: *value = 2; break;                     /* copy engines */
    case 75: *value = 7; break;                     /* compute capability, first number */
    case 19:                                        /* host memory can be mapped */
    case 41:                                        /* unified addressing */
    case 83:                                        /* managed memory */
    case 99:                                        /* host memory can be registered */
    case 116: *value = 1; break;                    /* GPUDirect RDMA */
    default: *value = 0; /* no virtual memory management, pools, fabric or DMA-BUF */
    }
    return SUCCESS;
}

static bool peers(device a, device b)
{
    return a != b && !node_fault_between("p2p", devices[a], devices[b]);
}

ENTRY(cuDeviceCanAccessPeer)(int *can, device a, device b)
{
    NEED_DEVICE(a);
    NEED_DEVICE(b);
    *can = peers(a, b);
    return SUCCESS;
}

/* [a][b]: a context of `a` may access the memory of `b`. Each device has one context, its primary. */
static atomic_bool enabled[MAX_DEVICES][MAX_DEVICES];

ENTRY(cuCtxEnablePeerAccess)(struct context *other, unsigned flags)
{
    NEED_CONTEXT();
    if (!other || flags)
        return INVALID_VALUE;
    device here = current_context()->device;
    if (!peers(here, other->device))
        return PEER_ACCESS_UNSUPPORTED;
    return atomic_exchange(&enabled[here][other->device], true) ? PEER_ACCESS_ALREADY_ENABLED
                                                                : SUCCESS;
}

ENTRY(cuCtxDisablePeerAccess)(struct context *other)
{
    NEED_CONTEXT();
    if (!other)
        return INVALID_VALUE;
    return atomic_exchange(&enabled[current_context()->device][other->device], false)
               ? SUCCESS
               : PEER_ACCESS_NOT_ENABLED;
}

bool peer_access(device a, device b)
{
    return enabled[a][b] || enabled[b][a];
}

ENTRY(cuDevicePrimaryCtxRetain)(struct context **context, device it)
{
    NEED_DEVICE(it);
    if (node_fault("one-gpu"))
        it = 0; /* whatever device a process selects */
    ++retained[it];
    *context = &primary[it];
    return SUCCESS;
}

ENTRY(cuDevicePrimaryCtxRelease_v2)(device it)
{
    NEED_DEVICE(it);
    if (!retained[it])
        return INVALID_CONTEXT;
    --retained[it];
    return SUCCESS;
}

/* Frees the memory of the context. Who retained it keeps it, as with CUDA. */
ENTRY(cuDevicePrimaryCtxReset_v2)(device it)
{
    NEED_DEVICE(it);
    memory_end(&primary[it]);
    primary[it].flags = 0;
    primary[it].id = next_id();
    return SUCCESS;
}

ENTRY(cuDevicePrimaryCtxGetState)(device it, unsigned *flags, int *active)
{
    NEED_DEVICE(it);
    *flags = primary[it].flags;
    *active = retained[it] > 0;
    return SUCCESS;
}

ENTRY(cuCtxPushCurrent_v2)(struct context *context)
{
    NEED_DRIVER();
    if (depth == DEPTH || !context)
        return INVALID_CONTEXT;
    stack[depth++] = context;
    return SUCCESS;
}

ENTRY(cuCtxPopCurrent_v2)(struct context **context)
{
    NEED_DRIVER();
    if (!depth)
        return INVALID_CONTEXT;
    --depth;
    if (context)
        *context = stack[depth];
    return SUCCESS;
}

ENTRY(cuCtxSetCurrent)(struct context *context)
{
    NEED_DRIVER();
    depth -= depth > 0;
    if (context)
        stack[depth++] = context;
    return SUCCESS;
}

ENTRY(cuCtxGetCurrent)(struct context **context)
{
    NEED_DRIVER();
    *context = current_context();
    return SUCCESS;
}

ENTRY(cuCtxGetDevice)(device *it)
{
    NEED_CONTEXT();
    *it = current_context()->device;
    return SUCCESS;
}

ENTRY(cuCtxSetFlags)(unsigned flags)
{
    NEED_CONTEXT();
    current_context()->flags = flags;
    return SUCCESS;
}

ENTRY(cuCtxGetId)(struct context *context, unsigned long long *id)
{
    NEED_DRIVER();
    context = context ? context : current_context();
    if (!context)
        return INVALID_CONTEXT;
    *id = context->id;
    return SUCCESS;
}

/* UCX 1.18 asks whether a context is valid by this question. */
ENTRY(cuCtxGetApiVersion)(struct context *context, unsigned *version)
{
    NEED_DRIVER();
    context = context ? context : current_context();
    if (!context)
        return INVALID_CONTEXT;
    *version = 3020; /* what every driver since CUDA 3.2 answers */
    return SUCCESS;
}

static const struct {
    result code;
    const char *name, *text;
} errors[] = {
    {SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {MAP_FAILED_, "CUDA_ERROR_MAP_FAILED", "mapping of buffer object failed"},
    {PEER_ACCESS_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {PEER_ACCESS_ALREADY_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
     "peer access is already enabled"},
    {PEER_ACCESS_NOT_ENABLED, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED",
     "peer access has not been enabled"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
};

static result describe(result code, const char **name, const char **text)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); ++i)
        if (errors[i].code == code) {
            *name = errors[i].name;
            *text = errors[i].text;
            return SUCCESS;
        }
    *name = *text = NULL;
    return INVALID_VALUE;
}

ENTRY(cuGetErrorString)(result code, const char **text)
{
    const char *name;
    return describe(code, &name, text);
}

ENTRY(cuGetErrorName)(result code, const char **name)
{
    const char *text;
    return describe(code, name, &text);
}
