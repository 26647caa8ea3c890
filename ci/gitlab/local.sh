#!/usr/bin/env bash
# Run the pipeline on this machine, without a GitLab.
#
#   ci/gitlab/local.sh [arguments of gitlab-ci-local]
#
# Fetches gitlab-ci-local and its Node.js by npm into .cache, as package-lock.json pins them. Needs
# npm and rsync; Node.js 24, too, if the machine is not x86_64. Jobs run in this checkout, one after
# the other. Evidence is in .gitlab-ci-local/builds.
# gitlab-ci-local shows a failed child pipeline as PASS. The job `verdict` shows the failure. But
# gitlab-ci-local ends with 0, because it takes `allow_failure: {exit_codes: 4}` for every exit
# code. This script ends with 1 then.
set -euo pipefail
cd "$(dirname "$0")/../.."
tool=.cache/gitlab-ci-local
for program in node npm rsync; do
    command -v "$program" >/dev/null || {
        echo "local: no $program: install the package of that name" >&2
        exit 1
    }
done
# Two pipelines in one checkout overwrite each other's results, and measure at the same time.
mkdir -p .cache
exec 9>>.cache/gitlab-local.lock
flock -n 9 || {
    echo "local: another pipeline runs in $PWD: wait for its end, or use another checkout" >&2
    exit 1
}
if ! cmp -s ci/gitlab/package-lock.json "$tool/done"; then
    mkdir -p "$tool"
    cp ci/gitlab/package.json ci/gitlab/package-lock.json "$tool/"
    (cd "$tool" && npm ci --no-audit --no-fund >npm.log 2>&1) || {
        tail -n 5 "$tool/npm.log" >&2
        echo "local: npm could not install gitlab-ci-local, see $tool/npm.log" >&2
        exit 1
    }
    cp ci/gitlab/package-lock.json "$tool/done"
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export PATH="$PWD/$tool/node_modules/.bin:$PATH"
gitlab-ci-local --force-shell-executor --concurrency 1 --no-color \
    --variable "CI_BUILDS_DIR=$PWD/.gitlab-ci-local/builds" "$@" | tee "$log"
! grep -Eq '^ FAIL +verdict' "$log"
