#!/usr/bin/env bash
# What `apptainer run assay.sif` does:
#
#   acceptance [ARGUMENTS OF REFRAME]   the suite on this node, all of it inside of the image;
#                                       leaves results/report.html in the current directory
#   export DIR                          writes the suite to DIR, with its Python and a site to be
#                                       filled in: the tests then run on many nodes, with programs of
#                                       this image; nothing is fetched
#
# SITE, PROFILE and ASSAY_RESULTS as with `make acceptance`; SITE is one of the image's.
set -euo pipefail

suite=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
die() {
    echo "assay: $*" >&2
    exit 1
}
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

# The site `any` states nothing about a machine except what can be read from it.
anywhere=local
[ ! -f "$suite/site-config/any/reframe.py" ] || anywhere=any

acceptance() {
    # Scheduler, MPI and image are outside of the container. Their variables would mislead here.
    local name
    while IFS= read -r name; do
        case $name in
        SLURM_* | PMI_* | PMIX_* | PBS_* | LSB_* | PYTHONPATH | PYTHONHOME | ASSAY_IMAGE | ASSAY_PROGRAMS)
            unset "$name"
            ;;
        esac
    done < <(compgen -e)
    export SITE=${SITE:-$anywhere} ASSAY_STACK=${ASSAY_STACK:-system}
    ASSAY_RESULTS=${ASSAY_RESULTS:-results}
    [[ $ASSAY_RESULTS == /* ]] || ASSAY_RESULTS=$PWD/$ASSAY_RESULTS # of here, not of the suite
    export ASSAY_RESULTS
    [ -w "${ASSAY_RESULTS%/*}" ] || [ -w "$ASSAY_RESULTS" ] ||
        die "$ASSAY_RESULTS cannot be written: go to a directory that can, or bind one by --bind"
    exec "$suite/ci/acceptance.sh" "$@"
}

write_out() {
    [ $# -eq 1 ] || die "export needs one directory: apptainer run assay.sif export DIR"
    local target=$1 image=${APPTAINER_CONTAINER:-/path/to/assay.sif}
    if [ -e "$target" ] && [ -n "$(find "$target" -maxdepth 0 ! -empty)" ]; then
        die "$target is there and not empty: name another directory"
    fi
    mkdir -p "$target" || die "$target cannot be made: is it bound into the container (--bind)?"
    tar -C "$suite" --exclude=./.venv --exclude=./.cache --exclude=./packages.tsv \
        --exclude='*.egg-info' -cf - . | tar -C "$target" -xf -
    chmod -R u+w "$target"
    mkdir -p "$target/.cache"
    cp -R "$suite/.cache/osu-py" "$target/.cache/"
    cp -R "$suite/site-config/$anywhere" "$target/site-config/mysite"
    target=$(cd "$target" && pwd)
    "$suite/containers/kit.sh" "$target" || die "$target is not complete: remove it, and try again"
    cat <<END
assay: wrote the suite to $target
  site-config/mysite/ is a site that reads this node: say there how your nodes are reached;
  docs/adding-a-site.md is how. Then, on the login node:
    cd $target
    export ASSAY_IMAGE=$image
    make acceptance SITE=mysite
  It needs make, bash and Apptainer there, but no Python and no network.
END
}

case ${1:-help} in
acceptance) acceptance "${@:2}" ;;
export) write_out "${@:2}" ;;
help | -h | --help) usage ;;
*) die "no command '$1': acceptance, export DIR or help; a program: apptainer exec assay.sif $1" ;;
esac
