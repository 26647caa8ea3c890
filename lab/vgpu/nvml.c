/* libnvidia-ml: the devices of the node, whatever CUDA_VISIBLE_DEVICES says, and their NVLinks. */
#include "node.h"

#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, DRIVER_NOT_LOADED = 9 };
enum { NVLINK_COUNT = 91, UNSIGNED_INT = 1 }; /* a field of a device, the type of its value */

struct device {
    int number;
};
static struct device all[MAX_DEVICES];

struct pci {
    char short_id[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
};

struct field {
    unsigned field, scope;
    long long timestamp, latency;
    int type, result;
    union {
        unsigned number;
        unsigned long long bytes;
    } value;
};

EXPORT int nvmlInit_v2(void)
{
    return node_fault("nvml") ? DRIVER_NOT_LOADED : SUCCESS;
}

EXPORT int nvmlShutdown(void)
{
    return SUCCESS;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = (unsigned)node_devices();
    return SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned number, struct device **device)
{
    if (number >= (unsigned)node_devices())
        return INVALID_ARGUMENT;
    all[number].number = (int)number;
    *device = &all[number];
    return SUCCESS;
}

static int pci_of(int number, struct pci *pci)
{
    memset(pci, 0, sizeof(*pci));
    pci->bus = (unsigned)node_bus(number);
    snprintf(pci->short_id, sizeof(pci->short_id), "0000:%02X:00.0", pci->bus);
    snprintf(pci->bus_id, sizeof(pci->bus_id), "00000000:%02X:00.0", pci->bus);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetPciInfo_v3(const struct device *device, struct pci *pci)
{
    return pci_of(device->number, pci);
}

/* The device at the other end of a link; -1 after the last link. */
static int at_end_of(int number, unsigned link)
{
    for (int other = 0; other < node_devices(); ++other)
        if (node_nvlink(number, other) && link-- == 0)
            return other;
    return -1;
}

EXPORT int nvmlDeviceGetFieldValues(const struct device *device, int number, struct field *fields)
{
    for (int i = 0; i < number; ++i) {
        unsigned links = 0;
        while (at_end_of(device->number, links) >= 0)
            ++links;
        fields[i].result = fields[i].field == NVLINK_COUNT ? SUCCESS : NOT_SUPPORTED;
        fields[i].type = UNSIGNED_INT;
        fields[i].value.number = links;
    }
    return SUCCESS;
}

EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(const struct device *device, unsigned link,
                                               struct pci *pci)
{
    int other = at_end_of(device->number, link);
    return other < 0 ? NOT_SUPPORTED : pci_of(other, pci);
}

/* Both forms: state 0 says that there is no fabric; the newer one begins with its version. */
static int no_fabric(void *state)
{
    memset(state, 0, 16 + 4 + 4 + 1);
    return node_fault("nvml-fabric") ? NOT_SUPPORTED : SUCCESS;
}

EXPORT int nvmlDeviceGetGpuFabricInfo(const struct device *device, void *info)
{
    (void)device;
    return no_fabric(info);
}

EXPORT int nvmlDeviceGetGpuFabricInfoV(const struct device *device, char *info)
{
    (void)device;
    return no_fabric(info + sizeof(unsigned));
}

EXPORT const char *nvmlErrorString(int code)
{
    switch (code) {
    case SUCCESS: return "Success";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    default: return "Unknown Error";
    }
}
