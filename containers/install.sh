#!/bin/sh
# Inside a build: install the Debian packages given as arguments, and leave no trace of apt.
#
# If /inputs/sources.list (the builder's mirror) is not empty, apt reads it instead of the base's.
set -eu

export DEBIAN_FRONTEND=noninteractive
own=/inputs/sources.list
apt() {
    if [ -s "$own" ]; then
        apt-get -q -o "Dir::Etc::SourceList=$own" -o Dir::Etc::SourceParts=/dev/null "$@"
    else
        apt-get -q "$@"
    fi
}
apt update
apt -y -o Dpkg::Use-Pty=0 install --no-install-recommends "$@"
apt clean
rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/log/*
