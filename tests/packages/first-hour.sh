#!/usr/bin/env bash
# The first hour in a clean Debian: from the .deb to an answer on Telegram. Packages come from Debian's registry; after that
# there is no network but a loopback with stand-ins for the Bot API and for a model API. `first_hour.py` is the person.
#
#   tests/packages/first-hour.sh DIR FILE.deb CLI
#
# CLI is the program of the agent CLI, as `.ci/agent-cli.sh` fetches it. It is put in place before the clock starts, because
# which way a person gets it is a matter of npm.
set -euo pipefail
. "$(dirname "$0")/root.sh"
in_namespaces "$@"
tests=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
place=$(cd "$1" && pwd)
root=$place/debian

clean_root "$root" ca-certificates
install -m 755 "$3" "$root/usr/local/bin/claude"
cp "$2" "$root/tmp/hearth.deb"
started=$(date +%s%N)
root_runs apt-get install -y -qq /tmp/hearth.deb >"$place/apt.log" 2>&1 || failed "install: $(tail -20 "$place/apt.log")"
echo "the package is installed after $((($(date +%s%N) - started) / 1000000)) ms"
unshare --net python3 "$tests/first_hour.py" "$root" "$started"
