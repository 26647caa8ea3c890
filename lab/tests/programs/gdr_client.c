/* Copies to device memory and back by libgdrapi: test_vgpu_gdrdrv.py compiles and runs it.
 * It prints the version of the driver, and whether the bytes arrived. */
#include <gdrapi.h>
#include <stdio.h>
#include <string.h>

/* From CUDA's driver interface: a machine with libgdrapi need not have cuda.h. */
int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(unsigned long long *at, size_t bytes);
int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes);

enum { SIZE = 64 << 10 };
static char sent[SIZE], on_device[SIZE], returned[SIZE];

int main(void)
{
    void *context, *mapped;
    unsigned long long memory;
    int major, minor;
    gdr_mh_t handle;
    gdr_t library = gdr_open();
    if (!library)
        return puts("no gdrcopy"), 0;
    if (gdr_driver_get_version(library, &major, &minor) || cuInit(0) ||
        cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
        cuMemAlloc_v2(&memory, SIZE))
        return 1;
    printf("driver %d.%d\n", major, minor);
    if (gdr_pin_buffer(library, memory, SIZE, 0, 0, &handle) ||
        gdr_map(library, handle, &mapped, SIZE))
        return puts("not pinned"), 0;
    memset(sent, 0x5a, SIZE);
    gdr_copy_to_mapping(handle, mapped, sent, SIZE);
    gdr_copy_from_mapping(handle, returned, mapped, SIZE);
    cuMemcpyDtoH_v2(on_device, memory, SIZE);
    printf("%s %s\n", memcmp(sent, on_device, SIZE) ? "lost" : "arrived",
           memcmp(sent, returned, SIZE) ? "lost" : "returned");
    return gdr_unmap(library, handle, mapped, SIZE) || gdr_unpin_buffer(library, handle) ||
           gdr_close(library);
}
