#!/bin/sh
# link-witness.sh DEVICES PROGRAM [ARGUMENT...]
#
# Runs one rank and writes what the counters of the link said before and after it, on its node, into
# ./link.HOST.PID; assay.evidence.links reads them. DEVICES as in UCX_NET_DEVICES: `eth0`, or
# `mlx5_0:1,mlx5_1:1`, device and port of InfiniBand, whose counters are in words of 4 B
# (Documentation/ABI/stable/sysfs-class-infiniband of Linux; not yet run).
# The program gets our standard input and our signals; its exit code, or its signal, is ours.
set -u
devices=$1
shift
host=$(uname -n)
witness=link.$host.$$

counters() {
    for device in $(echo "$devices" | tr , ' '); do
        case $device in
        *:*)
            at=/sys/class/infiniband/${device%:*}/ports/${device#*:}/counters
            received=port_rcv_data sent=port_xmit_data unit=4
            ;;
        *)
            at=/sys/class/net/$device/statistics
            received=rx_bytes sent=tx_bytes unit=1
            ;;
        esac
        if read -r received <"$at/$received" && read -r sent <"$at/$sent"; then
            echo "$1 $host $device received=$received sent=$sent unit=$unit"
        else
            echo "$1 $host $device missing"
        fi 2>/dev/null
    done
}

counters before >"$witness" 2>/dev/null
# What is put into the background has no standard input, unless it is told.
exec 3<&0
"$@" <&3 3<&- &
program=$!
interrupted=
for signal in HUP INT QUIT TERM USR1 USR2; do
    # shellcheck disable=SC2064 # the signal of this turn
    trap "interrupted=1; kill -s $signal $program 2>/dev/null" "$signal"
done
wait "$program"
code=$?
# A signal of ours ends the wait, not the program.
while [ -n "$interrupted" ]; do
    interrupted=
    wait "$program"
    again=$?
    [ "$again" -eq 127 ] || code=$again # 127: it had ended already
done
counters after >>"$witness" 2>/dev/null
if [ "$code" -gt 128 ]; then
    trap - HUP INT QUIT TERM USR1 USR2
    kill -s "$((code - 128))" $$ 2>/dev/null
fi
exit "$code"
