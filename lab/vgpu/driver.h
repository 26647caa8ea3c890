/* The part of CUDA's driver interface that is emulated: types, numbers and the form of an entry.
 * The numbers are those of the public interface, written down here because the build must not need
 * NVIDIA's headers. */
#ifndef VGPU_DRIVER_H
#define VGPU_DRIVER_H

#include "node.h"

#ifndef __x86_64__
#error "the entries of libcuda are written for x86-64"
#endif

typedef int result;
typedef int device;
typedef uint64_t address;

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    MAP_FAILED_ = 205, /* sys/mman.h has MAP_FAILED */
    PEER_ACCESS_UNSUPPORTED = 217,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    PEER_ACCESS_ALREADY_ENABLED = 704,
    PEER_ACCESS_NOT_ENABLED = 705,
    CONTEXT_IS_DESTROYED = 709,
    ALREADY_REGISTERED = 712,
    NOT_REGISTERED = 713,
    NOT_SUPPORTED = 801,
    DRIVER_MISMATCH = 803,
};

/* Defines the exported function NAME; its body follows. UCX replaces the first instructions of
 * cuMemAlloc and others to see their calls, and cannot move most instructions. So each entry begins
 * with some that it can move, and jumps to the body. */
#define ENTRY_OF(name, body)                                                                       \
    __asm__(".pushsection .text\n.p2align 5\n.globl " #name "\n.type " #name ", @function\n" #name \
            ":\nmov $0, %eax\nmov $0, %eax\nmov $0, %eax\njmp " #body "\n.size " #name ", . - " #name \
            "\n.popsection")
#define ENTRY(name)                                                                                \
    ENTRY_OF(name, body_of_##name);                                                                \
    result body_of_##name

struct context {
    device device; /* its number among the visible ones */
    bool primary;
    unsigned flags;
    unsigned long long id;
};

/* context.c */
struct context *current_context(void);
result context_problem(void);    /* SUCCESS if there is a current context */
result driver_problem(void);     /* SUCCESS after cuInit */
int visible_devices(void);
int node_device(device visible); /* its number on the node */
int visible_device(int of_node); /* the reverse, -1 if it is not visible */
unsigned long long next_id(void);
bool peer_access(device a, device b); /* visible numbers; whether one of both enabled it */

/* A body begins with one of these. */
#define NEED_DRIVER()                                                                              \
    do {                                                                                           \
        result problem_ = driver_problem();                                                        \
        if (problem_)                                                                              \
            return problem_;                                                                       \
    } while (0)
#define NEED_CONTEXT()                                                                             \
    do {                                                                                           \
        result problem_ = context_problem();                                                       \
        if (problem_)                                                                              \
            return problem_;                                                                       \
    } while (0)
#define NEED_DEVICE(number)                                                                        \
    do {                                                                                           \
        NEED_DRIVER();                                                                             \
        if ((number) < 0 || (number) >= visible_devices())                                         \
            return INVALID_DEVICE;                                                                 \
    } while (0)

#endif
