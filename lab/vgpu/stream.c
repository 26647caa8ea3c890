/* Copies, streams and events. A copy is done at once by the CPU; a model of the links says when it
 * counts as done.
 *
 *   GPUEMU_LINKS=h2d=8:12e9,d2h=8:12e9,d2d=6:700e9,nvlink=6:40e9,pcie=10:10e9
 *
 * Each way has a latency [us] and a rate [B/s]. `nvlink:0-1=6:20e9` is for one pair of devices
 * alone. Without this variable nothing is delayed. The model is a lower bound of the time: it knows nothing of the machine that copies.
 */
#include "memory.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct stream {
    atomic_ullong busy; /* until when [ns] */
};
struct event {
    atomic_ullong when; /* [ns]; 0: not recorded */
    bool timed;
};
static struct stream null_stream;
static atomic_ullong device_busy[MAX_DEVICES]; /* until when all streams of a device are [ns] */

enum way { H2H, H2D, D2H, D2D, NVLINK, PCIE, WAYS };
static const char *const NAMES[WAYS] = {"h2h", "h2d", "d2h", "d2d", "nvlink", "pcie"};
static const char *const BY_IPC[WAYS] = {"h2h",     "h2d ipc",    "d2h ipc",
                                         "d2d ipc", "nvlink ipc", "pcie ipc"};
static struct link {
    double latency, rate; /* [us], [B/s]; rate 0: no limit */
    bool said;
} links[WAYS], pairs[WAYS][MAX_DEVICES][MAX_DEVICES];
static atomic_ullong engine_busy[WAYS]; /* until when each copy engine is [ns] */

__attribute__((constructor)) static void read_model(void)
{
    const char *said = getenv("GPUEMU_LINKS");
    for (int way = 0; said && way < WAYS; ++way) {
        char form[32], of_pair[32];
        struct link link;
        unsigned a, b;
        snprintf(form, sizeof(form), "%s=%%lf:%%lf", NAMES[way]);
        snprintf(of_pair, sizeof(of_pair), "%s:%%1u-%%1u=%%lf:%%lf", NAMES[way]);
        for (const char *at = said; at; at = strchr(at, ',')) {
            at += *at == ',';
            if (sscanf(at, form, &link.latency, &link.rate) == 2)
                links[way] = link;
            else if (sscanf(at, of_pair, &a, &b, &link.latency, &link.rate) == 4 &&
                     a < MAX_DEVICES && b < MAX_DEVICES) {
                link.said = true;
                pairs[way][a][b] = pairs[way][b][a] = link;
            }
        }
    }
}

static unsigned long long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (unsigned long long)time.tv_sec * 1000000000u + (unsigned long long)time.tv_nsec;
}

static void wait_until(unsigned long long when)
{
    while (now() < when)
        sched_yield();
}

static struct stream *stream_of(struct stream *stream)
{
    /* 1 and 2 stand for the stream of a thread and the legacy stream. */
    return (uintptr_t)stream <= 2 ? &null_stream : stream;
}

/* When a copy that may begin at `start` is done. One engine serves each way. `slow`: at half the
 * rate. */
static unsigned long long done_at(enum way way, const struct link *link, unsigned long long start,
                                  size_t bytes, bool slow)
{
    double transfer = link->rate > 0 ? (double)bytes / link->rate * (slow ? 2e9 : 1e9) : 0;
    unsigned long long begin = engine_busy[way] > start ? engine_busy[way] : start;
    engine_busy[way] = begin + (unsigned long long)transfer;
    return engine_busy[way] + (unsigned long long)(link->latency * 1e3);
}

static enum way way_of(const struct range *to, const struct range *from)
{
    if (!to || !from)
        return to ? H2D : from ? D2H : H2H;
    if (to->owner == from->owner)
        return D2D;
    return node_nvlink(to->owner, from->owner) ? NVLINK : PCIE;
}

static unsigned long long later(unsigned long long a, unsigned long long b)
{
    return a > b ? a : b;
}

/* `staged`: between devices without peer access, through the memory of the host. */
static result copy(address to, address from, size_t bytes, struct stream *stream, bool wait,
                   bool staged)
{
    NEED_CONTEXT();
    struct range target, source;
    bool into = memory_find(to, &target), out_of = memory_find(from, &source);
    void *written = into ? memory_bytes(to, bytes) : (void *)to;
    void *read = out_of ? memory_bytes(from, bytes) : (void *)from;
    if (!written || !read || (!into && memory_is_device(to)) || (!out_of && memory_is_device(from)))
        return INVALID_VALUE;
    enum way way = way_of(into ? &target : NULL, out_of ? &source : NULL);
    int owner = out_of ? source.owner : -1, receiver = into ? target.owner : -1;
    bool ipc = (into && target.imported) || (out_of && source.imported);
    bool slow = node_fault_of_copy("slow", owner, receiver);
    stream = stream_of(stream);
    unsigned long long start = now();
    memmove(written, read, bytes);
    if (bytes && node_fault_of_copy("corrupt", owner, receiver))
        ++((unsigned char *)written)[bytes / 2];
    start = later(stream->busy, start);
    if (staged) {
        trace(NAMES[D2H], bytes);
        start = done_at(D2H, &links[D2H], start, bytes, slow);
        way = H2D;
    }
    trace(ipc ? BY_IPC[way] : NAMES[way], bytes);
    const struct link *link = &links[way];
    if (into && out_of && pairs[way][receiver][owner].said)
        link = &pairs[way][receiver][owner];
    stream->busy = done_at(way, link, start, bytes, slow);
    atomic_ullong *all = &device_busy[current_context()->device];
    *all = later(*all, stream->busy);
    if (wait)
        wait_until(stream->busy);
    return SUCCESS;
}

ENTRY(cuMemcpy)(address to, address from, size_t bytes)
{
    return copy(to, from, bytes, NULL, true, false);
}
ENTRY_OF(cuMemcpyHtoD_v2, body_of_cuMemcpy);
ENTRY_OF(cuMemcpyDtoH_v2, body_of_cuMemcpy);
ENTRY_OF(cuMemcpyDtoD_v2, body_of_cuMemcpy);

ENTRY(cuMemcpyAsync)(address to, address from, size_t bytes, struct stream *stream)
{
    return copy(to, from, bytes, stream, false, false);
}
ENTRY_OF(cuMemcpyHtoDAsync_v2, body_of_cuMemcpyAsync);
ENTRY_OF(cuMemcpyDtoHAsync_v2, body_of_cuMemcpyAsync);
ENTRY_OF(cuMemcpyDtoDAsync_v2, body_of_cuMemcpyAsync);

/* Each pointer must belong to its context. */
static result copy_peer(address to, const struct context *receiver, address from,
                        const struct context *owner, size_t bytes, struct stream *stream, bool wait)
{
    NEED_CONTEXT();
    struct range target, source;
    if (!receiver || !owner || !memory_find(to, &target) || !memory_find(from, &source) ||
        target.device != receiver->device || source.device != owner->device)
        return INVALID_VALUE;
    bool staged = owner->device != receiver->device && !peer_access(owner->device, receiver->device);
    return copy(to, from, bytes, stream, wait, staged);
}

ENTRY(cuMemcpyPeer)(address to, const struct context *receiver, address from,
                    const struct context *owner, size_t bytes)
{
    return copy_peer(to, receiver, from, owner, bytes, NULL, true);
}

ENTRY(cuMemcpyPeerAsync)(address to, const struct context *receiver, address from,
                         const struct context *owner, size_t bytes, struct stream *stream)
{
    return copy_peer(to, receiver, from, owner, bytes, stream, false);
}

static result set(address at, unsigned char value, size_t bytes)
{
    NEED_CONTEXT();
    void *there = memory_bytes(at, bytes);
    if (!there)
        return INVALID_VALUE;
    memset(there, value, bytes);
    return SUCCESS;
}

ENTRY(cuMemsetD8_v2)(address at, unsigned char value, size_t bytes)
{
    return set(at, value, bytes);
}

ENTRY(cuMemsetD8Async)(address at, unsigned char value, size_t bytes, struct stream *stream)
{
    (void)stream; /* the model has no time for it */
    return set(at, value, bytes);
}

/* Managed memory is one file, which host and devices see: nothing has to move. */
ENTRY(cuMemPrefetchAsync)(address at, size_t bytes, device to, struct stream *stream)
{
    enum { HOST = -1 };
    (void)stream;
    NEED_CONTEXT();
    struct range range;
    if (!memory_find(at, &range) || !range.managed || !memory_bytes(at, bytes))
        return INVALID_VALUE;
    return to == HOST || (to >= 0 && to < visible_devices()) ? SUCCESS : INVALID_DEVICE;
}

ENTRY(cuStreamCreate)(struct stream **stream, unsigned flags)
{
    (void)flags;
    NEED_CONTEXT();
    *stream = calloc(1, sizeof(**stream));
    return *stream ? SUCCESS : OUT_OF_MEMORY;
}

ENTRY(cuStreamDestroy_v2)(struct stream *stream)
{
    NEED_DRIVER();
    if (stream_of(stream) != &null_stream)
        free(stream);
    return SUCCESS;
}

ENTRY(cuStreamSynchronize)(struct stream *stream)
{
    NEED_CONTEXT();
    wait_until(stream_of(stream)->busy);
    return SUCCESS;
}

ENTRY(cuStreamQuery)(struct stream *stream)
{
    NEED_CONTEXT();
    return now() < stream_of(stream)->busy ? NOT_READY : SUCCESS;
}

ENTRY(cuStreamWaitEvent)(struct stream *stream, struct event *event, unsigned flags)
{
    (void)flags;
    NEED_CONTEXT();
    stream = stream_of(stream);
    stream->busy = later(stream->busy, event->when);
    return SUCCESS;
}

ENTRY(cuStreamAddCallback)(struct stream *stream, void (*call)(struct stream *, result, void *),
                           void *data, unsigned flags)
{
    (void)flags;
    NEED_CONTEXT();
    wait_until(stream_of(stream)->busy);
    call(stream, SUCCESS, data);
    return SUCCESS;
}

ENTRY(cuCtxSynchronize)(void)
{
    NEED_CONTEXT();
    wait_until(device_busy[current_context()->device]);
    return SUCCESS;
}

ENTRY(cuEventCreate)(struct event **event, unsigned flags)
{
    enum { WITHOUT_TIME = 2 };
    NEED_CONTEXT();
    *event = calloc(1, sizeof(**event));
    if (!*event)
        return OUT_OF_MEMORY;
    (*event)->timed = !(flags & WITHOUT_TIME);
    return SUCCESS;
}

ENTRY(cuEventDestroy_v2)(struct event *event)
{
    NEED_DRIVER();
    free(event);
    return SUCCESS;
}

ENTRY(cuEventRecord)(struct event *event, struct stream *stream)
{
    NEED_CONTEXT();
    event->when = later(stream_of(stream)->busy, now());
    return SUCCESS;
}

ENTRY(cuEventQuery)(struct event *event)
{
    NEED_DRIVER();
    return now() < event->when ? NOT_READY : SUCCESS;
}

ENTRY(cuEventSynchronize)(struct event *event)
{
    NEED_DRIVER();
    wait_until(event->when);
    return SUCCESS;
}

/* The time between two events [ms]. */
ENTRY(cuEventElapsedTime)(float *passed, struct event *from, struct event *to)
{
    NEED_DRIVER();
    if (!from || !to || !from->timed || !to->timed || !from->when || !to->when)
        return INVALID_HANDLE;
    if (now() < later(from->when, to->when))
        return NOT_READY;
    *passed = (float)(((double)to->when - (double)from->when) / 1e6);
    return SUCCESS;
}
