#!/bin/sh
# witness.sh rank PROGRAM [ARGUMENT...]
#     Becomes one rank. Before that it writes into rank.HOST.PID what steers the rank: the nonce of
#     the launch, its processors, its variables, and the settings in files that UCX reads. The
#     dynamic linker then writes into loaded.HOST.PID which libraries the program loads.
# witness.sh inside PROGRAM [ARGUMENT...]
#     The same for a program in a container, whose linker is not asked: it may not see the directory.
# witness.sh job
#     Writes the same of the job script into assay.witness, after the benchmark; and where its
#     programs and libraries are, with the hash of each library of MPI and UCX.
#
# All files are in the directory of this script. assay.evidence.steering reads them.
set -u
stage=${0%/*}
host=$(uname -n)
tab=$(printf '\t')

# UCX 1.13 to 1.22 reads these files and the one beside its library; a later one overrides. Its
# reader of files takes `name: value` as `name=value`, and skips a mark of the byte order.
settings() {
    for directory in "$@"; do
        [ -f "$directory/ucx.conf" ] || continue
        sed "1s/^$(printf '\357\273\277')//" "$directory/ucx.conf" |
            grep -nE '^[[:space:]]*(\[|[A-Za-z_0-9]+[[:space:]]*[:=])' |
            sed "s|^|file $directory/ucx.conf:|"
    done
}

steering() {
    while IFS=":$tab" read -r name value; do
        case $name in Cpus_allowed_list | Mems_allowed_list) echo "$name ${value#"$tab"}" ;; esac
    done </proc/self/status
    env | grep -E '^(LD_|UCX_|OMPI_MCA_|PRTE_MCA_|GLIBC_TUNABLES=|MALLOC_)'
    env | grep -E '^(FI_|PSM2_|PSM3_)'
    env | grep -E '^(OMP_|GOMP_|KMP_|OPENBLAS_|GOTO_|BLIS_|MKL_[A-Z])'
    # The dynamic linker loads these libraries into each program, as those of LD_PRELOAD.
    grep -nE '^[[:space:]]*[^[:space:]#]' /etc/ld.so.preload 2>/dev/null | sed 's|^|preload |'
    settings /etc/ucx "${HOME:-}" "${UCX_CONFIG_DIR:-}" .
}

nonce=
read -r nonce <"$stage/assay.nonce" 2>/dev/null
case $1 in
rank | inside)
    how=$1
    shift
    {
        echo "rank $host $$ $nonce"
        steering
        # numactl sets a policy, which the program inherits; Mems_allowed_list does not show it.
        read -r _ policy _ </proc/self/numa_maps && echo "policy $policy"
    } >"$stage/rank.$host.$$" 2>/dev/null
    if [ "$how" = rank ]; then
        LD_DEBUG=libs LD_DEBUG_OUTPUT=$stage/loaded.$host
        export LD_DEBUG LD_DEBUG_OUTPUT
    fi
    exec "$@"
    ;;
job)
    {
        echo "rank $host - $nonce"
        steering
        env | grep -E '^(OPAL_|PMIX_MCA_|HWLOC_)' # mpirun sets some of them for the ranks
        readlink -f "$(command -v mpirun)" "$(command -v ucx_info)" | sed 's/^/program /'
        libraries=$(awk -v FS='calling init: ' '
            NF == 2 && $2 ~ "/(lib(mpi|open-|oshmem|pmix|prrte|uc[cmpst][._]|uct_|hcoll|fabric|psm)|mca_)[^/]*$" &&
                !seen[$2]++ { print $2 }' "$stage"/loaded.*)
        if [ -n "$libraries" ]; then
            # The hashes take most of this script's time. openssl needs less than half of sha256sum's.
            echo "$libraries" | xargs -d '\n' sh -c \
                'openssl dgst -sha256 -r "$@" || sha256sum -b "$@"' hashes
            for path in $libraries; do
                case $path in */libucs.*) settings "${path%/*}/../etc" ;; esac
            done
        fi
        grep -H . /sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list \
            /sys/devices/system/node/node[0-9]*/cpulist
    } >"$stage/assay.witness" 2>/dev/null
    ;;
esac
