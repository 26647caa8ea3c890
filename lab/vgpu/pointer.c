/* What the driver knows about an address. UCX decides by this whether a buffer is on a GPU. */
#include "memory.h"

#include <string.h>

enum { HOST = 1, DEVICE = 2 }; /* kinds of memory */

/* One attribute: its value, or that of memory which is unknown to CUDA. `strict`: the answer for a
 * single attribute is an error if the memory has none, in a list it is zero. */
static result attribute(void *out, int what, address at, bool strict)
{
    struct range range = {.device = -2};
    struct pinned pin = {0};
    bool on_device = memory_find(at, &range), on_host = !on_device && memory_pinned(at, &pin);
    if (strict && !on_device && !on_host)
        return INVALID_VALUE;
    switch (what) {
    case 1: *(struct context **)out = range.context; break;
    case 2: *(unsigned *)out = on_device ? DEVICE : on_host ? HOST : 0; break;
    case 3: *(address *)out = on_device || on_host ? at : 0; break; /* on the device */
    case 4:                                                         /* on the host */
        if (strict && on_device && !range.managed)
            return INVALID_VALUE;
        *(address *)out = on_host || range.managed ? at : 0;
        break;
    case 5: memset(out, 0, 12); break; /* tokens of GPUDirect RDMA, which no driver needs now */
    case 6: *(int *)out = 0; break; /* operations are synchronous */
    case 7: *(unsigned long long *)out = range.id; break;
    case 8: *(unsigned *)out = range.managed; break;
    case 9: *(int *)out = on_host ? 0 : range.device; break;
    case 10: *(int *)out = on_device && !range.managed && !range.imported; break; /* IPC */
    case 11: *(address *)out = on_device ? range.base : pin.base; break;
    case 12: *(size_t *)out = on_device ? range.size : pin.size; break;
    case 13: *(int *)out = on_device || on_host; break;    /* mapped */
    case 14: *(unsigned long long *)out = 0; break;        /* kinds of handles */
    case 15: *(int *)out = on_device; break;               /* GPUDirect RDMA */
    case 16: *(int *)out = on_device ? 3 : 0; break;       /* read and write */
    case 17: *(void **)out = NULL; break;                  /* pool */
    default: return strict ? INVALID_VALUE : SUCCESS;
    }
    return SUCCESS;
}

ENTRY(cuPointerGetAttribute)(void *out, int what, address at)
{
    NEED_DRIVER();
    return attribute(out, what, at, true);
}

ENTRY(cuPointerGetAttributes)(unsigned number, const int *what, void **out, address at)
{
    result problem = driver_problem();
    for (unsigned i = 0; i < number && !problem; ++i)
        problem = attribute(out[i], what[i], at, false);
    return problem;
}

ENTRY(cuPointerSetAttribute)(const void *value, int what, address at)
{
    (void)value;
    NEED_DRIVER();
    struct range range;
    return what == 6 && memory_find(at, &range) && !range.managed ? SUCCESS : INVALID_VALUE;
}

ENTRY(cuMemRangeGetAttribute)(void *out, size_t bytes, int what, address at, size_t length)
{
    (void)what, (void)at, (void)length;
    NEED_DRIVER();
    if (bytes == sizeof(int))
        *(int *)out = -2; /* no device was preferred */
    return SUCCESS;
}
