#!/usr/bin/env bash
# Build an image from a definition and the last commit, as an unprivileged user.
#
#   ci/image.sh [IMAGE]      default: build/assay.sif
#
#   IMAGE_DEF        the definition (containers/debian.def)
#   IMAGE_BASE       a Debian 12 to build on, such as docker://debian@sha256:...; by default it is
#                    made from the archive that this machine's apt reads (Debian only, not cuda.def)
#   IMAGE_MIRROR     another archive of Debian to read
#   IMAGE_PACKAGES   further packages, such as iozone3
#   IMAGE_ARGS       further arguments of apptainer build
#   IMAGE_KIT        an unpacked offline kit (ci/spack-offline-kit.sh), for containers/cuda.def
#   IMAGE_PYTHON     the Python of the base, if it is not Debian 12: 3.12 (3.11)
#   ASSAY_SOURCES    where the sources of programs come from, as for `make programs`
#   IMAGE_CA         the certificate of an authority that the build must trust to fetch; a PEM file
#
# The image does not name its origin: no host name of a mirror, and no path of this machine. An
# exception is the base that IMAGE_BASE names.
# Needs .venv, whose pip fetches the wheels. Packages: uidmap, squashfs-tools, mmdebstrap.
set -euo pipefail
cd "$(dirname "$0")/.."
ci/apptainer.sh >/dev/null # builds it where it is missing
. ci/image-env.sh

image=${1:-build/assay.sif}
definition=${IMAGE_DEF:-containers/debian.def}
[ -f "$definition" ] ||
    die "IMAGE_DEF=$definition does not exist; there are: $(echo containers/*.def)"
[ -n "${IMAGE_BASE:-}" ] || grep -q 'base\.tar' "$definition" ||
    die "IMAGE_BASE= is not set, and $definition needs a base; ci/image-base.sh makes one"
release=bookworm python=${IMAGE_PYTHON:-3.11} # of the base, in both definitions
[[ $python =~ ^3\.[0-9]+$ ]] || die "IMAGE_PYTHON=$python is no version such as 3.12"
if [ -n "${IMAGE_CA:-}" ]; then
    grep -qs "BEGIN CERTIFICATE" "$IMAGE_CA" || die "IMAGE_CA=$IMAGE_CA holds no certificate in PEM"
fi
git rev-parse -q --verify HEAD >/dev/null ||
    die "the image holds a commit, and this is no checkout of git"
[ -x .venv/bin/python ] || die "no .venv, whose pip fetches the wheels: type make venv"
[ -z "$(git status --porcelain -- . ':!tests' ':!lab/tests')" ] || say "changes that are not committed stay out"

mkdir -p "$(dirname "$image")"
work=$(mktemp -d "${TMPDIR:-/var/tmp}/assay-image.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/inputs" "$work/tmp"

if grep -q '/inputs/sources/' "$definition"; then
    say "packing the sources of programs"
    .venv/bin/python ci/programs.py --pack "$work/inputs/sources" || {
        [ -e "$work/inputs/sources/programs.ini" ] || die "no sources; the line above says why"
        say "the image lacks the programs that were left out"
    }
fi

say "fetching wheels of requirements/run.lock"
platforms=()
for platform in manylinux2014 manylinux_2_{17,26,27,28}; do
    platforms+=(--platform "${platform}_$(uname -m)")
done
.venv/bin/python -m pip download --no-deps --quiet --disable-pip-version-check --require-hashes \
    --only-binary :all: --implementation cp --python-version "$python" "${platforms[@]}" \
    --dest "$work/inputs/wheels" -r requirements/run.lock ||
    die "pip could not fetch the wheels; the lines above say why"
[ -d .cache/osu-py ] || ci/fetch-osu-py.sh

git archive --output "$work/inputs/assay.tar" HEAD -- . ':!tests' ':!lab/tests' ':!.ci'
tar -rf "$work/inputs/assay.tar" .cache/osu-py
cp containers/install.sh "$work/inputs/"
echo "$python" >"$work/inputs/python"
cat ${IMAGE_CA:+"$IMAGE_CA"} >"$work/inputs/ca.crt" </dev/null
[ -z "${IMAGE_KIT:-}" ] || cp -R "$IMAGE_KIT" "$work/inputs/kit"
if [ -n "${IMAGE_MIRROR:-}" ]; then
    echo "deb $IMAGE_MIRROR $release main non-free" >"$work/inputs/sources.list"
elif [ -z "${IMAGE_BASE:-}" ]; then
    ci/debian-archive.sh "$release" >"$work/inputs/sources.list" ||
        die "nothing to make a base from: IMAGE_MIRROR= names an archive, IMAGE_BASE= a base"
else
    : >"$work/inputs/sources.list" # the base's own
fi

# The Apptainer of the cache may be in a place that only its owner can read.
own=$(dirname "$(dirname "$(realpath "$APPTAINER")")")
if [[ $own == "$(realpath -m .cache/apptainer)"/* ]]; then
    cp -a "$own" "$work/apptainer"
    APPTAINER=$work/apptainer/bin/apptainer
fi
as_user() { ci/image-user.sh "$work" env TMPDIR="$work/tmp" "$@"; }

if [ -n "${IMAGE_BASE:-}" ]; then
    base=(--build-arg "bootstrap=${IMAGE_BASE%%://*}" --build-arg "base=${IMAGE_BASE#*://}")
else
    base=(--build-arg bootstrap=scratch --build-arg base=scratch)
    WHO=image ci/packages.sh mmdebstrap
    say "making the base"
    # Leave out device nodes: an ordinary user cannot unpack them.
    as_user mmdebstrap --quiet --mode=unshare --variant=minbase --skip=output/dev \
        "$release" base.tar inputs/sources.list || die "no base; the lines above say why"
fi

say "building (log: $image.log)"
cp "$definition" "$work/image.def"
# shellcheck disable=SC2086 # IMAGE_ARGS are words
as_user "$APPTAINER" build --fakeroot "${base[@]}" \
    --mksquashfs-args "-comp zstd -Xcompression-level 9" \
    ${IMAGE_PACKAGES:+--build-arg "packages=$IMAGE_PACKAGES"} ${IMAGE_ARGS:-} \
    image.sif image.def >"$image.log" 2>&1 || {
    tail -n 15 "$image.log" >&2
    die "no image; $image.log has all of it"
}
cp "$work/image.sif" "$image.new"
rm -f "$image.sha256"
mv "$image.new" "$image" # whole or not at all
ci/image-sign.sh digest "$image"
say "wrote $image: $(($(stat -c %s "$image") / 1000000)) MB," \
    "sha256 $(sha256sum "$image" | cut -d' ' -f1), after $SECONDS s"
