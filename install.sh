#!/bin/sh
# Installs Hearth: `hearth`, `hearth-dump`, and the static runner for agents' images.
#
#   ./install.sh [--bridges] [--prefix DIR]      the newest release of the repository that this source is from, or from
#                                                source where there is none for this machine
#   ./install.sh --from URL|DIR …                a release from there
#   ./install.sh --from-source …                 built here, with cargo
#
# --bridges also installs the bridges to mail, Matrix, Discord, Slack, Signal and WhatsApp in DIR/lib/hearth.
#
# A release is installed below ~/.local unless --prefix is given. What is built here goes where `cargo install` puts
# programs: CARGO_INSTALL_ROOT, CARGO_HOME or ~/.cargo. Programs are in DIR/bin, the runner is in DIR/lib/hearth.
#
# A release is installed only if a key of packaging/release-keys signed the sums of its files. That file comes with this
# source, not with the release: sums from the server that has the files would prove nothing.
set -eu
cd "$(dirname "$0")"
keys=packaging/release-keys

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

usage() {
    echo "usage: ./install.sh [--from URL|DIR | --from-source] [--bridges] [--prefix DIR]" >&2
    exit 2
}

prefix=
from=
from_source=
bridges=
while [ $# -gt 0 ]; do
    case $1 in
        --from-source) from_source=yes ;;
        --bridges) bridges=yes ;;
        --from | --prefix)
            [ -n "${2:-}" ] || usage
            if [ "$1" = --from ]; then from=$2; else prefix=$2; fi
            shift
            ;;
        *) usage ;;
    esac
    shift
done
[ -z "$from_source" ] || [ -z "$from" ] || usage

# Says where the programs are, and whether a shell would start others.
installed() {
    echo "installed in $1: bin/hearth, bin/hearth-dump, lib/hearth/hearth-runner${bridges:+, and bridges in lib/hearth}"
    found=$(command -v hearth || true)
    if [ -z "$found" ]; then
        echo "$1/bin is not in PATH: add it, or run $1/bin/hearth"
    elif [ "$found" != "$1/bin/hearth" ]; then
        echo "\`hearth\` is $found in this shell: remove that one, or put $1/bin before it in PATH"
    fi
    echo "next: hearth up"
}

# Puts a file in place as a new one, because the old one may be in use.
place() {
    mkdir -p "$(dirname "$2")"
    cp "$1" "$2.new"
    chmod "$3" "$2.new"
    mv "$2.new" "$2"
}

install_from_source() {
    command -v cargo >/dev/null || fail "cargo not found: install Rust from https://rustup.rs, then run this again"
    command -v cc >/dev/null || fail "cc not found: install a C compiler, on Debian with \`apt install build-essential\`"
    root=${prefix:-${CARGO_INSTALL_ROOT:-${CARGO_HOME:-$HOME/.cargo}}}
    cargo runner --locked
    cargo install --locked --path . --root "$root"
    host=$(rustc -vV | sed -n 's/^host: //p')
    target=$(cargo metadata --locked --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
    place "$target/$host/release/hearth-runner" "$root/lib/hearth/hearth-runner" 755
    if [ -n "$bridges" ]; then
        cargo build --locked --release -p hearth-mail -p hearth-networks
        cargo build --locked --release --manifest-path tools/matrix/Cargo.toml --target-dir "$target"
        for program in hearth-mail hearth-matrix hearth-mqtt hearth-networks; do
            place "$target/release/$program" "$root/lib/hearth/$program" 755
        done
    fi
    installed "$root"
}

# Where this source is from, if that place has releases.
origin() {
    git remote get-url origin 2>/dev/null |
        sed -n 's,^\(https://\|git@\|ssh://git@\)github\.com[:/]\([^/]*/[^/]*\)$,https://github.com/\2,p' |
        sed 's,\.git$,,; s,$,/releases/latest/download,'
}

# Fetches the file $1 of the release into $scratch.
fetch() {
    case $from in
        https://*)
            if command -v curl >/dev/null; then
                curl -fsSL --proto '=https' --retry 3 -o "$scratch/$1" "$from/$1"
            elif command -v wget >/dev/null; then
                wget -q -O "$scratch/$1" "$from/$1"
            else
                echo "neither curl nor wget was found" >&2
                return 1
            fi
            ;;
        *) cp "$from/$1" "$scratch/$1" ;;
    esac
}

# Fetches the package $1 of a verified release, unpacks it in $scratch, and sets `archive` to its file name.
unpack() {
    archive=$(sed -n "s/^[0-9a-f]\{64\}  \($1-[0-9][^/ ]*-$(uname -m)-unknown-linux-[a-z]*\.tar\.gz\)\$/\1/p" "$scratch/SHA256SUMS" | head -1)
    [ -n "$archive" ] || fail "the release at $from has no $1 for $(uname -m)"
    fetch "$archive" || fail "$archive could not be fetched from $from"
    (cd "$scratch" && grep "  $archive\$" SHA256SUMS | sha256sum --check --status) ||
        fail "$archive is not the file that was signed: its sum differs. Nothing was installed. Do not use it"
    tar -xzf "$scratch/$archive" -C "$scratch" --no-same-owner || fail "$archive cannot be unpacked"
}

# Fetches the programs of a release into $tree. Sets `reason` and returns 1 if there is none that could be verified. Ends the
# script if one is not what was signed.
find_release() {
    reason=
    [ "$(uname -s)" = Linux ] || reason="there are releases for Linux only"
    [ -n "$from" ] || from=$(origin)
    [ -n "$reason" ] || [ -n "$from" ] || reason="this source is not a clone of a repository with releases"
    [ -n "$reason" ] || [ -f "$keys" ] || reason="$keys is missing, so no download can be verified: this source has no release key"
    [ -n "$reason" ] || command -v ssh-keygen >/dev/null || reason="ssh-keygen not found, which verifies the signature: apt install openssh-client"
    [ -z "$reason" ] || return 1
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    fetch SHA256SUMS && fetch SHA256SUMS.sig || { reason="there is no signed release at $from"; return 1; }
    ssh-keygen -Y verify -f "$keys" -I release -n hearth-release -s "$scratch/SHA256SUMS.sig" <"$scratch/SHA256SUMS" >/dev/null 2>&1 ||
        fail "SHA256SUMS of $from is not signed by a key of $keys. Nothing was installed. Do not use these files"
    unpack hearth
    tree=$scratch/${archive%.tar.gz}
    # What cannot run here must not take the place of what can.
    "$tree/bin/hearth" --version || fail "$archive is verified, but its program does not run on this machine. Nothing was installed"
}

install_release() {
    root=${prefix:-$HOME/.local}
    if [ -n "$bridges" ]; then
        unpack hearth-bridges
        for program in "$scratch/${archive%.tar.gz}"/lib/hearth/*; do
            place "$program" "$root/lib/hearth/$(basename "$program")" 755
        done
    fi
    (cd "$tree" && find . -type f ! -path './bin/*' ! -path './lib/hearth/*') | while IFS= read -r file; do
        place "$tree/$file" "$root/$file" 644
    done
    for program in bin/hearth bin/hearth-dump lib/hearth/hearth-runner; do
        place "$tree/$program" "$root/$program" 755
    done
    installed "$root"
}

if [ -n "$from_source" ]; then
    install_from_source
elif [ -n "$from" ]; then
    find_release || fail "$reason"
    install_release
elif find_release; then
    install_release
else
    echo "no release is installed: $reason; building from source instead" >&2
    install_from_source
fi
