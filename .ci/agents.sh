#!/bin/sh
# Installs the known agents of the provider `acp` into target/agents, at the versions that container/presets pins, and a
# Node that runs all of them. `tests/it/conformance` tries them there. Does nothing for what is there already.
set -eu
cd "$(dirname "$0")/.."
dir=$PWD/target/agents
node=$(sed -n 's/^ *pub const NODE: &'"'"'static str = "\(.*\)";/\1/p' container/presets/src/lib.rs)
mkdir -p "$dir/bin"

# Installs a package of npm into a directory of its own, and links its programs.
npm_package() {
    place=$dir/$(echo "$1" | tr '@/' '__')
    if [ ! -f "$place/done-$2" ]; then
        rm -rf "$place"
        npm install --prefix "$place" --no-save --no-audit --no-fund "$1@$2"
        touch "$place/done-$2"
    fi
    for program in "$place"/node_modules/.bin/*; do
        ln -sfn "$program" "$dir/bin/$(basename "$program")"
    done
}

npm_package node "$node"
PATH=$dir/bin:$PATH
sed -n 's/.*Package::Npm { name: "\([^"]*\)", version: "\([^"]*\)".*/\1 \2/p' container/presets/src/table.rs |
    while read -r name version; do npm_package "$name" "$version"; done
sed -n 's/.*Package::Pypi { name: "\([^"]*\)", version: "\([^"]*\)".*/\1 \2/p' container/presets/src/table.rs |
    while read -r name version; do
        place=$dir/python-$version
        if [ ! -f "$place/done" ]; then
            rm -rf "$place"
            if ! python3 -m venv "$place" || ! "$place/bin/pip" install --quiet "$name==$version"; then
                echo "NOT INSTALLED: $name" | tee -a "${HEARTH_TEST_LEFT_OUT:-/dev/null}" >&2
                continue
            fi
            touch "$place/done"
        fi
        ln -sfn "$place/bin/${name%%-*}" "$dir/bin/${name%%-*}"
    done
ls "$dir/bin"
