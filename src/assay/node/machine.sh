#!/bin/sh
# machine.sh [ROOT]
#     Prints what a node says that it is, as `path:line`; assay.prove.identity reads it. ROOT is the
#     folder in which /proc and /sys are, for a test. It needs only grep, and no right of its own.
root=${1-}
exec 2>/dev/null
[ -d "$root/sys/class" ] || exit 0
# Of the first processor; that of Arm has fewer of these lines.
grep -m 6 -HE '^(vendor_id|cpu family|model|model name|stepping|flags|Features|CPU implementer|CPU part|cpu)[[:space:]]*:' "$root/proc/cpuinfo"
grep -H '^MemTotal' "$root/proc/meminfo"
grep -H '^Model:' "$root"/proc/driver/nvidia/gpus/*/information
grep -H '' "$root/sys/devices/system/cpu/present" "$root"/sys/class/dmi/id/sys_vendor \
    "$root"/sys/class/dmi/id/product_name
set --
for file in 'ports/*/rate' 'ports/*/link_layer' 'ports/*/state' device/vendor device/device speed; do
    for kind in infiniband net cxi; do
        # shellcheck disable=SC2086  # a pattern
        set -- "$@" "$root/sys/class/$kind"/*/$file
    done
done
grep -H '' "$@"
grep -HE '^0x(03|0108|12)' "$root"/sys/bus/pci/devices/*/class | while IFS= read -r line; do
    device=${line%/class:*}
    printf '%s\n' "$line"
    grep -H '' "$device"/max_link_speed "$device"/max_link_width \
        "$device"/../max_link_speed "$device"/../max_link_width
done
true
