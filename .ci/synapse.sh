#!/bin/sh
# Installs Synapse, a server of Matrix, at a pinned version, for the tests of `hearth-matrix`: wheels, without a compiler. Does
# nothing if it is there already.
set -eu
version=1.163.2
cd "$(dirname "$0")/.."
target=target/synapse
if [ -d "$(echo "$target"/lib/python3*/site-packages/matrix_synapse-"$version".dist-info)" ]; then
    echo "Synapse $version is there: $target"
    exit 0
fi
install() {
    # Its own pip would be a package more.
    python3 -m venv --without-pip "$target" &&
        python3 -m pip --python "$target/bin/python3" install --quiet --only-binary :all: "matrix-synapse==$version"
}
if ! install; then
    echo "NO SYNAPSE: its wheels cannot be had for this machine; the tests that need it are skipped" |
        tee -a "${HEARTH_TEST_LEFT_OUT:-/dev/null}" >&2
fi
