#!/usr/bin/env bash
# Upgrade and rollback below load: a daemon of an older version is killed while messages arrive, the new one goes on, and
# then the older one again. No answer may be missing or doubled.
#
#   tests/upgrade.sh DIR BIN [COMMIT]
#
# BIN is the directory of the new programs, COMMIT the older version: by default the last one before `hearth setup`. Once
# there are releases, the last tag. It is built in DIR; where it cannot be had, this says so and does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "$1"
place=$(realpath "$1")
new=$(realpath "$2")
old_commit=${3:-$(git describe --tags --abbrev=0 2>/dev/null || echo 6f026daed2585b746c489f90a543f90bac1fa785)}
messages=400

left_out() {
    echo "NOT RUN: upgrade from an older version: $1" | tee -a "${HEARTH_TEST_LEFT_OUT:-/dev/null}" >&2
    exit 0
}

failed() {
    echo "FAILED: $1" >&2
    tail -n 20 "$place"/*.log >&2
    exit 1
}

git cat-file -e "$old_commit^{commit}" 2>/dev/null || left_out "this clone has no commit $old_commit"
rm -rf "$place/source" "$place/data" "$place"/*.log
mkdir "$place/source"
git archive "$old_commit" | tar -C "$place/source" -xf -
cargo build --quiet --manifest-path "$place/source/Cargo.toml" --target-dir "$place/target" -p hearth -p agent-runner ||
    left_out "commit $old_commit cannot be built here"
old=$place/target/debug

export HEARTH_DATA=$place/data
daemon=
trap '[ -z "$daemon" ] || kill -9 "$daemon" 2>/dev/null' EXIT

# Starts a daemon of the programs in $1, and waits until it serves.
starts() {
    "$1/hearth" run --runtime process >>"$place/$2.log" 2>&1 &
    daemon=$!
    for _ in $(seq 300); do
        "$1/hearth" status --json 2>/dev/null | grep -q '"daemon": *{' && return
        sleep 0.1
    done
    failed "the $2 daemon does not start"
}

# The input of `inject`: messages $1 to $2.
events() {
    for id in $(seq "$1" "$2"); do
        printf '{"channelType":"net","platformId":"1","message":{"id":"%s","kind":"chat","content":{"text":"no %s.","senderId":"9"}}}\n' "$id" "$id"
    done
}

# The numbers in the answers, sorted; one answer may be to several messages. A channel that is not configured keeps them.
# Answers of a turn that was repeated are abandoned and never sent.
answers() {
    "$new/hearth-dump" --table outbound --bodies --json "$HEARTH_DATA" | grep -v '"Abandoned"' |
        grep -o '"in_reply_to":[0-9]*,"text":"[^"]*"' | grep -o 'no [0-9]*\.' | grep -o '[0-9]*' | sort -n
}

"$old/hearth" apply - >/dev/null <<'TOML'
schema = 1
[[agents]]
folder = "main"
provider = "echo"
[[chats]]
channel = "net"
platform_id = "1"
unknown_senders = "public"
[[chats.wirings]]
agent = "main"
engage = "pattern"
pattern = "."
TOML
starts "$old" old
events 1 "$messages" | "$old/hearth" inject >"$place/inject.log" 2>&1 &
load=$!
sleep 1
"$new/hearth" doctor --before-upgrade --json >"$place/before.json" || failed "doctor --before-upgrade: $(cat "$place/before.json")"
grep -q '"check": *"migrations"' "$place/before.json" || failed "doctor does not list migrations: $(cat "$place/before.json")"
kill -9 "$daemon"
wait "$daemon" 2>/dev/null || true
wait "$load" || true

starts "$new" new
# What the old daemon had stored already is known by its id.
events 1 "$messages" | "$new/hearth" inject >"$place/again.log" 2>&1 || failed "the new program refuses messages"
for _ in $(seq 600); do
    [ "$(answers | wc -l)" -ge "$messages" ] && break
    sleep 0.2
done
sleep 1
[ "$(answers)" = "$(seq "$messages")" ] || failed "of $messages messages $(answers | uniq | wc -l) were answered, with $(answers | wc -l) answers"
kill "$daemon"
wait "$daemon" || failed "the new daemon does not stop well"
"$new/hearth" check >/dev/null || failed "the store is not sound after the upgrade"

if "$old/hearth" check >"$place/back.log" 2>&1; then
    way="on the same store"
else
    backup=$(ls "$HEARTH_DATA/backups" | grep before-format | tail -1)
    [ -n "$backup" ] || failed "the old program refuses the store, and there is no backup of its format: $(cat "$place/back.log")"
    "$old/hearth" restore "$backup" --replace >>"$place/back.log" 2>&1 || failed "the old program cannot restore $backup"
    way="with the backup of the upgrade"
fi
starts "$old" old
[ "$(echo back again | "$old/hearth" chat 2>/dev/null | grep -c 'echo: back again')" = 1 ] || failed "the old daemon does not answer"
kill "$daemon"
wait "$daemon" || failed "the old daemon does not stop well"
daemon=
echo "ok: $messages messages over an upgrade from ${old_commit:0:8} with kill -9, each answered once; back $way"
