#!/usr/bin/env bash
# `.ci/release sums` as the release workflow calls it: without a key, without its public half, with another one, and with both.
#
#   tests/packages/sums.sh DIR
set -euo pipefail
. "$(dirname "$0")/root.sh"
cd "$(dirname "$0")/../.."
rm -rf "$1"
mkdir -p "$1"
place=$(cd "$1" && pwd)
source=$place/source
mkdir -p "$source"/{.ci,packaging,target/dist}
cp .ci/release "$source/.ci/"
cp Cargo.toml "$source/"
echo "a program" >"$source/target/dist/program"
for key in ours other; do ssh-keygen -q -t ed25519 -N '' -C "$key" -f "$place/$key"; done

sums() {
    HEARTH_RELEASE_KEY=$1 SOURCE_DATE_EPOCH=0 "$source/.ci/release" sums 2>&1
}

# The workflow publishes nothing after a command that fails.
refused() {
    local what=$1 words=$2 said
    if said=$(sums "$3"); then failed "$what: signed"; fi
    expect "$what" "$words" "$said"
}

published() {
    echo "release namespaces=\"hearth-release\" $(cat "$place/$1.pub")" >"$source/packaging/release-keys"
}

: >"$place/empty" # what the workflow writes if it has no key
refused "no release without a key" "no release without its key" ""
refused "nor with an empty one" "no release without its key" "$place/empty"
refused "no release without its public key" "no release without its public key" "$place/ours"
published other
refused "no release that install.sh would not accept" "Could not verify signature" "$place/ours"
published ours
expect "a release is signed and verified" "$(sha256sum <"$source/target/dist/program" | cut -d ' ' -f 1)  program" "$(sums "$place/ours")"
[ -s "$source/target/dist/SHA256SUMS.sig" ] || failed "there is no signature"
