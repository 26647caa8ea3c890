#!/bin/sh
# link-witness.sh DEVICES PROGRAM [ARGUMENT...]
#
# Runs one rank and writes what the counters of the link said before and after it, on its node, into
# ./link.HOST.PID; assay.prove.links reads them. DEVICES as in UCX_NET_DEVICES: `eth0`, or
# `mlx5_0:1,mlx5_1:1`, device and port of InfiniBand or RoCE, of which it writes all counters:
# assay.node.port_counters says what they mean.
# The first rank of a node also keeps what node-health.sh beside this script prints of the node, before
# and after it (assay.prove.counters); the job script has done that of its own node.
# The program gets our standard input and our signals; its exit code, or its signal, is ours.
set -u
devices=$1
shift
host=$(uname -n)
witness=link.$host.$$
stage=${0%/*}
first=

counters() {
    for device in $(echo "$devices" | tr , ' '); do
        case $device in
        *:*) port "$1" "$device" "/sys/class/infiniband/${device%:*}/ports/${device#*:}" ;;
        *) interface "$1" "$device" "/sys/class/net/$device/statistics" ;;
        esac
    done
}

interface() {
    if read -r received <"$3/rx_bytes" && read -r sent <"$3/tx_bytes"; then
        echo "$1 $host $2 counters rx_bytes=$received tx_bytes=$sent"
    else
        echo "$1 $host $2 missing"
    fi 2>/dev/null
}

port() {
    if [ ! -d "$3" ]; then
        echo "$1 $host $2 missing"
        return
    fi
    all=
    for file in "$3"/hw_counters/* "$3"/counters/*; do
        # A port without one of these folders leaves its pattern; some counters cannot be read.
        read -r value <"$file" || continue
        case $value in
        '' | *[!0-9]*) ;;
        *) all="$all ${file##*/}=$value" ;;
        esac
    done 2>/dev/null
    echo "$1 $host $2 counters$all"
}

health() {
    timeout 20 sh "$stage/node-health.sh" >"$stage/health.$host.$1.$$" 2>/dev/null
    mv "$stage/health.$host.$1.$$" "$stage/health.$host.$1"
}

# With noclobber, only one of the ranks makes the file.
if [ -f "$stage/node-health.sh" ] && (set -C && : >"$stage/health.$host.before") 2>/dev/null; then
    first=1
    health before
fi
counters before >"$witness" 2>/dev/null
# shellcheck disable=SC2329 # the traps call it
pass_on() { # pass_on SIGNAL
    if [ -n "$program" ]; then
        interrupted=1
        kill -s "$1" "$program" 2>/dev/null
    else
        early=$1
    fi
}
# A signal may come as soon as the program runs, before this script knows its number.
program='' early='' interrupted=''
for signal in HUP INT QUIT TERM USR1 USR2; do
    # shellcheck disable=SC2064 # the signal of this turn
    trap "pass_on $signal" "$signal"
done
# What is put into the background has no standard input, unless it is told.
exec 3<&0
"$@" <&3 3<&- &
program=$!
[ -z "$early" ] || kill -s "$early" "$program" 2>/dev/null
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
[ -z "$first" ] || health after
if [ "$code" -gt 128 ]; then
    trap - HUP INT QUIT TERM USR1 USR2
    kill -s "$((code - 128))" $$ 2>/dev/null
fi
exit "$code"
