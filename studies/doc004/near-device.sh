#!/bin/sh
# near-device.sh SIDE DEVICES [PROGRAM [ARGUMENT...]]
#
# Writes into ./near.HOST.PID which processors are near each of the DEVICES (mlx5_0:1,mlx5_1:1), and
# which ones this process may use; nearness.py reads it. Then it becomes the PROGRAM: on
# processors near the first device (SIDE near), on the others (far), or as it was started (free).
# Without a PROGRAM it only says why that is not possible, and ends with 1.
set -u
side=$1 devices=$2
shift 2
root=${ASSAY_SYSFS:-/sys}
host=$(uname -n)

# near DEVICE: the list of processors near it, as the kernel says; empty if it does not say.
near() {
    case $1 in
    *:*)
        folder=$root/class/infiniband/${1%:*}
        # Software such as soft-RoCE is no device of a bus, and names its network card.
        if read -r card <"$folder/parent"; then folder=$root/class/net/$card; fi
        ;;
    *) folder=$root/class/net/$1 ;;
    esac
    folder=$folder/device
    # The network card of a virtual machine is a device of virtio. That of the bus is above it.
    [ -e "$folder/numa_node" ] || folder=$folder/..
    read -r node <"$folder/numa_node" && [ "$node" -ge 0 ] && read -r list <"$folder/local_cpulist" &&
        echo "$list"
} 2>/dev/null

allowed=$(awk '/^Cpus_allowed_list/ { print $2 }' /proc/self/status)
first=$(near "${devices%%,*}")

# The processors of $1 that are among those of $2 (keep=1), or that are not (keep=0).
chosen() {
    awk -v of="$1" -v among="$2" -v keep="$3" '
        function expand(list, into,    n, i, range, edge, cpu) {
            n = split(list, range, ",")
            for (i = 1; i <= n; i++) {
                if (split(range[i], edge, "-") == 1) edge[2] = edge[1]
                for (cpu = edge[1] + 0; cpu <= edge[2] + 0; cpu++) into[cpu] = 1
                if (edge[2] + 0 > most) most = edge[2] + 0
            }
        }
        BEGIN {
            expand(of, all)
            expand(among, some)
            for (cpu = 0; cpu <= most; cpu++)
                if ((cpu in all) && ((cpu in some) == keep)) { printf "%s%d", comma, cpu; comma = "," }
        }'
}

case $side in
near) cpus=$(chosen "$allowed" "$first" 1) ;;
far) cpus=$(chosen "$allowed" "$first" 0) ;;
free) cpus=$allowed ;;
*)
    echo "near-device: no side '$side'; there are near, far and free"
    exit 1
    ;;
esac
if [ -z "$first" ]; then
    echo "$host does not say which processors are near ${devices%%,*}"
    exit 1
fi
if [ -z "$cpus" ]; then
    echo "$host has no processors $side of ${devices%%,*}: near it are $first, allowed are $allowed"
    exit 1
fi
[ $# -gt 0 ] || exit 0
{
    echo "host $host allowed $allowed chosen $cpus"
    for device in $(echo "$devices" | tr , ' '); do
        echo "device $device near $(near "$device")"
    done
} >"near.$host.$$"
[ "$side" != free ] || exec "$@"
exec taskset -c "$cpus" "$@"
