#!/bin/sh
# near-cores.sh STATE VISIBLE CPU...
#
# Prints two of the processors CPU: one for each of two processes that take the GPUs in VISIBLE in
# turn. Each is near its GPU, if one of them is. STATE is a file with the state of the GPUs
# (assay.gpu.gpu_health); where it does not say which processors are near, any will do.
# Writes the GPU of each process into gpu.HOST.0 and gpu.HOST.1, as rank-gpu.sh does.
set -u
state=$1 visible=$2
shift 2
[ -e "$state" ] || state=/dev/null
awk -F '\t' -v host="$(uname -n)" -v visible="$visible" -v cpus="$*" '
    function near(list, cpu,    n, range, edge, i) {
        n = split(list, range, ",")
        for (i = 1; i <= n; i++) {
            split(range[i] "-" range[i], edge, "-")
            if (cpu + 0 >= edge[1] + 0 && cpu + 0 <= edge[2] + 0) return 1
        }
        return 0
    }
    /^\[/ { part = $1 }
    part ~ /^\[gpu / && /^GPU-/ { split($0, cell, ","); at = gpus++ + 0; uuid[at] = cell[1]; number[cell[1]] = at }
    part == "[topology]" {
        for (i = 1; i <= NF; i++) if ($i == "CPU Affinity") column = i
        if ($1 ~ /^GPU[0-9]+$/) list[substr($1, 4) + 0] = $column
    }
    END {
        if ((n = split(visible, gpu, ",")) == 0) n = 1
        m = split(cpus, cpu, " ")
        for (process = 0; process < 2; process++) {
            word = gpu[process % n + 1]
            at = (word in number) ? number[word] : word + 0
            chosen = ""
            good = 0
            for (i = 1; i <= m; i++)
                if (!(i in taken) && (chosen == "" || (!good && near(list[at], cpu[i])))) {
                    chosen = i
                    good = near(list[at], cpu[i])
                }
            taken[chosen] = 1
            print cpu[chosen]
            print host, process, visible, (at in uuid) ? uuid[at] : word, 0, process % n, \
                cpu[chosen], (list[at] ~ /^[0-9]/) ? list[at] : "unknown", "unknown", \
                "unknown" \
                >("gpu." host "." process)
        }
    }' "$state"
