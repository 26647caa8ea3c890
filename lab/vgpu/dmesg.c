/* dmesg: what the driver of the emulated devices would write into the kernel's log. */
#include "node.h"

#include <stdio.h>
#include <time.h>

int main(void)
{
    struct timespec up;
    clock_gettime(CLOCK_BOOTTIME, &up);
    printf("[    0.000000] EMULATED: this is not the log of this kernel\n");
    for (int device = 0; device < node_devices(); ++device)
        if (node_fault_of("xid", device)) /* now, so each reading has one that no earlier one had */
            printf("[%5ld.%06ld] NVRM: Xid (PCI:0000:%02x:00): 74, pid='<unknown>', "
                   "name=<unknown>, EMULATED: an error of NVLink\n",
                   up.tv_sec, up.tv_nsec / 1000, node_bus(device));
    return 0;
}
