#!/bin/sh
# Inside a build: install the Debian packages given as arguments, and leave no trace of apt.
#
# If /inputs/sources.list (the builder's mirror) is not empty, apt reads it instead of the base's.
# If /inputs/ca.crt is not empty, apt trusts that authority.
set -eu

export DEBIAN_FRONTEND=noninteractive
own=/inputs/sources.list authority=/inputs/ca.crt
apt() {
    [ ! -s "$authority" ] || set -- -o "Acquire::https::CAInfo=$authority" "$@"
    [ ! -s "$own" ] || set -- -o "Dir::Etc::SourceList=$own" -o Dir::Etc::SourceParts=/dev/null "$@"
    apt-get -q "$@"
}
apt update
apt -y -o Dpkg::Use-Pty=0 install --no-install-recommends "$@"
apt clean
rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/log/*
