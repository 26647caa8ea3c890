#!/usr/bin/env bash
# Pack what `make spack SITE=<site>` needs on a machine without network: Spack and its recipes,
# the wheels of its solver, the sources, and the build cache of what is installed here.
#
#   SITE=debian12 ci/spack-offline-kit.sh     writes .cache/spack/kit/<site>/ and <site>.tar
#
# On that machine, in a checkout of this repository, with the kit unpacked:
#   make spack SITE=<site> ASSAY_SPACK_KIT=/path/to/<site> [SPACK_ARGS=--cache-only]
# Every file of the kit is verified against SHA256SUMS before it is used.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/spack-env.sh

spack_site
[ -f "$SITE_ENV/spack.lock" ] || die "$SITE_ENV/spack.lock does not exist: make lock SITE=$SITE"
spack_find
kit=$ASSAY_SPACK_HOME/kit/$SITE
rm -rf "$kit"
mkdir -p "$kit/wheels"

for what in spack packages; do
    from=$SPACK_ROOT
    [ "$what" = spack ] || from=$ASSAY_SPACK_PACKAGES
    say "packing $what"
    git init -q --bare "$kit/$what.git"
    git -c safe.directory='*' -C "$kit/$what.git" fetch -q --depth 1 "file://$from" \
        "$(pin "$what" commit):refs/heads/pinned"
    git -C "$kit/$what.git" symbolic-ref HEAD refs/heads/pinned
done

say "packing wheels of the solver"
"$SPACK_PYTHON" -m pip download --quiet --disable-pip-version-check --require-hashes \
    --only-binary :all: --dest "$kit/wheels" -r ci/spack-python.txt ||
    die "pip could not fetch ci/spack-python.txt; the lines above say why"

log=$ASSAY_SPACK_HOME/kit-$SITE.log
say "packing sources (log: $log)"
sources=yes
the_spack mirror create -d "$kit/sources" --all >"$log" 2>&1 || sources=
say "$(sed -n 's/^ *\([0-9]* *\(already present\|added\|failed to fetch\.*\)\).*/\1/p' "$log" |
    tr -s ' \n' ' ')"

say "packing the build cache"
binaries=yes
mkdir -p "$kit/binaries"
scope=$kit/scope.$$
mkdir -p "$scope"
printf 'mirrors::\n  kit: {url: "file://%s/binaries", binary: true, source: false, signed: false}\n' \
    "$kit" >"$scope/mirrors.yaml"
SPACK_SCOPE=$scope the_spack buildcache push --unsigned --update-index \
    --without-build-dependencies kit >>"$log" 2>&1 || binaries=
rm -rf "$scope"

if [ -z "$sources$binaries" ]; then
    grep -E '^==> (Error|Warning)|^ +[^ ]+@' "$log" | tail -n 20 >&2 || true
    die "neither all sources nor all binaries could be packed; see $log"
fi
[ -n "$sources" ] || say "not all sources could be fetched (see $log): use --cache-only there"
[ -n "$binaries" ] || say "not all is installed here (see $log): there it will be built"

(cd "$kit" && find . -type f -print0 | sort -z | xargs -0 sha256sum) >"$kit.sums"
mv "$kit.sums" "$kit/SHA256SUMS"
tar -C "$ASSAY_SPACK_HOME/kit" -cf "$kit.tar" "$SITE"
say "wrote $kit.tar ($(du -h "$kit.tar" | cut -f1)), sha256 $(sha256sum "$kit.tar" | cut -d' ' -f1)"
