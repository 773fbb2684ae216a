#!/usr/bin/env bash
# Runs the Podman tests without root, and those of agents' networks: as the user hearth-test, with its own Podman and a
# small image, if root can create them. Otherwise prints what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

without() {
    echo "NO ROOTLESS PODMAN: $1; these tests are skipped" | tee -a "${HEARTH_TEST_LEFT_OUT:-/dev/null}" >&2
    exit 0
}

[ "$(uname -s)" = Linux ] || without "this is not Linux"
[ "$(id -u)" -eq 0 ] || without "only root can make the user that they need"
[ "$(cat /proc/sys/user/max_user_namespaces 2>/dev/null || echo 0)" -gt 0 ] || without "there are no user namespaces"
[ "$(cat /proc/sys/kernel/unprivileged_userns_clone 2>/dev/null || echo 1)" != 0 ] ||
    without "kernel.unprivileged_userns_clone is 0"

cargo runner
# Of the workspace, as it has been built: for one package, all crates would be built once more with other features.
binary=$(cargo test --workspace --test it --no-run --message-format=json |
    sed -n 's/.*"executable":"\([^"]*\/it-[^"]*\)".*/\1/p' | tail -1)
place=$PWD/target/podman-rootless
rm -rf "$place"
mkdir -p "$place"
# Another user needs access to the tests and their working directory.
below=$place
while [ "$below" != / ]; do
    [ $((0$(stat -c %a "$below") & 1)) -ne 0 ] || without "$below is closed to others"
    below=$(dirname "$below")
done
# The others are about agents with rules for their networks, as processes of the same user.
tests/podman.sh --rootless "$place" -- "$binary" abuse::rootless egress:: bound_secrets:: gateway:: new_agents:: \
    --skip containers:: --nocapture --test-threads=1
