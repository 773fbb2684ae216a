#!/usr/bin/env bash
# install.sh with releases that are signed by a key of the test, by another one, by none, and changed afterwards.
#
#   tests/packages/install.sh DIR ARCHIVE.tar.gz BRIDGES.tar.gz
set -euo pipefail
. "$(dirname "$0")/root.sh"
cd "$(dirname "$0")/../.."
rm -rf "$1"
mkdir -p "$1"
place=$(cd "$1" && pwd)
archive=$(realpath "$2")
name=$(basename "$archive")
bridges=$(realpath "$3")

# A source as it is fetched, with the release of the test and its key.
source=$place/source
mkdir -p "$source/packaging" "$place/release"
cp install.sh "$source/"
cp "$archive" "$place/release/"
for key in ours other; do ssh-keygen -q -t ed25519 -N '' -C "$key" -f "$place/$key"; done

sign() {
    (cd "$place/release" && rm -f SHA256SUMS* && sha256sum -- * >"$place/sums" && mv "$place/sums" SHA256SUMS)
    [ "$1" = nobody ] || ssh-keygen -q -Y sign -f "$place/$1" -n "${2:-hearth-release}" "$place/release/SHA256SUMS" 2>/dev/null
}

attempt() {
    # Without cargo, so that falling back to it would be seen.
    env -i HOME="$place/home" PATH=/usr/bin:/bin "$source/install.sh" "$@" 2>&1
}

refused() {
    local what=$1 words=$2 said
    shift 2
    if said=$(attempt "$@"); then failed "$what: installed"; fi
    expect "$what" "$words" "$said"
    [ ! -e "$place/home/.local/bin/hearth" ] || failed "$what: something was installed"
}

sign ours
refused "a source without a key verifies nothing" "packaging/release-keys is missing" --from "$place/release"
refused "and builds from source, for which there is no cargo here" "cargo not found"
echo "release namespaces=\"hearth-release\" $(cat "$place/ours.pub")" >"$source/packaging/release-keys"
sign nobody
refused "a release without a signature" "there is no signed release" --from "$place/release"
sign other
refused "a signature by another key" "is not signed by a key of" --from "$place/release"
sign ours something-else
refused "a signature for something else" "is not signed by a key of" --from "$place/release"
sign ours
echo "0" >>"$place/release/SHA256SUMS"
refused "sums that were changed" "is not signed by a key of" --from "$place/release"
sign ours
printf 'x' >>"$place/release/$name"
refused "an archive that was changed" "its sum differs" --from "$place/release"
cp "$archive" "$place/release/"
mv "$place/release/$name" "$place/release/hearth-0.1.0-vax-unknown-linux-musl.tar.gz"
sign ours
refused "a release without this processor" "has no hearth for" --from "$place/release"
rm "$place/release/"*.gz
cp "$archive" "$place/release/"
sign ours
expect "a signed release is installed" "next: hearth up" "$(attempt --from "$place/release")"
for run in again "--prefix $place/elsewhere"; do
    # shellcheck disable=SC2086 # two words
    [ "$run" = again ] && attempt --from "$place/release" >/dev/null || attempt --from "$place/release" $run >/dev/null
done
for prefix in "$place/home/.local" "$place/elsewhere"; do
    [ -x "$prefix/lib/hearth/hearth-runner" ] && [ -s "$prefix/share/man/man1/hearth.1" ] || failed "files are missing in $prefix"
    expect "it runs from $(basename "$prefix")" hello "$(echo hello | env -i HOME="$place/home" "$prefix/bin/hearth" up 2>/dev/null)"
done
[ ! -e "$place/home/.local/lib/hearth/hearth-mail" ] && [ ! -e "$place/home/.local/lib/hearth/hearth-mqtt" ] || failed "bridges are installed that were not asked for"
refused_with_bridges() {
    if said=$(attempt --from "$place/release" --bridges --prefix "$place/bridges"); then failed "$1: installed"; fi
    expect "$1" "$2" "$said"
    [ ! -e "$place/bridges" ] || failed "$1: something was installed"
}
refused_with_bridges "a release without bridges" "has no hearth-bridges for"
cp "$bridges" "$place/release/"
sign ours
printf 'x' >>"$place/release/$(basename "$bridges")"
refused_with_bridges "bridges that were changed" "its sum differs"
cp "$bridges" "$place/release/"
expect "bridges are installed with a release" "and bridges" "$(attempt --from "$place/release" --bridges --prefix "$place/bridges")"
for program in hearth-mail hearth-matrix hearth-networks hearth-mqtt; do
    [ -x "$place/bridges/lib/hearth/$program" ] || failed "$program is missing"
done
