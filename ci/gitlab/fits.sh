#!/usr/bin/env bash
# Does GitLab take what a job leaves? Ends with 1, and says by how much it is too large, if not.
#
#   ci/gitlab/fits.sh artefact FOLDER     GitLab counts the compressed archive
#   ci/gitlab/fits.sh pages FOLDER        GitLab counts the files as they are
#
# ASSAY_ARTIFACT_MB and ASSAY_PAGES_MB: the limits of this GitLab in MiB (100, which is its default).
set -euo pipefail

die() {
    echo "fits: $*" >&2
    exit 1
}
[ $# = 2 ] || die "artefact or pages, and a folder"
case $1 in
artefact)
    limit=${ASSAY_ARTIFACT_MB:-100} key=ASSAY_ARTIFACT_MB setting="Maximum artifacts size"
    # GitLab's archive is a zip, which compresses each file alone.
    size=$(cd "$2" && find . -path ./scratch -prune -o -type f -exec gzip -c {} + | wc -c)
    ;;
pages)
    limit=${ASSAY_PAGES_MB:-100} key=ASSAY_PAGES_MB setting="Maximum size of pages"
    size=$(find "$2" -type f -printf '%s\n' | awk '{ sum += $1 } END { printf "%d", sum }')
    ;;
*) die "artefact or pages, not '$1'" ;;
esac
[[ $limit =~ ^[0-9]+$ ]] || die "$key=$limit is no number of MiB"
tenths() { echo "$(($1 * 10 / 1048576 / 10)).$(($1 * 10 / 1048576 % 10))"; }
[ "$size" -gt $((limit * 1048576)) ] || exit 0
die "$2 has $(tenths "$size") MiB, $(tenths $((size - limit * 1048576))) MiB above the limit of" \
    "$limit MiB: raise '$setting' in the settings of GitLab, and $key to the same number"
