/* The devices of the emulated node, its faults and its trace: what all emulated libraries share.
 *
 *   GPUEMU_DEVICES=4             devices of the node, 1 to 8 (default 4)
 *   GPUEMU_NVLINK=0-1,2-3        pairs that NVLink joins (default: all); "none" for none
 *   GPUEMU_CPUS=0-3;4-7          processors near each device (default: all, for each)
 *   GPUEMU_FAULT=ipc-open,...    see docs/vgpu.md
 *   GPUEMU_TRACE=DIRECTORY       each process writes what it did there when it ends
 *   CUDA_VISIBLE_DEVICES         as for CUDA: numbers or UUIDs; NVML ignores it
 */
#ifndef VGPU_NODE_H
#define VGPU_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_DEVICES = 8, UUID_BYTES = 16, UUID_TEXT = 48, CPUS_TEXT = 128 };

/* What every output calls such a device, so that nobody takes it for hardware. */
#define DEVICE_NAME "EMULATED GPU"
#define DRIVER_VERSION "0.0.emulated"

int node_devices(void);
/* The devices that CUDA_VISIBLE_DEVICES leaves, as numbers of the node; returns how many. */
int node_visible(int devices[MAX_DEVICES]);
size_t node_memory(void);
void node_uuid(int device, unsigned char uuid[UUID_BYTES]);
void node_uuid_text(int device, char text[UUID_TEXT]);
int node_bus(int device); /* PCI bus number */
void node_cpus(int device, char list[CPUS_TEXT]);
bool node_nvlink(int a, int b);
bool node_fault(const char *name);
/* A fault of all devices ("ecc") or of this one ("ecc:1"). */
bool node_fault_of(const char *name, int device);
/* A fault of all pairs ("p2p") or of this pair ("p2p:0-1"). */
bool node_fault_between(const char *name, int a, int b);
/* A fault of copies from device `a` to device `b` ("slow:0-1", in both directions), of all copies of
 * a device ("slow:0"), or of all ("slow"); -1 stands for the host. */
bool node_fault_of_copy(const char *name, int a, int b);

/* Adds one event and its bytes to the trace of this process; `what` must live for ever. */
void trace(const char *what, uint64_t bytes);

#endif
