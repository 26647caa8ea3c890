/* nvidia-smi: the questions that the suite asks.
 *
 *   nvidia-smi -L                              a line for each device
 *   nvidia-smi --query-gpu=FIELD,... --format=csv,noheader
 *   nvidia-smi --query-remapped-rows=FIELD,... --format=csv,noheader
 *   nvidia-smi nvlink -e                       the errors that each NVLink counted
 *   nvidia-smi topo -m                         the ways between devices, and their processors
 *   nvidia-smi topo -p2p r                     which devices may read each other's memory
 */
#include "node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The fields whose value is fixed, or depends on a fault of the device. */
static const struct {
    const char *field, *healthy, *fault, *broken;
} FIELDS[] = {
    {"name", DEVICE_NAME, NULL, NULL},
    {"driver_version", DRIVER_VERSION, NULL, NULL},
    {"vbios_version", "emulated", NULL, NULL},
    {"ecc.errors.uncorrected.volatile.total", "0", "ecc", "7"},
    {"ecc.errors.corrected.volatile.total", "0", "ecc-corrected", "60000000"},
    {"retired_pages.pending", "[N/A]", NULL, NULL},
    {"remapped_rows.pending", "0", "remap", "1"},
    {"remapped_rows.failure", "0", "remap-failed", "1"},
    {"clocks_throttle_reasons.hw_thermal_slowdown", "Not Active", "throttle", "Active"},
    {"clocks_throttle_reasons.hw_power_brake_slowdown", "Not Active", "brake", "Active"},
    {"clocks_throttle_reasons.sw_thermal_slowdown", "Not Active", "hot", "Active"},
};

/* A counter that is higher at each reading: it counts microseconds, and no machine is so fast that
 * it starts two programs in one. */
static long rising(void)
{
    struct timespec since;
    clock_gettime(CLOCK_MONOTONIC, &since);
    return since.tv_sec * 1000000L + since.tv_nsec / 1000;
}

/* Whether the fault `ecc-rises` of a device makes this field higher at each reading. */
static bool rises(int device, const char *fault, char text[UUID_TEXT])
{
    char name[32];
    snprintf(name, sizeof(name), "%s-rises", fault);
    if (!node_fault_of(name, device))
        return false;
    snprintf(text, UUID_TEXT, "%ld", rising());
    return true;
}

/* The value of a field in `text`; false if the field is not emulated. */
static bool value(int device, const char *field, char text[UUID_TEXT])
{
    for (size_t i = 0; i < sizeof(FIELDS) / sizeof(*FIELDS); ++i) {
        const char *fault = FIELDS[i].fault;
        if (strcmp(field, FIELDS[i].field) != 0)
            continue;
        if (!fault || !rises(device, fault, text))
            strcpy(text, fault && node_fault_of(fault, device) ? FIELDS[i].broken
                                                               : FIELDS[i].healthy);
        return true;
    }
    if (strcmp(field, "uuid") == 0 || strcmp(field, "gpu_uuid") == 0)
        node_uuid_text(device, text);
    else if (strcmp(field, "index") == 0)
        snprintf(text, UUID_TEXT, "%d", device);
    else if (strcmp(field, "pci.bus_id") == 0)
        snprintf(text, UUID_TEXT, "00000000:%02X:00.0", node_bus(device));
    else if (strcmp(field, "memory.total") == 0)
        snprintf(text, UUID_TEXT, "%zu MiB", node_memory() >> 20);
    else
        return false;
    return true;
}

static int query(const char *fields)
{
    for (int device = 0; device < node_devices(); ++device) {
        char *copy = strdup(fields), *rest = copy, *field, text[UUID_TEXT];
        for (int n = 0; (field = strsep(&rest, ",")); ++n) {
            printf("%s", n ? ", " : "");
            if (!value(device, field, text)) {
                printf("Field \"%s\" is not emulated\n", field);
                return 2;
            }
            printf("%s", text);
        }
        printf("\n");
        free(copy);
    }
    return 0;
}

static void name_device(int device)
{
    char uuid[UUID_TEXT];
    node_uuid_text(device, uuid);
    printf("GPU %d: %s (UUID: %s)\n", device, DEVICE_NAME, uuid);
}

/* The fault `nvlink-errors` of a device is of its first link: packets arrive damaged there, and are
 * sent again. */
static int link_errors(void)
{
    for (int device = 0; device < node_devices(); ++device) {
        long errors = node_fault_of("nvlink-errors", device) ? rising() : 0;
        name_device(device);
        for (int other = 0, link = 0; other < node_devices(); ++other) {
            if (!node_nvlink(device, other))
                continue;
            printf("\t Link %d: Replay Errors: %ld\n", link, link ? 0 : errors);
            printf("\t Link %d: Recovery Errors: 0\n", link);
            printf("\t Link %d: CRC Errors: %ld\n\n", link, link ? 0 : errors);
            ++link;
        }
    }
    return 0;
}

static const char *between(int a, int b, bool access)
{
    if (a == b)
        return "X";
    if (access)
        return node_fault_between("p2p", a, b) ? "TNS" : "OK";
    return node_nvlink(a, b) ? "NV1" : "PHB";
}

static int topology(bool access)
{
    char cpus[CPUS_TEXT];
    printf("\t\x1b[4m");
    for (int device = 0; device < node_devices(); ++device)
        printf("GPU%d\t", device);
    printf("%s\x1b[0m\n", access ? "" : "CPU Affinity\tNUMA Affinity\tGPU NUMA ID");
    for (int device = 0; device < node_devices(); ++device) {
        node_cpus(device, cpus);
        printf("GPU%d\t", device);
        for (int other = 0; other < node_devices(); ++other)
            printf(" %s \t", between(device, other, access));
        printf(access ? "\n" : "%s\tN/A\t\tN/A\n", cpus);
    }
    printf("\nLegend:\n\n  EMULATED: there is no GPU in this machine\n");
    return 0;
}

int main(int number, char **words)
{
    static const char *const QUERIES[] = {"--query-gpu=", "--query-remapped-rows="};
    if (node_fault("nvml")) {
        printf("EMULATED: Failed to initialize NVML: Driver Not Loaded\n");
        return 9;
    }
    if (number > 2 && strcmp(words[1], "topo") == 0)
        return topology(strcmp(words[2], "-p2p") == 0);
    if (number > 2 && strcmp(words[1], "nvlink") == 0 && strcmp(words[2], "-e") == 0)
        return link_errors();
    for (int i = 1; i < number; ++i) {
        for (int device = 0; strcmp(words[i], "-L") == 0 && device < node_devices(); ++device)
            name_device(device);
        for (int q = 0; q < 2; ++q)
            if (strncmp(words[i], QUERIES[q], strlen(QUERIES[q])) == 0)
                return query(words[i] + strlen(QUERIES[q]));
    }
    if (number == 1)
        printf("%d x %s, driver %s: there is no GPU in this machine\n", node_devices(),
               DEVICE_NAME, DRIVER_VERSION);
    return 0;
}
