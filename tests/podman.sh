#!/bin/sh
# Runs a command beside a Podman of its own: private store, private service, CONTAINER_HOST pointing at it.
#
#   tests/podman.sh [--rootless] DIR -- COMMAND…
#
# DIR is made, and must not be one that holds anything else. As root the service is rootful, otherwise rootless. With
# --rootless root becomes the user hearth-test, who is made if needed and must be able to read what COMMAND is.
# HEARTH_TEST_PODMAN (the socket), HEARTH_TEST_IMAGE (a small image, made here, no download) and HEARTH_TEST_SERVICE
# (a script: `stop`, `start`) are exported, too.
set -eu

rootless=
if [ "${1:-}" = --rootless ]; then
    rootless=yes
    shift
fi
[ $# -ge 3 ] && [ "$2" = -- ] || { echo "usage: $0 [--rootless] DIR -- COMMAND…" >&2; exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)
shift 2

install_missing() {
    missing=
    for program in podman runc catatonit busybox curl slirp4netns newuidmap; do
        command -v "$program" >/dev/null || missing=yes
    done
    [ -n "$missing" ] || return 0
    [ "$(id -u)" = 0 ] || { echo "$0: podman, runc, catatonit, busybox, curl, slirp4netns or uidmap is missing" >&2; exit 1; }
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        podman runc catatonit busybox-static curl slirp4netns uidmap
}

# Podman asks for more than a machine may allow, and cannot raise what it was given.
at_most() {
    if [ "$1" = unlimited ] || [ "$1" -gt "$2" ]; then echo "$2"; else echo "$1"; fi
}

configure() {
    files=$(at_most "$(ulimit -Hn)" 1048576)
    # Not every shell knows the limit of processes.
    processes=$(at_most "$(awk '/^Max processes/ {print $4}' /proc/self/limits)" "$(cat /proc/sys/kernel/pid_max)")
    cat >"$dir/containers.conf" <<END
[containers]
default_ulimits = ["nofile=$files:$files", "nproc=$processes:$processes"]
[engine]
runtime = "runc"
exit_command_delay = 3
tmp_dir = "$dir/tmp"
lock_type = "file"
END
    cat >"$dir/storage.conf" <<END
[storage]
driver = "overlay"
graphroot = "$dir/store"
runroot = "$dir/run"
END
    export CONTAINERS_CONF="$dir/containers.conf" CONTAINERS_STORAGE_CONF="$dir/storage.conf"
}

make_image() {
    export HEARTH_TEST_IMAGE=localhost/hearth-test:latest
    podman image exists "$HEARTH_TEST_IMAGE" && return 0
    root="$dir/image/root"
    mkdir -p "$root/bin" "$root/etc" "$root/home/node" "$root/workspace" "$root/usr/local/bin" "$root/tmp" "$root/run"
    chmod 1777 "$root/tmp"
    busybox=$(command -v busybox)
    cp "$busybox" "$root/bin/busybox"
    for applet in $("$busybox" --list); do
        [ "$applet" = busybox ] || ln -sf busybox "$root/bin/$applet"
    done
    # A shell that can open connections, with the libraries it needs: busybox cannot when it is linked statically.
    bash=$(command -v bash)
    cp "$bash" "$root/bin/bash"
    ldd "$bash" | awk '$1 ~ /^\// {print $1} $3 ~ /^\// {print $3}' | while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
    done
    # What stands in for the runner takes its secrets and becomes a script that the test puts into the agent's folder.
    cat >"$root/usr/local/bin/hearth-runner" <<'END'
#!/bin/bash
if [ -n "$HEARTH_SECRETS" ]; then
    while IFS= read -r -d '' variable; do export "$variable"; done <"$HEARTH_SECRETS"
    unset HEARTH_SECRETS
fi
exec sh /workspace/group/runner.sh
END
    chmod 755 "$root/usr/local/bin/hearth-runner"
    echo 'node:x:1000:1000::/home/node:/bin/sh' >"$root/etc/passwd"
    echo 'node:x:1000:' >"$root/etc/group"
    printf 'FROM scratch\nCOPY root/ /\nENV PATH=/usr/local/bin:/bin\nENTRYPOINT [\"/bin/false\"]\nCMD [\"wrong\"]\n' >"$dir/image/Containerfile"
    podman build -q -t "$HEARTH_TEST_IMAGE" "$dir/image" >/dev/null
    # The same without the program that it is to run.
    printf 'FROM %s\nRUN rm /usr/local/bin/hearth-runner\n' "$HEARTH_TEST_IMAGE" >"$dir/image/Broken"
    podman build -q --network=none -t localhost/hearth-test:broken -f "$dir/image/Broken" "$dir/image" >/dev/null
    # Runners that know nothing of secrets: one of an older version, and one that goes on.
    printf '#!/bin/sh\n[ -n "$HEARTH_INCARNATION" ] || { echo "HEARTH_INCARNATION is not set" >&2; exit 2; }\nexec sleep 1000\n' >"$dir/image/old"
    printf '#!/bin/sh\nexec sleep 1000\n' >"$dir/image/deaf"
    for runner in old deaf; do
        chmod 755 "$dir/image/$runner"
        printf 'FROM %s\nCOPY %s /usr/local/bin/hearth-runner\n' "$HEARTH_TEST_IMAGE" "$runner" >"$dir/image/Other"
        podman build -q --network=none -t "localhost/hearth-test:$runner" -f "$dir/image/Other" "$dir/image" >/dev/null
    done
}

write_service() {
    export HEARTH_TEST_PODMAN="$dir/podman.sock" HEARTH_TEST_SERVICE="$dir/service" CONTAINER_HOST="unix://$dir/podman.sock"
    cat >"$HEARTH_TEST_SERVICE" <<END
#!/bin/sh
case "\$1" in
start)
    # With the variable it would be a client.
    unset CONTAINER_HOST
    # What watches a container leaves a file where it runs when memory ends.
    cd "$dir"
    podman system service --time=0 "unix://$dir/podman.sock" >>"$dir/service.log" 2>&1 &
    echo \$! >"$dir/service.pid"
    for _ in \$(seq 200); do
        curl -sf --max-time 5 --unix-socket "$dir/podman.sock" http://podman/_ping >/dev/null 2>&1 && exit 0
        sleep 0.05
    done
    echo 'the service of Podman does not start:' >&2
    cat "$dir/service.log" >&2
    exit 1 ;;
stop)
    kill -9 "\$(cat "$dir/service.pid")" 2>/dev/null
    rm -f "$dir/podman.sock" ;;
esac
END
    chmod 755 "$HEARTH_TEST_SERVICE"
}

clean_up() {
    [ -z "${command:-}" ] || kill "$command" 2>/dev/null || true
    "$HEARTH_TEST_SERVICE" stop || true
    env -u CONTAINER_HOST podman rm -fa -t 0 >/dev/null 2>&1 || true
    # What cleans up after a container starts seconds after its end, and mounts the store again. It may do so at any moment
    # until it has ended.
    for _ in $(seq 300); do
        if ! pgrep -f -- "--root $dir/store" >/dev/null; then
            while umount "$dir/store/overlay" 2>/dev/null; do :; done
            remove && return
        fi
        sleep 0.1
    done
    echo "$0: $dir cannot be removed" >&2
}

# What a user's containers wrote belongs to ids that only a user namespace of its own may remove.
remove() {
    if [ "$(id -u)" = 0 ]; then rm -rf "$dir" 2>/dev/null; else podman unshare rm -rf "$dir" 2>/dev/null || true; fi
}

# In a mount namespace of its own, where a user may use the device of virtual networks.
become_user() {
    user=hearth-test
    id "$user" >/dev/null 2>&1 || useradd -m "$user"
    cp "$0" "$dir/podman.sh"
    mkdir -p "$dir/user" "$dir/xdg"
    mknod -m 666 "$dir/tun" c 10 200 2>/dev/null || true
    chmod 700 "$dir/xdg"
    chown "$user:" "$dir" "$dir/user" "$dir/xdg"
    export HEARTH_TEST_USER="$user" HOME="$dir/user" XDG_RUNTIME_DIR="$dir/xdg"
    status=0
    unshare -m sh -c 'mount --bind "$0/tun" /dev/net/tun; cd "$0"; exec setpriv --reuid="$HEARTH_TEST_USER" \
        --regid="$HEARTH_TEST_USER" --init-groups --inh-caps=-all "$0/podman.sh" "$0/user/test" -- "$@"' "$dir" "$@" || status=$?
    rm -rf "$dir"
    exit "$status"
}

install_missing
[ -z "$rootless" ] || [ "$(id -u)" != 0 ] || become_user "$@"
configure
write_service
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
unset CONTAINER_HOST
make_image
"$HEARTH_TEST_SERVICE" start
export CONTAINER_HOST="unix://$dir/podman.sock"
# In the background, so that a signal is not kept waiting for its end.
"$@" &
command=$!
status=0
wait "$command" || status=$?
command=
exit "$status"
