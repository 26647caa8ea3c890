/* Functions by name, and the functions that exist but refuse: the programs link to them, or UCX
 * watches them. Each refusal is in the trace, so that nothing is missing in silence. */
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define REFUSED(_)                                                                                 \
    _(cuLibraryGetGlobal)                                                                          \
    _(cuMemAddressFree)                                                                            \
    _(cuMemAddressReserve)                                                                         \
    _(cuMemAllocAsync)                                                                             \
    _(cuMemAllocFromPoolAsync)                                                                     \
    _(cuMemCreate)                                                                                 \
    _(cuMemExportToShareableHandle)                                                                \
    _(cuMemFreeAsync)                                                                              \
    _(cuMemGetAllocationGranularity)                                                               \
    _(cuMemGetAllocationPropertiesFromHandle)                                                      \
    _(cuMemGetHandleForAddressRange)                                                               \
    _(cuMemImportFromShareableHandle)                                                              \
    _(cuMemMap)                                                                                    \
    _(cuMemPoolDestroy)                                                                            \
    _(cuMemPoolExportPointer)                                                                      \
    _(cuMemPoolExportToShareableHandle)                                                            \
    _(cuMemPoolImportFromShareableHandle)                                                          \
    _(cuMemPoolImportPointer)                                                                      \
    _(cuMemPoolSetAccess)                                                                          \
    _(cuMemRelease)                                                                                \
    _(cuMemRetainAllocationHandle)                                                                 \
    _(cuMemSetAccess)                                                                              \
    _(cuMemUnmap)                                                                                  \
    _(cuModuleGetGlobal_v2)

#define REFUSE(name)                                                                               \
    ENTRY(name)(void)                                                                              \
    {                                                                                              \
        trace("refused " #name, 0);                                                                \
        return NOT_SUPPORTED;                                                                      \
    }
REFUSED(REFUSE)

#define NAME(name) #name,
static const char *const refused[] = {REFUSED(NAME)};

enum { FOUND = 0, MISSING = 1 }; /* what cuGetProcAddress says beside its result */

/* The newest form of a function, as a driver gives it to a program that asks by the plain name. */
ENTRY(cuGetProcAddress_v2)(const char *name, void **function, int version, uint64_t flags, int *said)
{
    (void)version, (void)flags;
    char newest[128];
    Dl_info here;
    void *self = dladdr((void *)body_of_cuGetProcAddress_v2, &here)
                     ? dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
                     : NULL;
    bool offered = self != NULL;
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); ++i)
        offered = offered && strcmp(refused[i], name) != 0;
    snprintf(newest, sizeof(newest), "%s_v2", name);
    *function = offered ? dlsym(self, newest) : NULL;
    if (offered && !*function)
        *function = dlsym(self, name);
    if (self)
        dlclose(self);
    if (said)
        *said = *function ? FOUND : MISSING;
    return *function || said ? SUCCESS : NOT_FOUND;
}
