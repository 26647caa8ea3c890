#!/usr/bin/env bash
# Write a pipeline of GitLab with one job per package that the build cache does not have: spack ci.
#
#   SITE=debian12 ci/gitlab/spack-generate.sh FOLDER      FOLDER/pipeline.yml, below the checkout
#
# ASSAY_SPACK_BUILDCACHE: the build cache, a URL or a folder that all runners see; it is not signed,
# so who can write to it decides what `make spack` installs (default: $ASSAY_SPACK_HOME/buildcache).
# ASSAY_TAGS: of the runners, as JSON. ci/spack-env.sh lists what else is read.
set -euo pipefail
cd "$(dirname "$0")/../.."
. ci/spack-env.sh
[ $# = 1 ] || die "one folder, below the checkout"
spack_site
[ -f "$SITE_ENV/spack.lock" ] || die "$SITE_ENV/spack.lock does not exist: make lock SITE=$SITE"
.venv/bin/assay lock check --site "$SITE" || die "the lock does not hold; see above"
spack_find
cache=${ASSAY_SPACK_BUILDCACHE:-$ASSAY_SPACK_HOME/buildcache}
[[ $cache == *://* ]] || {
    mkdir -p "$cache"
    cache=file://$cache
}

scope=$(mktemp -d)
trap 'rm -rf "$scope"' EXIT
cat >"$scope/ci.yaml" <<END
ci:
  pipeline-gen:
  - any-job:
      tags: ${ASSAY_TAGS:-[assay]}
      before_script:
      - . ci/gitlab/spack-shell.sh
END
cat >"$scope/mirrors.yaml" <<END
mirrors:
  buildcache-destination: {url: "$cache", source: false, binary: true, signed: false}
END

rm -rf "$1"
mkdir -p "$1"
folder=$(cd "$1" && pwd)
spack --color never ${SPACK_SCOPE:+-C "$SPACK_SCOPE"} -C "$scope" -e "$SITE_ENV" ci generate \
    --output-file "$folder/pipeline.yml" --artifacts-root "$folder"
# What Spack copies for the jobs is the environment without the scope above.
cat "$scope"/*.yaml | sed 's/^/  /' >>"$folder/concrete_environment/spack.yaml"
cmp -s "$SITE_ENV/spack.lock" "$folder/concrete_environment/spack.lock" ||
    die "spack ci generate solved anew: its lock is not $SITE_ENV/spack.lock"
say "$folder/pipeline.yml"
