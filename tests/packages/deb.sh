#!/usr/bin/env bash
# The .deb in a clean Debian: install, first chat, upgrade below a running daemon, purge that keeps the data.
#
#   tests/packages/deb.sh DIR FILE.deb BRIDGES.deb
set -euo pipefail
. "$(dirname "$0")/root.sh"
in_namespaces "$@"
mkdir -p "$1"
place=$(cd "$1" && pwd)
deb=$2
bridges=$3
root=$place/debian

# The same files as a later version.
later() {
    rm -rf "$place/later"
    dpkg-deb --raw-extract "$deb" "$place/later"
    sed -i 's/^Version: .*/Version: 99.0-1/' "$place/later/DEBIAN/control"
    dpkg-deb --build -Znone "$place/later" "$root/tmp/later.deb" >/dev/null
}

version() {
    root_runs dpkg-query -W -f '${Version}' hearth
}

clean_root "$root" ca-certificates
cp "$deb" "$root/tmp/hearth.deb"
root_runs apt-get install -y -qq /tmp/hearth.deb >"$place/apt.log" 2>&1 || failed "install: $(tail -20 "$place/apt.log")"
expect "the program runs" "hearth " "$(ann_runs hearth --version)"
for file in /usr/lib/hearth/hearth-runner /usr/lib/systemd/user/hearth.service /usr/share/man/man1/hearth.1.gz \
    /usr/share/bash-completion/completions/hearth /usr/share/doc/hearth/docs/install.md /usr/share/doc/hearth/copyright; do
    [ -s "$root$file" ] || root_runs grep -q path-exclude /etc/dpkg/dpkg.cfg.d/* 2>/dev/null || failed "$file is missing"
done
case $(file "$root/usr/lib/hearth/hearth-runner") in *"dynamically linked"*) failed "the runner needs libraries" ;; esac
expect "the runner needs no library" "prompt" "$(ann_runs /usr/lib/hearth/hearth-runner --help 2>&1 || true)"
expect "the first chat is answered" "hello from a package" "$(echo hello from a package | ann_runs hearth up 2>/dev/null)"
data=/home/ann/.local/share/hearth
[ -d "$root$data/store" ] || failed "there is no store"

# The bridges are a package of their own.
cp "$bridges" "$root/tmp/bridges.deb"
root_runs apt-get install -y -qq /tmp/bridges.deb >"$place/apt.log" 2>&1 || failed "install: $(tail -20 "$place/apt.log")"
for bridge in "hearth-mail" "hearth-matrix" "hearth-mqtt" "hearth-networks discord" "hearth-networks slack" "hearth-networks signal" "hearth-networks whatsapp"; do
    # shellcheck disable=SC2086 # two words
    expect "$bridge says that Hearth starts it" "Hearth starts this program" "$(ann_runs /usr/lib/hearth/$bridge 2>&1 || true)"
done
root_runs apt-get purge -y -qq hearth-bridges >"$place/apt.log" 2>&1 || failed "purge: $(tail -20 "$place/apt.log")"

# A daemon goes on while its program is replaced, and the new program opens what the old one wrote.
exec_ann hearth run >"$place/daemon.log" 2>&1 &
daemon=$!
serving ann_runs ||
    failed "the daemon does not start: $(cat "$place/daemon.log")"
later
before=$(version)
root_runs apt-get install -y -qq /tmp/later.deb >"$place/apt.log" 2>&1 || failed "upgrade: $(tail -20 "$place/apt.log")"
[ "$before" != "$(version)" ] || failed "the version is still $before"
expect "a running daemon outlives the upgrade" "still here" "$(ann_runs hearth chat "still here")"
kill "$daemon"
wait "$daemon" || failed "the daemon does not stop well: $(cat "$place/daemon.log")"
expect "the upgraded program opens the store" "and again" "$(echo and again | ann_runs hearth up 2>/dev/null)"
expect "the store is sound" "is sound" "$(ann_runs hearth check 2>&1)"

files=$(root_runs dpkg -L hearth | sed '/^\/\.$/d')
root_runs apt-get purge -y -qq hearth >"$place/apt.log" 2>&1 || failed "purge: $(tail -20 "$place/apt.log")"
for file in $files; do
    if [ -f "$root$file" ]; then failed "purge leaves $file"; fi
done
[ -d "$root$data/store" ] || failed "purge removed the data"
echo "ok: purge removes the programs and keeps the data"
