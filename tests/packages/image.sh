#!/usr/bin/env bash
# The image of the host under the Podman that CONTAINER_HOST names: a chat, the self-test, an upgrade with the same volume,
# and the options of the compose file and the Quadlet unit. Run by `tests/podman.sh`.
#
#   tests/packages/image.sh DIR
set -euo pipefail
. "$(dirname "$0")/root.sh"
cd "$(dirname "$0")/../.."
mkdir -p "$1"
place=$(cd "$1" && pwd)
image=localhost/hearth:$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
# As in the compose file and the unit.
confined=(--cap-drop ALL --security-opt no-new-privileges --security-opt unmask=ALL --read-only --tmpfs /tmp --tmpfs /run --memory 4g --pids-limit 2048)

if ! podman image exists localhost/hearth-base; then
    [ -s "$place/base.tar" ] || mmdebstrap --quiet --variant=minbase --include=ca-certificates trixie "$place/base.tar"
    podman import --quiet "$place/base.tar" localhost/hearth-base >/dev/null
fi
HEARTH_HOST_BASE=localhost/hearth-base .ci/release image

inside() {
    podman exec hearth hearth "$@"
}

start() {
    podman run --quiet --detach --name hearth --volume hearth:/var/lib/hearth "${confined[@]}" "$image" >/dev/null
    serving podman exec hearth || failed "the daemon does not start: $(podman logs hearth 2>&1 | tail)"
}

start
[ "$(podman exec hearth id -u)" = 1000 ] || failed "the daemon is root"
podman exec hearth sh -c '! command -v claude' >/dev/null || failed "there is an agent CLI in the image"
expect "a chat is answered" "in a container" "$(podman exec -i hearth hearth up <<<'in a container' 2>/dev/null)"
expect "agents are confined processes" "process" "$(inside status)"
# An installation whose only agent repeats what people write fails a check.
inside agents set main --provider command --command true >/dev/null
inside doctor --self-test >"$place/self-test" 2>&1 || { cat "$place/self-test"; failed "the self-test"; }
cat "$place/self-test"
podman rm --force --time 80 hearth >/dev/null
start
expect "the volume keeps the store" "in a container" "$(inside why latest)"
started=$SECONDS
podman stop --time 80 hearth >/dev/null
[ $((SECONDS - started)) -lt 30 ] || failed "stopping took $((SECONDS - started)) s"
expect "it stops with success" 0 "$(podman inspect --format '{{.State.ExitCode}}' hearth)"
podman rm --force hearth >/dev/null
