#!/usr/bin/env bash
# Test an image: does it match the repository, is it sound, and does it hide its mirror?
#
#   ci/image-test.sh [IMAGE]      default: build/assay.sif
#
# Checks its labels and its locks first, then its own tests and the test of each of its programs.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/image-env.sh

image=${1:-build/assay.sif}
limit=300000000 # bytes, without a Spack stack
[ -f "$image" ] || die "$image does not exist: type make image"

label() { apptainer inspect --labels "$image" | sed -n "s/^$1: //p"; }
same() { # same WHAT HAS WANTS
    [ "$2" = "$3" ] || die "$image: $1 is ${2:-missing}, the repository has $3: build it anew"
}
lock=$(sha256sum requirements/run.lock | cut -d' ' -f1)
size=$(stat -c %s "$image")
spack=$(label assay.lock.spack)
if [ -n "$spack" ]; then
    # Without -q: grep would end at the first line, and sha256sum by a signal (pipefail).
    sha256sum spack.lock site-config/*/spack/env/spack.lock | grep "^$spack " >/dev/null ||
        die "$image: label assay.lock.spack is $spack, which no lock here has: build it anew"
elif [ "$size" -ge "$limit" ]; then
    die "$image has $size bytes, more than $limit"
fi
same "label assay.lock.requirements" "$(label assay.lock.requirements)" "$lock"
inside=$(apptainer exec "$image" sha256sum /opt/assay/requirements/run.lock | cut -d' ' -f1)
same "the sha256 of requirements/run.lock" "$inside" "$lock"
oci=org.opencontainers.image
for each in {openmpi,pmix,ucx}.version $oci.{revision,version,licenses}; do
    [ -n "$(label "$each")" ] || die "$image has no label $each"
done
revision=$(label $oci.revision)
head=$(git rev-parse HEAD 2>/dev/null) || head=
[ "$revision" = "$head" ] || say "the image is of commit $revision, this is ${head:-no checkout}"

# Metadata beside the programs: the definition with its arguments, the labels, and apt's sources.
place='[a-z]+://[^[:space:]]+|/assay-image\.[^[:space:]]+'
if [[ $(apptainer inspect --deffile --labels "$image") =~ $place ]]; then
    die "$image says where it was built: ${BASH_REMATCH[0]}"
fi
sources=$(apptainer exec "$image" find /etc/apt -name '*.list' -o -name '*.sources')
[ -z "$sources" ] || die "$image says where it was built: $sources"

apptainer test "$image" >/dev/null || die "$image: its own test failed, see above"
mapfile -t apps < <(apptainer inspect --list-apps "$image")
[ -n "$spack" ] || [ ${#apps[@]} -gt 0 ] || die "$image has no apps"
for app in "${apps[@]}"; do
    apptainer test --app "$app" "$image" || die "$image: the test of $app failed, see above"
    say "$app runs"
done
[ -n "$spack" ] || say "compiled programs: $(label assay.programs)"
say "sound: $((size / 1000000)) MB, Open MPI $(label openmpi.version), PMIx" \
    "$(label pmix.version), UCX $(label ucx.version), commit ${revision:0:12}"
