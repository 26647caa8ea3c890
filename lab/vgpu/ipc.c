/* CUDA IPC: a handle names the file behind an allocation, and the other process maps it. */
#include "memory.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HANDLE_BYTES = 64 };
struct handle {
    char bytes[HANDLE_BYTES];
};
struct content {
    char magic[8];
    int32_t owner, process, fd;
    uint64_t inode, size, span;
};
_Static_assert(sizeof(struct content) <= HANDLE_BYTES, "a handle of CUDA has 64 B");
static const char MAGIC[8] = "gpuemu1";

ENTRY(cuIpcGetMemHandle)(struct handle *handle, address at)
{
    struct range range;
    NEED_CONTEXT();
    if (node_fault("ipc-export"))
        return NOT_SUPPORTED;
    result problem = memory_share(at, &range);
    if (problem)
        return problem;
    struct content content = {.owner = range.owner,
                              .process = getpid(),
                              .fd = range.fd,
                              .inode = range.inode,
                              .size = range.size,
                              .span = range.span};
    memcpy(content.magic, MAGIC, sizeof(MAGIC));
    memset(handle, 0, sizeof(*handle));
    memcpy(handle, &content, sizeof(content));
    return SUCCESS;
}

ENTRY(cuIpcOpenMemHandle_v2)(address *at, struct handle handle, unsigned flags)
{
    (void)flags;
    char path[64];
    struct content content;
    NEED_CONTEXT();
    memcpy(&content, &handle, sizeof(content));
    if (memcmp(content.magic, MAGIC, sizeof(MAGIC)) != 0)
        return INVALID_VALUE;
    if (content.process == getpid())
        return INVALID_CONTEXT; /* CUDA refuses its own handle too */
    int here = node_device(current_context()->device);
    result problem = SUCCESS;
    if (node_fault("ipc-open"))
        problem = MAP_FAILED_;
    else if (here != content.owner && node_fault_between("p2p", here, content.owner))
        problem = PEER_ACCESS_UNSUPPORTED;
    int device = visible_device(content.owner);
    struct range range = {.size = content.size,
                          .span = content.span,
                          .device = device < 0 ? current_context()->device : device,
                          .owner = content.owner,
                          .inode = content.inode,
                          .imported = true,
                          .exporter = content.process,
                          .context = current_context()};
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", content.process, content.fd);
    problem = problem ? problem : memory_import(&range, path);
    trace(problem ? "ipc handle refused" : "ipc handle opened", 0);
    if (!problem)
        *at = range.base;
    return problem;
}

ENTRY(cuIpcCloseMemHandle)(address at)
{
    return memory_release(at, true);
}
