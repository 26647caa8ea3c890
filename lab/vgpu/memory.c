/* Device memory and pinned host memory: see memory.h. */
#include "memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define GIB ((uint64_t)1 << 30)
static const address FIRST = 0x200000000000;    /* addresses begin here, as with CUDA */
static const uint64_t OF_A_DEVICE = 64 * GIB;
static const address IMPORTED = 0x240000000000; /* memory that other processes share */
static const uint64_t OF_IMPORTED = 512 * GIB;
static const uint64_t DISTANCE = 0x100000000000; /* from a mapping to the second one */
static const uint64_t BLOCK = 2 << 20;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range *ranges; /* by address */
static int number, room;
enum { PINS = 4096 };
static struct pinned pins[PINS];
static int pinned;

static bool reserve(address at, uint64_t length)
{
    return mmap((void *)at, length, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
                0) != MAP_FAILED;
}

bool memory_reserve(void)
{
    return reserve(FIRST, OF_A_DEVICE * MAX_DEVICES) &&
           reserve(FIRST + DISTANCE, OF_A_DEVICE * MAX_DEVICES) && reserve(IMPORTED, OF_IMPORTED) &&
           reserve(IMPORTED + DISTANCE, OF_IMPORTED);
}

bool memory_is_device(address at)
{
    return at >= FIRST && at < FIRST + DISTANCE;
}

/* The index of the range that holds an address, or -1. The caller holds the lock. */
static int index_of(address at)
{
    for (int i = 0; i < number; ++i)
        if (ranges[i].base <= at && at < ranges[i].base + ranges[i].size)
            return i;
    return -1;
}

bool memory_find(address at, struct range *found)
{
    pthread_mutex_lock(&lock);
    int i = index_of(at);
    if (i >= 0)
        *found = ranges[i];
    pthread_mutex_unlock(&lock);
    return i >= 0;
}

void *memory_bytes(address at, uint64_t length)
{
    struct range range;
    bool inside = memory_find(at, &range) && at + length <= range.base + range.span;
    return inside ? (void *)(at + DISTANCE) : NULL;
}

/* A free address for `span` bytes, 0 if there is none. */
static address gap(address from, uint64_t space, uint64_t span)
{
    address at = from;
    for (int i = 0; i < number; ++i) {
        if (ranges[i].base < from || ranges[i].base >= from + space)
            continue;
        if (at + span <= ranges[i].base)
            break;
        at = ranges[i].base + ranges[i].span;
    }
    return at + span <= from + space ? at : 0;
}

static bool map(const struct range *range, address at, int access)
{
    return mmap((void *)at, range->span, access, MAP_SHARED | MAP_FIXED, range->fd, 0) !=
           MAP_FAILED;
}

static void unmap(const struct range *range, address at)
{
    mmap((void *)at, range->span, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* Maps a range twice and keeps it. The caller holds the lock. */
static result keep(struct range *range, address from, uint64_t space)
{
    const int all = PROT_READ | PROT_WRITE;
    if (number == room) {
        struct range *larger = realloc(ranges, sizeof(*ranges) * (size_t)(room + 64));
        if (!larger)
            return OUT_OF_MEMORY;
        ranges = larger;
        room += 64;
    }
    range->base = gap(from, space, range->span);
    if (!range->base)
        return OUT_OF_MEMORY;
    int access = range->managed || node_fault("host-access") ? all : PROT_NONE;
    if (!map(range, range->base, access) || !map(range, range->base + DISTANCE, all))
        return OUT_OF_MEMORY;
    range->uses = 1;
    range->id = next_id();
    int i = number++;
    for (; i > 0 && ranges[i - 1].base > range->base; --i)
        ranges[i] = ranges[i - 1];
    ranges[i] = *range;
    return SUCCESS;
}

static result allocate(address *at, size_t bytes, bool managed)
{
    NEED_CONTEXT();
    if (!bytes)
        return INVALID_VALUE;
    struct context *context = current_context();
    struct range range = {.size = bytes,
                          .span = (bytes + BLOCK - 1) / BLOCK * BLOCK,
                          .device = context->device,
                          .owner = node_device(context->device),
                          .managed = managed,
                          .context = context,
                          .fd = memfd_create("emulated-gpu", MFD_CLOEXEC)};
    struct stat status;
    if (range.fd < 0)
        return OUT_OF_MEMORY;
    result problem = OUT_OF_MEMORY;
    if (ftruncate(range.fd, (off_t)range.span) == 0 && fstat(range.fd, &status) == 0) {
        range.inode = status.st_ino;
        pthread_mutex_lock(&lock);
        problem = keep(&range, FIRST + (uint64_t)range.device * OF_A_DEVICE, OF_A_DEVICE);
        pthread_mutex_unlock(&lock);
    }
    if (problem)
        close(range.fd);
    else
        *at = range.base;
    return problem;
}

/* Ends every mapping of the file: who touches one gets SIGBUS. */
static void take_back(int file)
{
    if (ftruncate(file, 0) != 0)
        perror("emulated GPU: ftruncate");
}

/* For gdrdrv.c, as a kernel module asks NVIDIA's driver (nvidia_p2p_get_pages): the file behind
 * pages of device memory, and where they begin in it; -1 if they are none. */
__attribute__((visibility("default"))) int vgpu_pages(address at, uint64_t bytes, uint64_t *offset)
{
    int file = -1;
    pthread_mutex_lock(&lock);
    int i = index_of(at);
    if (i >= 0 && !ranges[i].managed && bytes <= ranges[i].base + ranges[i].span - at) {
        *offset = at - ranges[i].base;
        file = ranges[i].fd;
        ranges[i].lent = true;
    }
    pthread_mutex_unlock(&lock);
    return file;
}

/* Unmaps a range and forgets it. The caller holds the lock. */
static void drop(int i)
{
    unmap(&ranges[i], ranges[i].base);
    unmap(&ranges[i], ranges[i].base + DISTANCE);
    if (ranges[i].lent && !ranges[i].imported)
        take_back(ranges[i].fd);
    close(ranges[i].fd);
    --number;
    for (; i < number; ++i)
        ranges[i] = ranges[i + 1];
}

result memory_release(address base, bool imported)
{
    NEED_DRIVER();
    pthread_mutex_lock(&lock);
    int i = index_of(base);
    bool held = i >= 0 && ranges[i].base == base && ranges[i].imported == imported;
    if (held && --ranges[i].uses == 0)
        drop(i);
    pthread_mutex_unlock(&lock);
    return held ? SUCCESS : INVALID_VALUE;
}

void memory_end(const struct context *context)
{
    pthread_mutex_lock(&lock);
    for (int i = number - 1; i >= 0; --i)
        if (ranges[i].context == context)
            drop(i);
    pthread_mutex_unlock(&lock);
}

result memory_share(address at, struct range *range)
{
    return memory_find(at, range) && !range->imported && !range->managed ? SUCCESS : INVALID_VALUE;
}

result memory_import(struct range *range, const char *path)
{
    struct stat status;
    result problem = MAP_FAILED_;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < number; ++i)
        if (ranges[i].imported && ranges[i].inode == range->inode &&
            ranges[i].exporter == range->exporter) {
            ++ranges[i].uses;
            *range = ranges[i];
            pthread_mutex_unlock(&lock);
            return SUCCESS;
        }
    range->fd = open(path, O_RDWR | O_CLOEXEC);
    if (range->fd >= 0) {
        if (fstat(range->fd, &status) == 0 && status.st_ino == range->inode)
            problem = keep(range, IMPORTED, OF_IMPORTED) ? MAP_FAILED_ : SUCCESS;
        if (problem)
            close(range->fd);
    }
    pthread_mutex_unlock(&lock);
    return problem;
}

ENTRY(cuMemAlloc_v2)(address *at, size_t bytes)
{
    return allocate(at, bytes, false);
}
ENTRY_OF(cuMemAlloc, body_of_cuMemAlloc_v2);

ENTRY(cuMemAllocManaged)(address *at, size_t bytes, unsigned flags)
{
    (void)flags;
    return allocate(at, bytes, true);
}

ENTRY(cuMemAllocPitch_v2)(address *at, size_t *pitch, size_t width, size_t height, unsigned element)
{
    (void)element;
    *pitch = (width + 511) / 512 * 512;
    return allocate(at, *pitch * height, false);
}
ENTRY_OF(cuMemAllocPitch, body_of_cuMemAllocPitch_v2);

ENTRY(cuMemFree_v2)(address at)
{
    return at ? memory_release(at, false) : SUCCESS;
}
ENTRY_OF(cuMemFree, body_of_cuMemFree_v2);

ENTRY(cuMemGetInfo_v2)(size_t *unused, size_t *total)
{
    NEED_CONTEXT();
    uint64_t used = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < number; ++i)
        if (!ranges[i].imported && ranges[i].device == current_context()->device)
            used += ranges[i].span;
    pthread_mutex_unlock(&lock);
    *total = node_memory();
    *unused = *total > used ? *total - used : 0;
    return SUCCESS;
}

ENTRY(cuMemGetAddressRange_v2)(address *base, size_t *size, address at)
{
    NEED_CONTEXT();
    struct range range;
    if (!memory_find(at, &range))
        return NOT_FOUND;
    if (base)
        *base = range.base;
    if (size)
        *size = range.size;
    return SUCCESS;
}
ENTRY_OF(cuMemGetAddressRange, body_of_cuMemGetAddressRange_v2);

bool memory_pinned(address at, struct pinned *found)
{
    bool held = false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < pinned && !held; ++i)
        if (pins[i].base <= at && at < pins[i].base + pins[i].size) {
            *found = pins[i];
            held = true;
        }
    pthread_mutex_unlock(&lock);
    return held;
}

static result pin(void *start, size_t bytes, bool allocated)
{
    NEED_CONTEXT();
    struct pinned other, it = {(address)start, bytes, allocated};
    if (memory_pinned(it.base, &other))
        return ALREADY_REGISTERED;
    pthread_mutex_lock(&lock);
    bool kept = pinned < PINS;
    if (kept)
        pins[pinned++] = it;
    pthread_mutex_unlock(&lock);
    return kept ? SUCCESS : OUT_OF_MEMORY;
}

static result unpin(void *start, bool allocated)
{
    NEED_DRIVER();
    result problem = NOT_REGISTERED;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < pinned; ++i)
        if (pins[i].base == (address)start && pins[i].allocated == allocated) {
            if (allocated)
                munmap(start, pins[i].size);
            pins[i] = pins[--pinned];
            problem = SUCCESS;
            break;
        }
    pthread_mutex_unlock(&lock);
    return problem;
}

ENTRY(cuMemHostRegister_v2)(void *start, size_t bytes, unsigned flags)
{
    (void)flags;
    return pin(start, bytes, false);
}

ENTRY(cuMemHostUnregister)(void *start)
{
    return unpin(start, false);
}

static result allocate_host(void **start, size_t bytes)
{
    NEED_CONTEXT();
    *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return *start == MAP_FAILED ? OUT_OF_MEMORY : pin(*start, bytes, true);
}

ENTRY(cuMemHostAlloc)(void **start, size_t bytes, unsigned flags)
{
    (void)flags;
    return allocate_host(start, bytes);
}

ENTRY(cuMemAllocHost_v2)(void **start, size_t bytes)
{
    return allocate_host(start, bytes);
}

ENTRY(cuMemFreeHost)(void *start)
{
    return start ? unpin(start, true) : SUCCESS;
}
