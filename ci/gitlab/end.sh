#!/usr/bin/env bash
# End what a job of the pipeline left: its processes on this machine, and its jobs of Slurm.
#
#   ci/gitlab/end.sh [--others]     --others: what earlier jobs of this project left on this site
#
# ci/gitlab/case.sh marks what it starts: processes by ASSAY_MARK in their environment, jobs of Slurm
# by their name. A runner may forget a cancelled job that still measures (gitlab-runner, issue 27443).
# Ends with 1 if something is left, or if Slurm does not say.
set -euo pipefail

trap '' PIPE # a runner that is gone reads no messages
mark=assay.${CI_PROJECT_ID:-0}.$SITE # of all jobs that never run at the same time
own=$mark.${CI_PIPELINE_ID:-0}.${CI_JOB_ID:-0}
grace=20                        # seconds until KILL
patience=${ASSAY_PATIENCE:-120} # seconds for Slurm to end its jobs

others=
[ "${1:-}" != --others ] || others=yes

silent=$(mktemp -u) # exists once Slurm did not answer
trap 'rm -f "$silent"' EXIT

# Of lines that end in a mark: those that are asked for.
asked_for() {
    local each
    while read -r each; do
        case ${each##* } in
        "$own") [ -n "$others" ] || echo "$each" ;;
        "$mark".*) [ -z "$others" ] || echo "$each" ;;
        esac
    done
}
processes() { # "PID MARK", one a line
    { grep -zos "^ASSAY_MARK=${mark//./\\.}\..*" /proc/[0-9]*/environ || true; } | tr '\0' '\n' |
        sed -n 's|^/proc/\([0-9]*\)/environ:ASSAY_MARK=|\1 |p' | asked_for
}
slurm() { # "ID NAME", one a line
    local listed
    command -v squeue >/dev/null || return 0
    if ! listed=$(timeout 60 squeue -h --user="$(id -un)" -o '%A %j' 2>&1); then
        [ -e "$silent" ] || echo "end: squeue: ${listed##*$'\n'}: jobs of Slurm are not looked for" >&2
        touch "$silent"
        return 0
    fi
    asked_for <<<"$listed"
}
left() { processes && slurm; }
ends_within() { # ends_within SECONDS FUNCTION: does FUNCTION find nothing before then?
    local until=$((SECONDS + $1))
    while [ -n "$($2)" ]; do
        [ "$SECONDS" -lt "$until" ] || return 1
        sleep 0.2
    done
}
tell() { # tell SIGNAL
    local pid
    while read -r pid _; do kill -s "$1" "$pid" 2>/dev/null || true; done < <(processes)
}

found=$(left)
[ -n "$found" ] || {
    [ ! -e "$silent" ] || exit 1 # nobody knows what is left
    exit 0
}
while read -r id whose; do
    what="job $id of Slurm"
    [ ! -r "/proc/$id/comm" ] || what="process $id ($(cat "/proc/$id/comm" 2>/dev/null))"
    echo "end: $what is left of $whose" >&2 || true
done <<<"$found"

tell TERM
ends_within "$grace" processes || tell KILL
while read -r _ name; do scancel --user="$(id -un)" --name="$name" >&2 || true; done < <(slurm)
ends_within "$patience" left || {
    echo "end: still there after $patience s: $(left | tr '\n' ' ')" >&2
    exit 1
}
