#!/bin/sh
# Installs axe-core, with which the tests look for obstacles in the console's pages, at a pinned version. Does nothing if it
# is there already.
set -eu
version=4.14.1
cd "$(dirname "$0")/.."
prefix=target/axe
manifest=$prefix/node_modules/axe-core/package.json
if [ -f "$manifest" ] && grep -q "\"version\": *\"$version\"" "$manifest"; then
    echo "axe-core $version is there: $prefix"
    exit 0
fi
npm install --prefix "$prefix" --no-save --no-audit --no-fund "axe-core@$version"
