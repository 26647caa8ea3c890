#!/bin/sh
# witness.sh rank PROGRAM [ARGUMENT...]
#     Becomes one rank. Before that it writes into rank.HOST.PID what steers the rank: the nonce of
#     the launch, its processors, its variables, and the settings in files that UCX reads. The
#     dynamic linker then writes into loaded.HOST.PID which libraries the program loads.
# witness.sh inside PROGRAM [ARGUMENT...]
#     The same for a program in a container, whose linker is not asked: it may not see the directory.
# witness.sh job [FUNCTION...]
#     Writes the same of the job script into assay.witness, after the benchmark; and where its
#     programs and libraries are, with the hash of each library of MPI and UCX. The functions are
#     those of the shell of the job script.
# witness.sh machine
#     Prints the settings in the files of MPI and UCX that belong to the machine: below /etc, and
#     below the prefix of mpirun and ucx_info.
#
# A value is written if recorded.txt, beside this script, lists its name; of another variable, the
# name is. All files are in the directory of this script. assay.prove.steering reads them.
set -u
stage=${0%/*}
host=$(uname -n)
tab=$(printf '\t')

# As assay.node.provenance.recorded(): `name=value` or `name : value` on each line.
hide() {
    awk -v list="$stage/recorded.txt" '
        BEGIN { while ((getline line <list) > 0) known[line] }
        /^\[/ || !match($0, /[:=]/) { print; next }
        {
            mark = RSTART; value = substr($0, mark + 1); name = substr($0, 1, mark - 1)
            sub(/[ \t]+$/, "", name)
            if (name !~ /^[A-Z]/) name = "OMPI_MCA_" name
            keep = name in known
            for (i = length(name); i && !keep; i--)
                keep = substr(name, i, 1) == "_" && (substr(name, 1, i) in known)
            if (!keep || toupper(name) ~ /PASS|PWD|TOKEN|SECRET|CREDENTIAL|AUTH|(^|_)KEYS?(_|$)/)
                value = "***"
            gsub(/:\/\/[^\/ \t"<>\047]*@/, "://***@", value)
            print substr($0, 1, mark) value
        }'
}

# UCX 1.13 to 1.22 reads ucx.conf in several directories; a later one overrides. Its reader of files
# takes `name: value` as `name=value`, and skips a mark of the byte order.
settings() {
    for file in "$@"; do
        [ -f "$file" ] || continue
        sed "1s/^$(printf '\357\273\277')//; s/^[[:space:]]*//" "$file" | hide |
            grep -nE '^(\[|[A-Za-z_0-9]+[[:space:]]*[:=])' | sed "s|^|file $file:|"
    done
}

# The files of the machine; $1 is a list of programs and libraries, one on each line.
of_machine() {
    prefixes=$(echo "$1" | xargs -d '\n' readlink -f 2>/dev/null |
        awk '{ sub("/[^/]*/[^/]*$", "") } !seen[$0]++')
    old=$IFS
    IFS='
'
    for prefix in '' $prefixes; do
        for etc in etc etc/openmpi etc/pmix etc/prte etc/ucx; do
            etc=$prefix/$etc
            settings "$etc"/*mca-params*.conf "$etc/prte.conf" "$etc/ucx.conf"
        done
    done
    IFS=$old
    # The dynamic linker loads these libraries into each program, as those of LD_PRELOAD.
    grep -nE '^[[:space:]]*[^[:space:]#]' /etc/ld.so.preload 2>/dev/null | sed 's|^|preload |'
}

steering() {
    while IFS=":$tab" read -r name value; do
        case $name in Cpus_allowed_list | Mems_allowed_list) echo "$name ${value#"$tab"}" ;; esac
    done </proc/self/status
    env | grep -E '^(LD_|UCX_|OMPI_MCA_|PRTE_MCA_|GLIBC_TUNABLES=|MALLOC_|FI_|PSM2_|PSM3_|OMP_|GOMP_|KMP_|OPENBLAS_|GOTO_|BLIS_|MKL_[A-Z])' |
        hide
    settings "${HOME:-}/ucx.conf" "${UCX_CONFIG_DIR:-}/ucx.conf" ./ucx.conf
}

nonce=
read -r nonce 2>/dev/null <"$stage/assay.nonce"
case $1 in
rank | inside)
    how=$1
    shift
    {
        echo "rank $host $$ $nonce"
        steering
        # numactl sets a policy, which the program inherits; Mems_allowed_list does not show it.
        read -r _ policy _ </proc/self/numa_maps && echo "policy $policy"
        env | grep -E '^(OMPI_COMM_WORLD|PMI|PMIX|PALS|MPT_MPI)_(RANK|RANKID|SIZE)=' | sed 's/^/place /'
    } >"$stage/rank.$host.$$" 2>/dev/null
    if [ "$how" = rank ]; then
        LD_DEBUG=libs LD_DEBUG_OUTPUT=$stage/loaded.$host
        export LD_DEBUG LD_DEBUG_OUTPUT
    fi
    exec "$@"
    ;;
job)
    shift
    {
        echo "rank $host - $nonce"
        steering
        # mpirun sets some of them for the ranks.
        env | grep -E '^(OPAL_|PMIX_MCA_|HWLOC_|MPICH_|MPIR_|I_MPI_|MV2_|BASH_ENV=)' | hide
        settings "${HOME:-}"/.openmpi/*.conf "${HOME:-}"/.pmix/*.conf "${HOME:-}"/.prte/*.conf
        [ $# = 0 ] || printf 'function %s\n' "$@"
        readlink -f "$(command -v mpirun)" "$(command -v ucx_info)" | sed 's/^/program /'
        timeout 10 "$(command -v mpirun)" --version 2>&1 </dev/null | sed -n '1,4s/^/launcher /p'
        libraries=$(awk -v FS='calling init: ' '
            NF == 2 && $2 ~ "/(lib(mpi|open-|oshmem|pmix|prrte|uc[cmpst][._]|uct_|hcoll|fabric|psm)|mca_)[^/]*$" &&
                !seen[$2]++ { print $2 }' "$stage"/loaded.*)
        if [ -n "$libraries" ]; then
            # The hashes take most of this script's time. openssl needs less than half of sha256sum's.
            echo "$libraries" | xargs -d '\n' sh -c \
                'openssl dgst -sha256 -r "$@" || sha256sum -b "$@"' hashes
        fi
        of_machine "$(command -v mpirun)
$(command -v ucx_info)
$libraries"
        grep -H . /sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list \
            /sys/devices/system/node/node[0-9]*/cpulist
    } >"$stage/assay.witness" 2>/dev/null
    ;;
machine)
    of_machine "$(command -v mpirun)
$(command -v ucx_info)"
    ;;
esac
