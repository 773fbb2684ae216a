#!/usr/bin/env bash
# Runs a command with its own Podman and the agents' image: `.ci/podman.sh cargo test`. For the command,
# CONTAINER_HOST and HEARTH_TEST_PODMAN name Podman's socket and HEARTH_TEST_IMAGE the image.
#
# Installs what a bare Debian machine lacks, as root. Everything else is below target/podman and stays there, so that the
# next run builds only what changed. Images are not pulled: the base is made of Debian's packages.
# Where this is impossible, the command runs without them, and the tests that need containers print that they are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
# In a mount namespace of its own where possible: what containers leave mounted goes with it.
mounts=${HEARTH_CI_MOUNTS:-shared}
if [ "$mounts" = shared ] && unshare --mount true 2>/dev/null; then
    exec env HEARTH_CI_MOUNTS=own unshare --mount --propagation slave "$PWD/.ci/podman.sh" "$@"
fi
unset HEARTH_CI_MOUNTS
place=$PWD/target/podman
socket=$place/podman.sock
image=localhost/hearth-agent:$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)

without() {
    echo "NO PODMAN: $1; tests in containers are skipped" | tee -a "${HEARTH_TEST_LEFT_OUT:-/dev/null}" >&2
    shift
    exec "$@"
}

if [ "$(uname -s)" != Linux ] || [ "$(id -u)" -ne 0 ]; then
    without "this script sets one up as root on Linux only" "$@"
fi

missing=()
for pair in podman:podman runc:runc busybox:busybox-static catatonit:catatonit slirp4netns:slirp4netns mmdebstrap:mmdebstrap; do
    command -v "${pair%%:*}" >/dev/null || [ -x "/usr/libexec/podman/${pair%%:*}" ] || missing+=("${pair##*:}")
done
if [ "${#missing[@]}" -gt 0 ]; then
    command -v apt-get >/dev/null || without "there is no apt-get to install ${missing[*]} with" "$@"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

# Podman needs a higher limit of files and processes than some machines allow; without it nothing starts.
files=$(ulimit -Hn)
[ "$files" != unlimited ] || files=1048576
processes=$(ulimit -Hu)
most=$(cat /proc/sys/kernel/pid_max)
if [ "$processes" = unlimited ] || [ "$processes" -gt "$most" ]; then processes=$most; fi
mkdir -p "$place"
cat >"$place/containers.conf" <<CONF
[containers]
default_ulimits = ["nofile=$files:$files", "nproc=$processes:$processes"]
[engine]
runtime = "runc"
exit_command_delay = 3
tmp_dir = "$place/tmp"
lock_type = "file"
CONF
cat >"$place/storage.conf" <<CONF
[storage]
driver = "overlay"
graphroot = "$place/storage"
runroot = "$place/run"
CONF
export CONTAINERS_CONF=$place/containers.conf CONTAINERS_STORAGE_CONF=$place/storage.conf

rm -f "$socket"
# From that directory, because conmon leaves a file in its working directory when memory runs out.
(cd "$place" && exec podman system service --time=0 "unix://$socket" >"$place/service.log" 2>&1) &
service=$!
finish() {
    # Includes what interrupted builds left behind.
    podman ps --all --external --quiet | xargs --no-run-if-empty podman rm --force --time 0 >/dev/null 2>&1 || true
    kill "$service" 2>/dev/null || true
    wait "$service" 2>/dev/null || true
    # The store stays mounted as long as it is in use.
    awk -v place="$place/" 'index($2, place) == 1 { print $2 }' /proc/mounts | sort --reverse |
        xargs --no-run-if-empty umount 2>/dev/null || true
}
trap finish EXIT
for _ in $(seq 100); do
    [ ! -S "$socket" ] || break
    sleep 0.1
done
if [ ! -S "$socket" ]; then
    cat "$place/service.log" >&2
    echo "Podman's service does not start" >&2
    exit 1
fi

if ! podman image exists localhost/hearth-base; then
    mmdebstrap --quiet --variant=minbase --include=ca-certificates trixie "$place/base.tar"
    podman import --quiet "$place/base.tar" localhost/hearth-base
    rm "$place/base.tar"
fi

export CONTAINER_HOST=unix://$socket
options=(--base localhost/hearth-base)
for cli in target/agent-cli/node_modules/@anthropic-ai/claude-code-linux-*; do
    if [ -x "$cli/claude" ]; then options+=(--cli "$cli"); fi
done
trust=/etc/ssl/certs/ca-certificates.crt
if [ -r "$trust" ]; then options+=(--trust "$trust"); fi
if command -v npm >/dev/null; then options+=(--registry "$(npm config get registry 2>/dev/null)"); fi
# Not optimized as a release's is, which would take a minute longer.
CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 cargo runner
# Built together with the tests: built alone, its crates would have other features and most would be compiled again.
cargo test --workspace --no-run --quiet
"${CARGO_TARGET_DIR:-target}/debug/hearth" --data "$place/no-data" image build "${options[@]}"
# Removes unnamed images of earlier builds, which would stay for ever.
podman image prune --force --filter until=24h >/dev/null

# Podman's description of itself names the packages of its programs. Debian's dpkg takes half a second to find them, several
# times for each daemon.
if [ "$mounts" = own ] && [ -e /usr/bin/dpkg ]; then mount --bind /dev/null /usr/bin/dpkg; fi

export HEARTH_TEST_PODMAN=$socket HEARTH_TEST_IMAGE=$image
"$@"
