#!/usr/bin/env bash
# Make the base and the runtime of containers/cuda.def for site debian12-cuda, without a GPU.
#
#   ci/image-base.sh DIR     writes DIR/base.tar and DIR/runtime.tar, as `docker save` writes them
#
# The base is Debian 12 with the packages that the site's packages.yaml names, and with the CUDA
# toolkit of ci/cuda-prefix.py. The runtime has only what the programs need at the run: the packages
# of the line `run time:` there, and the libraries of CUDA. Both come from the archive that apt reads.
# Needs mmdebstrap, and .venv, whose pip fetches the toolkit.
set -euo pipefail
cd "$(dirname "$0")/.."

name=$(basename "$0" .sh)
die() {
    echo "$name: $*" >&2
    exit 1
}
say() { echo "$name: $*"; }

[ $# = 1 ] || die "usage: ci/image-base.sh DIR"
command -v mmdebstrap >/dev/null || die "no mmdebstrap here: apt-get install mmdebstrap"
[ -x .venv/bin/python ] || die "no .venv, whose pip fetches the CUDA toolkit: type make venv"
own=site-config/debian12-cuda/spack/packages.yaml
tools=site-config/common/spack-debian12/packages.yaml
toolkit=$(sed -n 's#^ *prefix: \(/.*/cuda-[0-9.]*\)$#\1#p' "$own")

listed() { # listed PATTERN FILE...: packages of the comment that begins with PATTERN
    # The comment goes on while its lines end with a backslash.
    sed -n "/^# *$1/,/[^\\\\]\$/{s/^# *\($1\)\?//; s/\\\\\$//; p}" "${@:2}" |
        tr -s ' \n' ',' | sed 's/^,//; s/,$//'
}
install='apt-get install --no-install-recommends'
all=$(listed "$install" "$tools" "$own")
few=$(listed 'run time:' "$own")
if [ -z "$toolkit" ] || [ -z "$all" ] || [ -z "$few" ]; then
    die "$own names no toolkit, no line '$install', or no line 'run time:'"
fi

mkdir -p "$1" || die "$1 cannot be made"
dir=$(cd "$1" && pwd)
work=$(mktemp -d "$dir/.new.XXXXXX")
trap 'rm -rf "$work"' EXIT
ci/debian-archive.sh bookworm >"$work/sources.list" || die "no archive to make a base from"
.venv/bin/python ci/cuda-prefix.py "$work/${toolkit##*/}" || die "no CUDA toolkit, see above"

archive() { # archive NAME PACKAGES FILES-OF-THE-TOOLKIT: a root file system, then DIR/NAME.tar
    say "making $1.tar"
    local into=$work/$1
    mkdir "$into"
    # The hook runs in a shell that knows the new root as $1.
    mmdebstrap --quiet --variant=minbase --skip=output/dev --include="$2" \
        --customize-hook="mkdir -p \"\$1${toolkit%/*}\" && tar -C '$work' -cf - $3 |
            tar --no-same-owner -C \"\$1${toolkit%/*}\" -xf -" \
        bookworm "$into/layer.tar" "$work/sources.list" || die "no $1; the lines above say why"
    cat >"$into/config.json" <<END
{"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers",
 "diff_ids": ["sha256:$(sha256sum "$into/layer.tar" | cut -d' ' -f1)"]}}
END
    echo '[{"Config": "config.json", "RepoTags": null, "Layers": ["layer.tar"]}]' \
        >"$into/manifest.json"
    tar -C "$into" -cf "$dir/$1.tar.new" manifest.json config.json layer.tar
    rm -r "$into"
    mv "$dir/$1.tar.new" "$dir/$1.tar" # whole or not at all
}
below=${toolkit##*/}
archive base "$all" "$below"
archive runtime "$few" "--exclude=stubs --exclude=*.a $below/lib64"
say "wrote $dir/base.tar and $dir/runtime.tar; now:"
echo "  make image IMAGE=build/cuda.sif IMAGE_DEF=containers/cuda.def" \
    "IMAGE_BASE=docker-archive://$dir/base.tar" \
    "IMAGE_ARGS='--build-arg site=debian12-cuda --build-arg views=gpu" \
    "--build-arg runtime=$dir/runtime.tar'"
