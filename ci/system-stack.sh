#!/usr/bin/env bash
# The programs of the system stack: name those that are missing and install them with apt, on Debian
# and its relatives. On other systems, or if the user declines, go on with what is there.
#
#   YES=1 ci/system-stack.sh        without asking (as root with CI set, it does not ask either)
#
# Ends with 1 only if there is no MPI. A call that finds everything does nothing.
# /etc/apt is never written to.
set -euo pipefail
export LC_ALL=C # apt's answers are read

cd "$(dirname "$0")/.."
PATH=${ASSAY_PROGRAMS:-$PWD/.cache/programs}/bin:$PATH # what ci/programs.py compiled

say() { echo "system-stack: $*"; }
have() { command -v "$1" >/dev/null; }

# Names of each program, and its package: "NPmpi,NPopenmpi netpipe-openmpi". A program without a
# package runs only if a site provides it.
catalogue=src/assay/catalogue.yaml
[ -r "$catalogue" ] || { say "$PWD/$catalogue cannot be read: is the checkout whole?" >&2; exit 1; }
programs=() optional=()
while read -r names package; do
    if [ -n "$package" ]; then programs+=("$names $package"); else optional+=("$names"); fi
done < <(
    # shellcheck disable=SC2016 # awk expands these
    awk '
        function entry() { if (names) print names, package; names = package = "" }
        /^[^ #]/ { entry() }
        /^  executables: / { gsub(/[][ ]|executables:/, ""); names = $0 }
        /^  debian: / { package = $2 }
        END { entry() }' "$catalogue"
)

have_any() { # have_any NAME,NAME...
    local name
    for name in ${1//,/ }; do
        have "$name" && return 0
    done
    return 1
}

reference_blas() { # is hpcc linked with the unoptimised BLAS, a tenth as fast or less?
    local blas
    blas=$(ldd "$(command -v hpcc)" 2>/dev/null | awk '/libblas\.so/ {print $3}') || true
    [ -n "$blas" ] && [[ $(readlink -f "$blas") == */blas/libblas.so* ]]
}

of_open_mpi() { ! have mpirun || [[ $(mpirun --version 2>&1) == *"(Open MPI)"* ]]; }

# A packaged program is linked with the packaged Open MPI. Another mpirun starts it as N singletons.
mpi_is_not_packaged() { have mpirun && ! { [[ $(command -v mpirun) == /usr/bin/* ]] && of_open_mpi; }; }

missing=()  # programs, as said to the reader
packages=() # what brings them
want() {    # want PACKAGE, once
    local each
    for each in "${packages[@]}"; do
        [ "$each" != "$1" ] || return 0
    done
    packages+=("$1")
}

look() { # fill missing and packages
    local entry names package
    missing=() packages=()
    for entry in "${programs[@]}"; do
        names=${entry% *} package=${entry#* }
        have_any "$names" && continue
        if [[ $package =~ ^(netpipe-openmpi|hpcc)$ ]] && mpi_is_not_packaged; then
            missing+=("${names//,/ or } for $(command -v mpirun)")
        else
            missing+=("${names//,/ or }")
            want "$package"
        fi
    done
    # Take the serial builds: with the threaded ones each rank would start a thread per core.
    if have hpcc && reference_blas; then
        missing+=("an optimised BLAS for hpcc")
        want libopenblas0-serial
    elif [[ " ${packages[*]} " == *" hpcc "* ]] &&
        ! compgen -G '/usr/lib/*/libopenblas.so.0' >/dev/null; then
        want libopenblas0-serial
    fi
    if [ ! -x .venv/bin/python ] && ! python_can_make_environments; then
        missing+=("python3 with venv")
        want python3-venv
    fi
}

python_can_make_environments() {
    local python
    python=$(ci/find-python.sh 2>/dev/null) && "$python" -c 'import ensurepip, venv' 2>/dev/null
}

sudo=()
become_root() { # may we install? says why not
    if [ "$(id -u)" = 0 ]; then
        return 0
    elif ! have sudo; then
        say "not root, and no sudo; as root: YES=1 $PWD/ci/system-stack.sh, or $by_hand"
    elif [ ! -t 0 ] && ! sudo -n true 2>/dev/null; then
        say "sudo wants a password and there is no terminal; as root:" \
            "YES=1 $PWD/ci/system-stack.sh, or $by_hand"
    else
        sudo=(sudo)
        return 0
    fi
    return 1
}

agreed() { # does the user want it?
    local answer
    if [ "${YES:-}" = 1 ] || { [ "$(id -u)" = 0 ] && [ -n "${CI:-}" ]; }; then
        return 0
    elif [ ! -t 0 ]; then
        say "no terminal to ask on; type YES=1 make setup, or as root: $by_hand"
        return 1
    fi
    read -r -p "system-stack: install them? [y/N] " answer
    [[ $answer == [yY]* ]]
}

apt() {
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
        -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" </dev/null
}

apt_knows() { [[ $(apt-cache policy "$1") == *"Candidate: "[0-9]* ]]; }

# iozone3 is in Debian's non-free and in Ubuntu's multiverse. If apt does not read them, one call of
# apt gets a temporary source list and a temporary state directory. The source list is the machine's
# own entry (mirror, suite, signing key, proxy) with another component.
own=
cleanup() { [ -z "$own" ] || "${sudo[@]}" rm -rf "$own"; }
trap cleanup EXIT
trap 'exit 130' INT TERM HUP

install_from_nonfree() { # install_from_nonfree PACKAGE
    local origin suite entry file number component
    # Origin, suite and "file:number" of the entry. The number counts lines or, in deb822, stanzas.
    # The release that this machine runs has priority over other releases that it reads.
    # shellcheck disable=SC2016 # apt-get expands these
    read -r origin suite entry < <(
        apt-get indextargets --format '$(ORIGIN) $(RELEASE) $(SOURCESENTRY) $(CODENAME)' \
            'Created-By: Packages' 'Component: main' |
            awk -v here="$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" '
                ($1 == "Debian" || $1 == "Ubuntu") && $2 !~ /-/ {
                    if (!n++ || (!same && $4 == here)) {best = $1 " " $2 " " $3; same = $4 == here}
                }
                END {print best}'
    ) || true
    case ${origin:-} in
    Debian) component=non-free ;;
    Ubuntu) component=multiverse ;;
    *)
        say "apt has no entry of Debian or Ubuntu from which to derive the one for $1"
        return 1
        ;;
    esac
    file=${entry%:*} number=${entry##*:}

    own=$(mktemp -d)
    chmod 755 "$own" # apt downloads as a user of its own
    mkdir -p "$own/parts" "$own/lists/partial"
    case $file in
    *.sources)
        awk -v wanted="$number" '
            /^[ \t]*$/ {inside = 0; next}
            /^#/ {next}
            !inside {inside = 1; stanza++}
            /^[^ \t]/ {keep = tolower($0) !~ /^(types|suites|components|architectures|enabled):/}
            stanza == wanted && keep' "$file" >"$own/parts/own.sources"
        printf '%s\n' "Types: deb" "Suites: $suite" "Components: $component" \
            "Architectures: $(dpkg --print-architecture)" >>"$own/parts/own.sources"
        ;;
    *)
        sed -n "${number}p" "$file" |
            sed -E "s/^deb[[:space:]]+((\[[^]]*\])?[[:space:]]*[^[:space:]]+)[[:space:]].*/deb \1 $suite $component/" \
                >"$own/parts/own.list"
        ;;
    esac
    local options=(-o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$own/parts"
        -o Dir::State::lists="$own/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
    say "$1 is in $component: reading it through a source list of its own, which goes away again"
    apt "${options[@]}" update &&
        apt "${options[@]}" install --no-install-recommends "$1"
}

install() { # install PACKAGE...; say what could not be
    local package known=() nonfree=() updated=
    for package in "$@"; do
        apt_knows "$package" || updated=no
    done
    if [ "$updated" = no ]; then
        say "apt-get update"
        apt update || say "apt-get update failed; going on with the lists there are"
        updated=yes
    fi
    for package in "$@"; do
        if apt_knows "$package"; then
            known+=("$package")
        elif [ "$package" = iozone3 ]; then
            nonfree+=("$package")
        else
            say "apt knows no package $package on this machine"
        fi
    done
    if [ ${#known[@]} -gt 0 ]; then
        say "apt-get install ${known[*]}"
        # The lists may be older than the mirror: update once and try once more.
        apt install --no-install-recommends "${known[@]}" ||
            { [ -z "$updated" ] && apt update && apt install --no-install-recommends "${known[@]}"; } ||
            say "apt-get failed, see above; going on with what there is"
    fi
    for package in "${nonfree[@]}"; do
        install_from_nonfree "$package" ||
            say "$package could not be installed, see above; going on without"
    done
}

join() {
    local first=$1 each
    shift
    printf '%s' "$first"
    for each in "$@"; do printf ', %s' "$each"; done
}

of_open_mpi || say "$(command -v mpirun) is not of Open MPI: tests of a path are skipped"
look
if [ ${#missing[@]} -gt 0 ]; then
    say "missing: $(join "${missing[@]}")"
    # If apt does not read non-free, a command with iozone3 would install nothing at all.
    in_main=()
    for package in "${packages[@]}"; do
        [ "$package" = iozone3 ] || in_main+=("$package")
    done
    by_hand="apt-get install --no-install-recommends ${in_main[*]}"
    [[ " ${packages[*]} " != *" iozone3 "* ]] || by_hand+=" (and iozone3 from non-free or multiverse)"
    if [ ${#packages[@]} -eq 0 ]; then
        say "what is missing must come from where that MPI came from"
    elif ! have apt-get; then
        say "no apt-get here: install them by this distribution's own means, or load your modules"
    else
        new=$(apt-get -s install --no-install-recommends "${packages[@]}" 2>/dev/null |
            grep -c '^Inst ') || new=
        say "would install: ${packages[*]}${new:+ (with what they need: $new packages)}"
        if become_root && agreed; then
            install "${packages[@]}"
            look
        fi
    fi
fi

absent=()
for program in "${optional[@]}"; do
    have "$program" || absent+=("$program")
done
if ! have mpirun; then
    say "no MPI: mpirun is not on PATH; install openmpi-bin or load your MPI module" >&2
    exit 1
fi
if [ ${#missing[@]} -eq 0 ]; then
    say "complete"
else
    say "going on without: $(join "${missing[@]}")"
fi
[ ${#absent[@]} -eq 0 ] || say "optional, not here: $(join "${absent[@]}")"
