/* The emulated /dev/gdrdrv: the kernel's side of gdrcopy, under NVIDIA's own libgdrapi 2.x.
 *
 * It is preloaded (LD_PRELOAD=build/vgpu/lib/libgdrdrv.so): a library that opens the device gets an
 * empty file in memory, and questions to that file are answered here. Device and inode tell it from
 * every other file, for which the functions of the C library are called unchanged. The library that
 * opens the device gets its `mmap` and `munmap` from here. For the rest of the program they stay
 * those of the C library: Open MPI and UCX overwrite the code of the `mmap` that they find, and a
 * preloaded one would no longer see its calls. The numbers are those of the public interface of
 * gdrcopy 2.5 (src/gdrdrv/gdrdrv.h), written down here because the build must not need its headers.
 *
 *   GPUEMU_FAULT=gdrdrv            there is no such device
 *   GPUEMU_FAULT=gdrdrv-version    the driver is too old for every libgdrapi 2.x
 *   GPUEMU_FAULT=gdrdrv-pin        it cannot pin: the window of the GPU on the bus (BAR1) is full
 */
#include "node.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static const uint64_t GPU_PAGE = 64 << 10;

struct to_pin {
    uint64_t address, size, token;
    uint32_t space;
    uint64_t handle; /* the answer */
};
struct to_pin_v2 {
    uint64_t address, size;
    uint32_t flags, unused;
    uint64_t handle; /* the answer */
};
struct about { /* a pinned buffer: its handle, then the answer */
    uint64_t handle, address, size;
    uint32_t page, clock;
    uint64_t cycles;
    uint32_t mapping;
};
struct number { /* a question about a handle, and a number */
    uint64_t handle;
    uint32_t number;
};

#define QUESTION(number, type) _IOWR(0xDA, number, type)
#define PIN QUESTION(1, struct to_pin)
#define UNPIN QUESTION(2, void *)
#define IS_FREED QUESTION(3, void *)
#define ABOUT QUESTION(5, void *)
#define ATTRIBUTE QUESTION(6, void *)
#define PIN_V2 QUESTION(7, struct to_pin_v2)
#define MAP_AS QUESTION(8, void *)
#define VERSION QUESTION(255, void *)

enum { ANY_MAPPING = 0, NO_MAPPING = 0, WRITE_COMBINING = 1 };
enum { DRIVER = 2 << 16 | 5, OLD_DRIVER = 1 << 16 | 3, OLDEST_LIBRARY = 2 << 16 };

/* A pinned buffer. Its file is that of the device memory, see memory.c. */
struct pin {
    uint64_t handle, address, size, offset;
    int file;
    bool aligned;
    void *mapped; /* where the program sees it, NULL if nowhere */
    size_t length;
    struct pin *next;
};

/* The device, opened once. It stays in the list when it is closed: gdr_close unpins before that. */
struct opened {
    dev_t device;
    ino_t inode;
    pid_t process;
    uint64_t next_handle;
    struct pin *pins;
    struct opened *next;
};

static struct opened *_Atomic all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The functions of the C library behind those that this file defines. They and the driver of the GPU
 * are looked up without the lock, because a thread may have that of the dynamic linker and want this
 * one. */
#define FUNCTIONS(_) _(open) _(open64) _(openat) _(openat64) _(ioctl)
#define POINTER(name) static __typeof__(&name) behind_##name;
FUNCTIONS(POINTER)
#define LOOK_UP(name) behind_##name = (__typeof__(&name))dlsym(RTLD_NEXT, #name);
#define BEHIND(name) (look_up(), behind_##name)

__attribute__((constructor)) static void look_up(void)
{
    if (!behind_ioctl) {
        FUNCTIONS(LOOK_UP)
    }
}

static int (*gpu_pages)(uint64_t address, uint64_t bytes, uint64_t *offset); /* memory.c */

static void look_up_gpu(void)
{
    void *cuda = gpu_pages ? NULL : dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (cuda)
        gpu_pages = (__typeof__(gpu_pages))dlsym(cuda, "vgpu_pages");
}

static int refused(int error)
{
    errno = error;
    return -1;
}

/* The opened device behind a file descriptor, or NULL. The caller holds the lock. */
static struct opened *device_of(int file)
{
    struct stat status;
    struct opened *it = all;
    int error = errno;
    if (it && fstat(file, &status) != 0)
        it = NULL;
    while (it && (it->device != status.st_dev || it->inode != status.st_ino))
        it = it->next;
    errno = error;
    return it;
}

static struct pin **pin_of(struct opened *device, uint64_t handle)
{
    struct pin **at = &device->pins;
    while (*at && (*at)->handle != handle)
        at = &(*at)->next;
    return at;
}

/* Whether the driver of the GPU took the pages back, because the program freed the memory. */
static bool taken_back(const struct pin *pin)
{
    struct stat status;
    return fstat(pin->file, &status) != 0 || status.st_size == 0;
}

static int pin(struct opened *device, uint64_t address, uint64_t size, uint64_t *handle)
{
    if (node_fault("gdrdrv-pin"))
        return refused(ENOMEM);
    struct pin *it = gpu_pages ? calloc(1, sizeof(*it)) : NULL;
    if (!it)
        return refused(EINVAL);
    it->address = address / GPU_PAGE * GPU_PAGE;
    it->size = (address + size + GPU_PAGE - 1) / GPU_PAGE * GPU_PAGE - it->address;
    it->aligned = it->address == address;
    int file = size ? gpu_pages(it->address, it->size, &it->offset) : -1;
    it->file = file < 0 ? -1 : fcntl(file, F_DUPFD_CLOEXEC, 0);
    if (it->file < 0) {
        free(it);
        return refused(EINVAL);
    }
    *handle = it->handle = device->next_handle;
    /* The handle is the page of the file at which the library maps, so it must be unique there. */
    device->next_handle += it->size / (uint64_t)getpagesize();
    it->next = device->pins;
    device->pins = it;
    return 0;
}

/* Takes the pages from a mapping: who touches it gets SIGBUS, as with the driver. */
static void withdraw(const struct pin *pin)
{
    int empty = memfd_create("emulated-gdrdrv-unpinned", MFD_CLOEXEC);
    mmap(pin->mapped, pin->length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, empty, 0);
    close(empty);
}

static int unpin(struct pin **at)
{
    struct pin *it = *at;
    if (it->mapped)
        withdraw(it);
    *at = it->next;
    close(it->file);
    free(it);
    return 0;
}

static int about(const struct pin *pin, struct about *answer)
{
    *answer = (struct about){.handle = pin->handle,
                             .address = pin->address,
                             .size = pin->size,
                             .page = (uint32_t)GPU_PAGE,
                             .clock = 1000000, /* [kHz] */
                             .mapping = pin->mapped ? WRITE_COMBINING : NO_MAPPING};
    return 0;
}

static int answer_about_pin(struct opened *device, unsigned long question, void *asked)
{
    struct number *words = asked; /* each of these questions begins with the handle */
    struct pin **at = pin_of(device, words->handle);
    if (!*at)
        return refused(EINVAL);
    switch (question) {
    case UNPIN: return unpin(at);
    case IS_FREED: words->number = taken_back(*at); return 0;
    case ABOUT: return about(*at, asked);
    case MAP_AS: /* what x86 with a GPU behind PCIe can do */
        return words->number == ANY_MAPPING || words->number == WRITE_COMBINING
                   ? 0
                   : refused(EOPNOTSUPP);
    default: return refused(ENOTTY);
    }
}

static int answer(struct opened *device, unsigned long question, void *asked)
{
    uint32_t *words = asked;
    struct to_pin *first = asked;
    struct to_pin_v2 *second = asked;
    if (device->process != getpid())
        return refused(EACCES); /* the driver serves only the process that opened it */
    switch (question) {
    case VERSION:
        words[0] = node_fault("gdrdrv-version") ? OLD_DRIVER : DRIVER;
        words[1] = OLDEST_LIBRARY;
        return 0;
    case ATTRIBUTE: words[1] = 0; return 0; /* neither lasting mappings nor a choice of the bus */
    case PIN: return pin(device, first->address, first->size, &first->handle);
    case PIN_V2:
        return second->flags ? refused(EINVAL)
                             : pin(device, second->address, second->size, &second->handle);
    default: return answer_about_pin(device, question, asked);
    }
}

static void *map(struct opened *device, void *at, size_t length, int access, int flags, off_t offset)
{
    struct pin *it = *pin_of(device, (uint64_t)offset / (uint64_t)getpagesize());
    if (device->process != getpid())
        return errno = EACCES, MAP_FAILED;
    if (!it || it->mapped || !it->aligned || length > it->size || taken_back(it))
        return errno = EINVAL, MAP_FAILED;
    void *mapped = mmap(at, length, access, flags, it->file, (off_t)it->offset);
    if (mapped != MAP_FAILED) {
        madvise(mapped, length, MADV_DONTFORK);
        it->mapped = mapped;
        it->length = length;
    }
    return mapped;
}

/* --- mmap and munmap of the library that opened the device --- */

static void *its_mmap(void *at, size_t length, int access, int flags, int file, off_t offset)
{
    pthread_mutex_lock(&lock);
    struct opened *device = flags & MAP_ANONYMOUS ? NULL : device_of(file);
    void *mapped = device ? map(device, at, length, access, flags, offset) : NULL;
    pthread_mutex_unlock(&lock);
    return device ? mapped : mmap(at, length, access, flags, file, offset);
}

static int its_munmap(void *at, size_t length)
{
    pthread_mutex_lock(&lock);
    for (struct opened *device = all; device; device = device->next)
        for (struct pin *pin = device->pins; pin; pin = pin->next)
            if (pin->mapped == at)
                pin->mapped = NULL;
    pthread_mutex_unlock(&lock);
    return munmap(at, length);
}

static void *replacement(const char *name)
{
    if (strcmp(name, "mmap") == 0 || strcmp(name, "mmap64") == 0)
        return (void *)its_mmap;
    return strcmp(name, "munmap") == 0 ? (void *)its_munmap : NULL;
}

/* Writes the replacements into a table of relocations: where a library keeps the addresses of the
 * functions of others that it calls. */
static void redirect_table(const struct link_map *library, const ElfW(Rela) *table, size_t bytes,
                           const ElfW(Sym) *symbols, const char *names)
{
    const uintptr_t page = (uintptr_t)getpagesize();
    for (size_t i = 0; i < bytes / sizeof(*table); ++i) {
        void *to = replacement(names + symbols[ELF64_R_SYM(table[i].r_info)].st_name);
        unsigned long type = ELF64_R_TYPE(table[i].r_info);
        if (!to || (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT))
            continue;
        void **slot = (void **)(library->l_addr + table[i].r_offset);
        if (mprotect((void *)((uintptr_t)slot / page * page), page, PROT_READ | PROT_WRITE) == 0)
            *slot = to;
    }
}

/* Redirects the calls of the library (or program) that has this address in its code. */
static void redirect(void *inside)
{
    Dl_info file;
    struct link_map *library;
    if (!dladdr1(inside, &file, (void **)&library, RTLD_DL_LINKMAP))
        return;
    uintptr_t found[DT_NUM] = {0};
    for (const ElfW(Dyn) *it = library->l_ld; it->d_tag != DT_NULL; ++it)
        if (it->d_tag >= 0 && it->d_tag < DT_NUM)
            found[it->d_tag] = it->d_un.d_ptr;
    if (!found[DT_SYMTAB] || !found[DT_STRTAB])
        return;
    const ElfW(Sym) *symbols = (const ElfW(Sym) *)found[DT_SYMTAB];
    const char *names = (const char *)found[DT_STRTAB];
    redirect_table(library, (ElfW(Rela) *)found[DT_JMPREL], found[DT_PLTRELSZ], symbols, names);
    redirect_table(library, (ElfW(Rela) *)found[DT_RELA], found[DT_RELASZ], symbols, names);
}

/* --- the functions of the C library that libgdrapi calls --- */

static int open_device(int flags, void *caller)
{
    struct stat status;
    if (node_fault("gdrdrv"))
        return refused(ENOENT);
    int file = memfd_create("emulated-gdrdrv", flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
    struct opened *it = calloc(1, sizeof(*it));
    if (file < 0 || !it || fstat(file, &status) != 0) {
        free(it);
        return refused(ENOMEM);
    }
    it->device = status.st_dev;
    it->inode = status.st_ino;
    it->process = getpid();
    it->next_handle = 1;
    pthread_mutex_lock(&lock);
    it->next = all;
    all = it;
    pthread_mutex_unlock(&lock);
    redirect(caller);
    return file;
}

/* The C library declares that a path is never NULL; the kernel has an answer to that too. */
__attribute__((noipa)) static bool is_device(const char *path)
{
    return path && strcmp(path, "/dev/gdrdrv") == 0;
}

#define MODE(flags, mode)                                                                          \
    mode_t mode = 0;                                                                               \
    if ((flags) & O_CREAT || ((flags) & O_TMPFILE) == O_TMPFILE) {                                 \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode = va_arg(more, mode_t);                                                               \
        va_end(more);                                                                              \
    }
#define OPEN(name)                                                                                 \
    EXPORTED int name(const char *path, int flags, ...)                                            \
    {                                                                                              \
        MODE(flags, mode)                                                                          \
        return is_device(path) ? open_device(flags, __builtin_return_address(0))                   \
                               : BEHIND(name)(path, flags, mode);                                  \
    }
#define OPEN_AT(name)                                                                              \
    EXPORTED int name(int folder, const char *path, int flags, ...)                                \
    {                                                                                              \
        MODE(flags, mode)                                                                          \
        return is_device(path) ? open_device(flags, __builtin_return_address(0))                   \
                               : BEHIND(name)(folder, path, flags, mode);                          \
    }
OPEN(open)
OPEN(open64)
OPEN_AT(openat)
OPEN_AT(openat64)

EXPORTED int ioctl(int file, unsigned long question, ...)
{
    va_list more;
    va_start(more, question);
    void *asked = va_arg(more, void *);
    va_end(more);
    if (!all)
        return BEHIND(ioctl)(file, question, asked);
    look_up_gpu();
    pthread_mutex_lock(&lock);
    struct opened *device = device_of(file);
    int result = device ? answer(device, question, asked) : 0;
    pthread_mutex_unlock(&lock);
    return device ? result : BEHIND(ioctl)(file, question, asked);
}

/* --- the functions of libgdrapi that copy: only the trace is added --- */

struct handle_of_library {
    unsigned long value;
};
#define COPY(name, what)                                                                           \
    EXPORTED int name(struct handle_of_library handle, void *to, const void *from, size_t bytes)   \
    {                                                                                              \
        static __typeof__(&name) behind;                                                           \
        if (!behind) { /* RTLD_NEXT does not see what a module of UCX has loaded */                \
            void *library = dlopen("libgdrapi.so.2", RTLD_LAZY | RTLD_NOLOAD);                     \
            behind = library ? (__typeof__(&name))dlsym(library, #name) : NULL;                    \
        }                                                                                          \
        if (!behind)                                                                               \
            return ENOSYS;                                                                         \
        trace(what, bytes);                                                                        \
        return behind(handle, to, from, bytes);                                                    \
    }
COPY(gdr_copy_to_mapping, "gdr to")
COPY(gdr_copy_from_mapping, "gdr from")
