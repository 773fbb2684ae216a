#!/bin/sh
# Installs llama.cpp's server, at a pinned version, for the test of the provider openai with a real server: a wheel, without
# a compiler. Does nothing if it is there already.
set -eu
version=2026.10.11549
cd "$(dirname "$0")/.."
target=target/llama
if [ -d "$target/xllamacpp-$version.dist-info" ]; then
    echo "llama.cpp $version is there: $target"
    exit 0
fi
if ! python3 -m pip install --quiet --target "$target" --upgrade --no-deps "xllamacpp==$version"; then
    echo "NO LLAMA.CPP: its wheel cannot be had for this machine; the test that needs it is skipped" |
        tee -a "${HEARTH_TEST_LEFT_OUT:-/dev/null}" >&2
fi
