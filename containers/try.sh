#!/usr/bin/env bash
# Inside the image: run one of its programs for a moment, on two ranks. Fail unless its output is
# complete and its own validation passed. The tests of the image's apps use this script.
#
#   [TRY_LIMIT=SECONDS] try.sh hpcc|netpipe|ucx_perftest|osu|osu_c|hpl
#
# A launch that takes longer than TRY_LIMIT has failed; 0 is no limit. The messages are so long that
# a rate is not rounded to 0 on a busy machine. The last two are compiled for the image; they pass where
# it was built without their sources.
set -euo pipefail

suite=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
limit=${TRY_LIMIT-300}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
die() {
    echo "try: $*" >&2
    tail -n 20 out err >&2 2>/dev/null || true
    exit 1
}
pair() { # pair COMMAND...: two ranks, also on one core, also as root
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        timeout "$limit" mpirun -np 2 --oversubscribe --bind-to none "$@" >out 2>err ||
        die "mpirun $1 ended with exit code $?"
}
sound() { # sound FILE [LAST SIZE]: of one world of two, complete, valid
    assay parse ${2:+--last-size "$2"} "$1" >parsed || die "$(cat parsed)"
}

hpl_input() { # hpl_input DEVICE: 8 is the file that the input names, 6 the standard output
    "$suite/.venv/bin/python" -c "
from assay.workloads import hpl_input, sizing
print(hpl_input.hpl([200], [32], sizing.Grid(1, 2), device=$1), end='')"
}
compiled() { # compiled PACKAGE: ends where the image has none
    [ ! -d "$suite/.cache/programs/$1" ] || return 0
    echo "try: no $1 here: it was built without its source" >&2
    exit
}

case ${1:-} in
hpcc)
    hpl_input 8 >hpccinf.txt
    pair hpcc
    sound hpccoutf.txt
    grep -qx 'CommWorldProcs=2' hpccoutf.txt || die "hpcc was not one world of two"
    ;;
netpipe) # refuses to run as anything but a pair
    pair NPopenmpi -l 32768 -u 65536 -n 20
    sound err 65536
    ;;
osu) # likewise; with fewer repeats than the program has when it is run as such
    pair env PYTHONPATH="$suite/.cache/osu-py" "$suite/.venv/bin/python" -c '
from osu_latency import osu_latency
osu_latency(skip=2, loop=20, MAX_MSG_SIZE=1024)'
    sound out 1024
    ;;
osu_c)
    compiled osu-micro-benchmarks
    pair osu_latency -m 1:1024 -x 2 -i 20
    sound out 1024
    ;;
hpl)
    compiled hpl
    hpl_input 6 >HPL.dat
    pair xhpl
    sound out
    ;;
ucx_perftest)
    ucx_info -d | grep -q 'Transport: posix' || die "UCX has no shared memory here"
    port=$((20000 + RANDOM % 10000))
    # A ucx_perftest that was built with MPI expects mpirun, unless it is told otherwise.
    plain=()
    if [[ $(ucx_perftest -h 2>&1) == *"-P <0|1>"* ]]; then plain=(-P 0); fi
    timeout "$limit" ucx_perftest "${plain[@]}" -p "$port" >server 2>&1 &
    server=$!
    # Do not connect to find out whether it listens: the server would take that for the client.
    until grep -q ":$(printf %04X "$port") .* 0A " /proc/net/tcp; do
        kill -0 "$server" 2>/dev/null || die "the server of ucx_perftest ended: $(cat server)"
        sleep 0.1
    done
    timeout "$limit" ucx_perftest "${plain[@]}" -p "$port" -t tag_lat -s 65536 -n 100 127.0.0.1 \
        >out 2>err || die "ucx_perftest ended with exit code $?"
    wait "$server" || die "the server of ucx_perftest ended with exit code $?: $(cat server)"
    sound out 65536
    ;;
*) die "no program '${1:-}': hpcc, netpipe, ucx_perftest, osu, osu_c or hpl" ;;
esac
