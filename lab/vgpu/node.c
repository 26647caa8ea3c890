/* The devices of the node, by the environment: one description for CUDA and for NVML. */
#include "node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

int node_devices(void)
{
    const char *said = getenv("GPUEMU_DEVICES");
    int number = said ? atoi(said) : 4;
    return number < 0 ? 0 : number > MAX_DEVICES ? MAX_DEVICES : number;
}

size_t node_memory(void)
{
    return (size_t)32 << 30;
}

/* "gpuemu", a hash of the host's name, and the number: steady, and different on each host. */
void node_uuid(int device, unsigned char uuid[UUID_BYTES])
{
    char host[64] = "";
    uint64_t hash = 14695981039346656037u;
    gethostname(host, sizeof(host) - 1);
    for (const char *c = host; *c; ++c)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u; /* FNV-1a */
    memcpy(uuid, "gpuemu\x40", 8);
    for (int i = 8; i < 15; ++i)
        uuid[i] = (unsigned char)(hash >> (8 * (i - 8)));
    uuid[8] = (unsigned char)((uuid[8] & 0x3f) | 0x80); /* form of a random UUID */
    uuid[15] = (unsigned char)device;
}

void node_uuid_text(int device, char text[UUID_TEXT])
{
    unsigned char uuid[UUID_BYTES];
    char *at = text + sprintf(text, "GPU-");
    node_uuid(device, uuid);
    for (int i = 0; i < UUID_BYTES; ++i)
        at += sprintf(at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

static int device_named(const char *word)
{
    char text[UUID_TEXT];
    if (*word >= '0' && *word <= '9')
        return atoi(word) < node_devices() ? atoi(word) : -1;
    for (int i = 0; i < node_devices() && strncasecmp(word, "GPU-", 4) == 0; ++i) {
        node_uuid_text(i, text);
        if (strncasecmp(text, word, strlen(word)) == 0)
            return i;
    }
    return -1;
}

int node_visible(int devices[MAX_DEVICES])
{
    int number = 0;
    const char *said = getenv("CUDA_VISIBLE_DEVICES");
    if (!said) {
        for (; number < node_devices(); ++number)
            devices[number] = number;
        return number;
    }
    char *copy = strdup(said), *rest = copy, *word;
    while (copy && (word = strsep(&rest, ",")) && number < MAX_DEVICES) {
        int device = device_named(word + strspn(word, " "));
        if (device < 0)
            break; /* as CUDA does: the list ends at the first wrong word */
        devices[number++] = device;
    }
    free(copy);
    return number;
}

int node_bus(int device)
{
    return 0x1b + 0x10 * device;
}

/* The processors near a device, as the kernel writes a list: all, unless somebody says otherwise. */
void node_cpus(int device, char list[CPUS_TEXT])
{
    const char *said = getenv("GPUEMU_CPUS");
    for (int i = 0; said && i < device; ++i) {
        said = strchr(said, ';');
        said += said != NULL;
    }
    if (said && *said && *said != ';')
        snprintf(list, CPUS_TEXT, "%.*s", (int)strcspn(said, ";"), said);
    else
        snprintf(list, CPUS_TEXT, "0-%ld", sysconf(_SC_NPROCESSORS_CONF) - 1);
}

/* Whether one of the words in a list, separated by commas, is `word`. */
static bool listed(const char *list, const char *word)
{
    size_t length = strlen(word);
    while (list && *list) {
        if (strncmp(list, word, length) == 0 && (list[length] == ',' || !list[length]))
            return true;
        list = strchr(list, ',');
        list += list != NULL;
    }
    return false;
}

static bool pair_listed(const char *list, const char *before, int a, int b)
{
    char one[64], other[64];
    snprintf(one, sizeof(one), "%s%d-%d", before, a, b);
    snprintf(other, sizeof(other), "%s%d-%d", before, b, a);
    return listed(list, one) || listed(list, other);
}

bool node_fault(const char *name)
{
    return listed(getenv("GPUEMU_FAULT"), name);
}

bool node_fault_of(const char *name, int device)
{
    char one[32];
    snprintf(one, sizeof(one), "%s:%d", name, device);
    return node_fault(name) || listed(getenv("GPUEMU_FAULT"), one);
}

bool node_fault_between(const char *name, int a, int b)
{
    char before[32];
    snprintf(before, sizeof(before), "%s:", name);
    return node_fault(name) || pair_listed(getenv("GPUEMU_FAULT"), before, a, b);
}

bool node_fault_of_copy(const char *name, int a, int b)
{
    bool of_end = (a >= 0 && node_fault_of(name, a)) || (b >= 0 && node_fault_of(name, b));
    return of_end || (a >= 0 && b >= 0 && a != b && node_fault_between(name, a, b));
}

bool node_nvlink(int a, int b)
{
    const char *pairs = getenv("GPUEMU_NVLINK");
    return a != b && !node_fault("nvlink") && (!pairs || pair_listed(pairs, "", a, b));
}
