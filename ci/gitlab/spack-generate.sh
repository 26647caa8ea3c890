#!/usr/bin/env bash
# Write a GitLab pipeline with one job for each package that the build cache lacks: spack ci.
#
#   SITE=debian12 ASSAY_SPACK_BUILDCACHE=DIR ci/gitlab/spack-generate.sh FOLDER [TAGS]
#
# Writes FOLDER/pipeline.yml, below the checkout. TAGS: of the runners, as JSON ([assay]).
# ci/spack-env.sh lists the other variables that it reads.
set -euo pipefail
cd "$(dirname "$0")/../.."
. ci/spack-env.sh
[ $# = 1 ] || [ $# = 2 ] || die "one folder, below the checkout, and the tags of the runners"
spack_site
[ -f "$SITE_ENV/spack.lock" ] || die "$SITE_ENV/spack.lock does not exist: make lock SITE=$SITE"
.venv/bin/python ci/spack-check.py --site "$SITE" || die "the lock does not hold; see above"
[ -n "${ASSAY_SPACK_BUILDCACHE:-}" ] && [ -z "${ASSAY_SPACK_KIT:-}" ] ||
    die "ASSAY_SPACK_BUILDCACHE says where the jobs put what they build, and takes no kit beside it"
spack_find

cat >"$SPACK_SCOPE/ci.yaml" <<END
ci:
  pipeline-gen:
  - any-job:
      tags: ${2:-[assay]}
      before_script:
      - . $(realpath --relative-to="${CI_PROJECT_DIR:-$PWD}" .)/ci/gitlab/spack-shell.sh
END
rm -rf "$1"
mkdir -p "$1"
folder=$(cd "$1" && pwd)
the_spack ci generate --output-file "$folder/pipeline.yml" --artifacts-root "$folder"
# Spack copies the environment for the jobs, but without the scopes that it was given.
copy=$folder/concrete_environment
sed -i "s#^  include:\$#&\n  - $(realpath --relative-to="$copy" "$OWN_SCOPE")#" "$copy/spack.yaml"
cat "$SPACK_SCOPE"/*.yaml | sed 's/^/  /' >>"$copy/spack.yaml"
cmp -s "$SITE_ENV/spack.lock" "$copy/spack.lock" ||
    die "spack ci generate solved anew: its lock is not $SITE_ENV/spack.lock"
say "$folder/pipeline.yml"
