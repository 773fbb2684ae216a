# Clean Debian roots for tests of packages: sourced by scripts in bash that are given a directory to work in.
#
# Everything runs in mount and process namespaces of its own, so nothing stays mounted and no process outlives the test.

# Starts the script again inside of namespaces, as root on Debian.
in_namespaces() {
    if [ "${HEARTH_TEST_INSIDE:-}" != yes ]; then
        export HEARTH_TEST_INSIDE=yes
        exec unshare --mount --pid --fork --kill-child --mount-proc "$BASH" "$0" "$@"
    fi
}

# Makes a clean Debian with the given packages in directory $1.
clean_root() {
    local place=$1 include=$2
    if [ ! -s "$place.tar" ]; then
        command -v mmdebstrap >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends mmdebstrap; }
        mmdebstrap --quiet --format=tar --variant=minbase --include="$include" trixie "$place.tar.new"
        mv "$place.tar.new" "$place.tar"
    fi
    rm -rf "$place"
    mkdir -p "$place"
    tar -C "$place" -xf "$place.tar"
    mount -t proc proc "$place/proc"
    mount --rbind /sys "$place/sys"
    mount --rbind /dev "$place/dev"
    cp /etc/resolv.conf "$place/etc/resolv.conf"
    # Its disk may be lost with the machine.
    echo force-unsafe-io >"$place/etc/dpkg/dpkg.cfg.d/quick"
    chroot "$place" useradd --create-home --shell /bin/bash ann
    chroot "$place" apt-get update -qq
}

# Runs a command inside as root, and as ann.
root_runs() {
    chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"
}

ann_runs() {
    (exec_ann "$@")
}

# The same in the place of this shell, so that its process id is that of the program.
exec_ann() {
    exec chroot --userspec=ann:ann "$root" env -i HOME=/home/ann USER=ann PATH=/usr/bin:/bin LC_ALL=C.UTF-8 "$@"
}

# Whether a daemon answers soon; the arguments run a command where it is.
serving() {
    for _ in $(seq 100); do
        if "$@" hearth status --json 2>/dev/null | grep -q '"daemon": *{'; then return; fi
        sleep 0.1
    done
    return 1
}

failed() {
    echo "FAILED: $1" >&2
    exit 1
}

# expect WHAT NEEDLE HAYSTACK
expect() {
    case $3 in
        *"$2"*) echo "ok: $1" ;;
        *) failed "$1: no '$2' in: $3" ;;
    esac
}
