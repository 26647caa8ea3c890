/* Device memory: one memfd for each allocation, mapped twice into a process. The address that the
 * program gets is mapped without access, so that the CPU cannot touch device memory, as with a GPU.
 * The emulation uses the second mapping, at a fixed distance. */
#ifndef VGPU_MEMORY_H
#define VGPU_MEMORY_H

#include "driver.h"

#include <sys/types.h>

struct range {
    address base;
    uint64_t size, span; /* as asked for, and as mapped [B] */
    device device;       /* visible number */
    int owner;           /* number on the node of the device that has the memory */
    int fd;
    uint64_t inode;
    bool imported, managed;
    bool lent; /* its pages, to gdrdrv */
    pid_t exporter; /* of an imported range */
    int uses;
    unsigned long long id;
    struct context *context;
};

/* Host memory that was pinned. */
struct pinned {
    address base;
    uint64_t size;
    bool allocated; /* by cuMemHostAlloc */
};

bool memory_reserve(void);                      /* address space; false if it is taken */
bool memory_find(address at, struct range *);   /* the allocation that holds an address */
bool memory_pinned(address at, struct pinned *);
/* Whether an address lies where only device memory can be, allocated or not. */
bool memory_is_device(address at);
/* Where the emulation may touch the bytes behind a device address; NULL if they are not mapped. */
void *memory_bytes(address at, uint64_t length);
result memory_share(address at, struct range *);                /* for a handle of IPC */
result memory_import(struct range *, const char *path);         /* maps it; counts repeated uses */
result memory_release(address base, bool imported);
void memory_end(const struct context *); /* frees all memory of a context, imported or not */

#endif
