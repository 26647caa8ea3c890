/* nvidia-smi: the questions that the suite asks.
 *
 *   nvidia-smi -L                              a line for each device
 *   nvidia-smi --query-gpu=FIELD,... --format=csv,noheader
 */
#include "node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int print(int device, const char *field)
{
    char uuid[UUID_TEXT];
    node_uuid_text(device, uuid);
    if (strcmp(field, "uuid") == 0)
        return printf("%s", uuid);
    if (strcmp(field, "index") == 0)
        return printf("%d", device);
    if (strcmp(field, "name") == 0)
        return printf("%s", DEVICE_NAME);
    if (strcmp(field, "driver_version") == 0)
        return printf("%s", DRIVER_VERSION);
    if (strcmp(field, "vbios_version") == 0)
        return printf("emulated");
    if (strcmp(field, "memory.total") == 0)
        return printf("%zu MiB", node_memory() >> 20);
    if (strcmp(field, "ecc.errors.uncorrected.volatile.total") == 0)
        return printf("%d", node_fault("ecc") ? 7 : 0);
    return -1;
}

int main(int count, char **words)
{
    static const char QUERY[] = "--query-gpu=";
    char uuid[UUID_TEXT];
    if (node_fault("nvml")) {
        printf("EMULATED: Failed to initialize NVML: Driver Not Loaded\n");
        return 9;
    }
    for (int i = 1; i < count; ++i)
        for (int device = 0; device < node_devices(); ++device) {
            node_uuid_text(device, uuid);
            if (strcmp(words[i], "-L") == 0)
                printf("GPU %d: %s (UUID: %s)\n", device, DEVICE_NAME, uuid);
            if (strncmp(words[i], QUERY, strlen(QUERY)) != 0)
                continue;
            char *copy = strdup(words[i] + strlen(QUERY)), *rest = copy, *field;
            for (int n = 0; (field = strsep(&rest, ",")); ++n) {
                printf("%s", n ? ", " : "");
                if (print(device, field) < 0) {
                    printf("Field \"%s\" is not emulated\n", field);
                    return 2;
                }
            }
            printf("\n");
            free(copy);
        }
    if (count == 1)
        printf("%d x %s, driver %s: there is no GPU in this machine\n", node_devices(),
               DEVICE_NAME, DRIVER_VERSION);
    return 0;
}
