/* A library that opens /dev/gdrdrv and maps it, as libgdrapi does: gdrdrv_client.py calls it.
 *
 * `overwrite` does what Open MPI and UCX do to see every mapping: it writes a jump over the code of
 * the functions that dlsym finds. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OPEN(name)                                                                                 \
    int its_##name(const char *path, int flags, int mode)                                          \
    {                                                                                              \
        return name(path, flags, mode);                                                            \
    }
#define OPEN_AT(name)                                                                              \
    int its_##name(int folder, const char *path, int flags, int mode)                              \
    {                                                                                              \
        return name(folder, path, flags, mode);                                                    \
    }
OPEN(open)
OPEN(open64)
OPEN_AT(openat)
OPEN_AT(openat64)

void *its_mmap(void *at, size_t length, int access, int flags, int file, off_t offset)
{
    return mmap(at, length, access, flags, file, offset);
}

int its_munmap(void *at, size_t length)
{
    return munmap(at, length);
}

static void *raw_mmap(void *at, size_t length, int access, int flags, int file, off_t offset)
{
    return (void *)syscall(SYS_mmap, at, length, access, flags, file, offset);
}

static int raw_munmap(void *at, size_t length)
{
    return (int)syscall(SYS_munmap, at, length);
}

static int jump(const char *name, void *to)
{
    unsigned char code[] = {0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xe3}; /* by %r11 */
    const uintptr_t page = (uintptr_t)getpagesize();
    unsigned char *over = dlsym(RTLD_DEFAULT, name);
    memcpy(code + 2, &to, sizeof(to));
    void *begin = (void *)((uintptr_t)over / page * page);
    if (mprotect(begin, 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC))
        return -1;
    memcpy(over, code, sizeof(code));
    return 0;
}

int overwrite(void)
{
    return jump("mmap", (void *)raw_mmap) || jump("munmap", (void *)raw_munmap) ? -1 : 0;
}
