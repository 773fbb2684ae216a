//! What an agent can do inside its container.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use super::*;
use crate::model::entity::{Access, Limits};
use crate::model::mount::Mount;

const OUT: &str = "exec > /workspace/session/agent/out 2>&1\n";

fn world(script: &str) -> Option<World> {
    World::new(&format!("{OUT}{script}"))
}

#[test]
fn it_is_nobody_special_and_cannot_become_anybody() {
    let Some(world) =
        world("id -u; id -g; grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; cat /proc/1/cmdline")
    else {
        return;
    };
    let (exit, text) = world.run(|_| {});
    assert_eq!(exit, Exit::Code(0), "{text}");
    assert!(text.starts_with("1000\n1000\n"), "{text}");
    for line in
        ["CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1"]
    {
        assert!(text.contains(line), "{text}");
    }
    assert!(text.contains("Seccomp:\t2") && text.contains("podman-init"), "{text}");
}

/// A profile is only needed when a container is created. A missing one is written again.
#[test]
fn it_makes_no_user_namespace() {
    let Some(world) = world("unshare -U true; unshare -U -m true; sh -c 'echo a child works'") else { return };
    if let Some(why) = super::super::probe(&lookup()).unwrap().unfiltered {
        eprintln!("SKIPPED: {why}");
        return;
    }
    for incarnation in 1..=2 {
        world.ensure(ONE, incarnation);
        assert_eq!(world.heard.gone(ONE, incarnation).0, Exit::Code(0));
        let text = std::fs::read_to_string(world.path("session/agent/out")).unwrap();
        assert_eq!(text.matches("Operation not permitted").count(), 2, "{text}");
        assert!(text.contains("a child works"), "{text}");
        std::fs::remove_file(world.path("seccomp.json")).unwrap();
        std::fs::remove_file(world.path("session/agent/out")).unwrap();
    }
}

/// Makes system calls that no shell makes, and prints the kernel's result of each.
const CALLS: &str = r#"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static void say(const char *what, long got) { printf("%s %s\n", what, got < 0 ? strerrorname_np(errno) : "done"); }
#define SAY(what, ...) say(what, syscall(__VA_ARGS__))
int main(void) {
    SAY("keyctl", SYS_keyctl, 0, -3, 0);
    SAY("add_key", SYS_add_key, 0, 0, 0);
    SAY("request_key", SYS_request_key, 0, 0, 0);
    SAY("vsock", SYS_socket, 40, 1, 0);
    SAY("alg", SYS_socket, 38, 5, 0);
    SAY("vsock-wide", SYS_socket, 0x100000028L, 1, 0);
    SAY("alg-wide", SYS_socket, 0x100000026L, 5, 0);
    SAY("unspecified", SYS_socket, 0, 1, 0);
    SAY("audit", SYS_socket, 16, 3, 9);
    SAY("unix", SYS_socket, 1, 1, 0);
    SAY("ipv4", SYS_socket, 2, 1, 0);
    SAY("ipv6", SYS_socket, 10, 2, 0);
    SAY("netlink", SYS_socket, 16, 3, 0);
#ifdef __x86_64__
    /* The same by the numbers that 32-bit programs use, where one call has what it is given in memory. */
    fflush(stdout);
    unsigned *given = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    given[0] = 40, given[1] = 1, given[2] = 0;
    long got;
    __asm__ volatile("int $0x80" : "=a"(got) : "a"(102L), "b"(1L), "c"(given) : "memory", "r8", "r9", "r10", "r11");
    printf("old numbers are answered: %ld\n", got);
#endif
    return 0;
}
"#;

/// Keyrings belong to the user and not to the container, and sockets of some families lead out of it.
#[test]
fn it_reaches_no_keyring_and_no_odd_socket() {
    let Some(world) = world("/workspace/group/calls") else { return };
    if let Some(why) = super::super::probe(&lookup()).unwrap().unfiltered {
        eprintln!("SKIPPED: {why}");
        return;
    }
    let (source, program) = (world.path("calls.c"), world.path("groups/main/calls"));
    std::fs::write(&source, CALLS).unwrap();
    let made = Command::new("cc").args(["-static", "-D_GNU_SOURCE", "-o"]).args([&program, &source]).status();
    if !made.is_ok_and(|made| made.success()) {
        eprintln!("SKIPPED: no cc that links statically");
        return;
    }
    let (exit, text) = world.run(|_| {});
    let wanted = "keyctl EPERM\nadd_key EPERM\nrequest_key EPERM\nvsock EAFNOSUPPORT\nalg EAFNOSUPPORT\n\
        vsock-wide EAFNOSUPPORT\nalg-wide EAFNOSUPPORT\nunspecified EAFNOSUPPORT\naudit EINVAL\n\
        unix done\nipv4 done\nipv6 done\nnetlink done\n";
    // A process that makes system calls by another architecture's numbers is killed.
    let ended = if cfg!(target_arch = "x86_64") { Exit::Signal(31) } else { Exit::Code(0) };
    assert!(text.starts_with(wanted) && !text.contains("old numbers"), "{text}");
    assert_eq!(exit, ended, "{text}");
}

/// Files from the other half of a mailbox are data, whatever their mode.
#[test]
fn it_runs_nothing_out_of_its_mailbox() {
    let script = "cd /workspace/session/agent; cp /bin/busybox true; cp /bin/busybox /tmp/true; cp /bin/busybox /workspace/group/true
        for at in /workspace/session/agent /workspace/session/host /tmp /workspace/group; do
            if $at/true; then echo \"$at runs\"; else echo \"$at refuses\"; fi
        done 2>/dev/null";
    let Some(world) = world(script) else { return };
    let program = world.path("session/host/true");
    std::fs::write(&program, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (exit, text) = world.run(|_| {});
    let wanted =
        "/workspace/session/agent refuses\n/workspace/session/host refuses\n/tmp runs\n/workspace/group runs\n";
    assert_eq!((exit, text.as_str()), (Exit::Code(0), wanted));
}

#[test]
fn what_podman_says_of_it() {
    let Some(world) = World::new("sleep 1000") else { return };
    let mut spec = world.spec(ONE, 1);
    spec.settings.limits = Limits { memory: Some(64 << 20), cpu: Some(500), pids: Some(33) };
    world.runtime.ensure(spec);
    world.heard.running(ONE, 1);
    let host = |field: &str| world.inspect(ONE, &format!("{{{{.HostConfig.{field}}}}}"));
    assert_eq!(host("ReadonlyRootfs"), "true");
    assert_eq!(host("Privileged"), "false");
    assert_eq!(host("NetworkMode"), "none");
    // Podman 4.3 calls every IPC namespace shareable, but refuses to join one that is private.
    let view = format!("--ipc=container:{}", world.name(ONE));
    let join = ["--remote", "run", "--rm", "--network=none", "--entrypoint=true", &view];
    let joined = Command::new("podman").args(join).arg(image()).output().unwrap();
    assert!(String::from_utf8_lossy(&joined.stderr).contains("non-shareable IPC"), "{joined:?}");
    assert!(host("SecurityOpt").contains("no-new-privileges"), "{}", host("SecurityOpt"));
    assert_eq!(world.inspect(ONE, "{{.EffectiveCaps}} {{.BoundingCaps}}"), "[] []");
    assert_eq!(world.inspect(ONE, "{{.Config.User}}"), "1000:1000");
    assert_eq!(world.inspect(ONE, "{{index .Config.Labels \"hearth.spec\"}}"), SpecDigest::new(7).to_string());
    assert_eq!(world.inspect(ONE, "{{index .Config.Labels \"hearth.session\"}}"), "se1");
    if super::super::probe(&lookup()).unwrap().unlimited.is_empty() {
        assert_eq!(host("Memory"), (64 << 20).to_string());
        // Where the kernel accounts for swap, there is no swap beyond the memory limit.
        assert!(["0", "67108864"].contains(&host("MemorySwap").as_str()), "{}", host("MemorySwap"));
        assert_eq!(host("PidsLimit"), "33");
        assert_eq!((host("CpuQuota"), host("CpuPeriod")), ("50000".to_owned(), "100000".to_owned()));
    } else {
        eprintln!("SKIPPED: Podman cannot limit containers here");
    }
}

#[test]
fn defaults_limit_memory_and_processes() {
    let Some(world) = World::new("sleep 1000") else { return };
    world.ensure(ONE, 1);
    world.heard.running(ONE, 1);
    if super::super::probe(&lookup()).unwrap().unlimited.is_empty() {
        let seen = world.inspect(ONE, "{{.HostConfig.Memory}} {{.HostConfig.PidsLimit}} {{.HostConfig.CpuQuota}}");
        assert_eq!(seen, format!("{} 512 0", 2_u64 << 30));
    }
}

#[test]
fn it_writes_where_it_may_and_nowhere_else() {
    let script = "for at in /tmp /run /home/node /home/node/.claude /workspace/group /workspace/session/agent /workspace/extra/rw \
        / /etc /workspace /workspace/session /workspace/session/host /workspace/extra/ro; do
            if touch $at/probe 2>/dev/null; then echo \"$at yes\"; else echo \"$at no\"; fi
        done; cat /workspace/session/host/hello /workspace/extra/ro/hello; mount | grep ' /workspace/\\| /home'";
    let Some(world) = world(script) else { return };
    for part in ["ro", "rw"] {
        std::fs::create_dir(world.path(part)).unwrap();
    }
    std::fs::write(world.path("ro/hello"), "from extra\n").unwrap();
    std::fs::write(world.path("session/host/hello"), "from host\n").unwrap();
    // The allow-list decides on mounts, not their ownership.
    std::fs::set_permissions(world.path("rw"), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let mount = |part: &str, access| Mount {
        source: world.path(part).canonicalize().unwrap(),
        target: PathBuf::from("/workspace/extra").join(part),
        access,
    };
    let mounts = vec![mount("ro", Access::ReadOnly), mount("rw", Access::ReadWrite)];
    let (exit, text) = world.run(|spec| spec.mounts = mounts);
    assert_eq!(exit, Exit::Code(0), "{text}");
    let writable = [
        "/tmp",
        "/run",
        "/home/node",
        "/home/node/.claude",
        "/workspace/group",
        "/workspace/session/agent",
        "/workspace/extra/rw",
    ];
    for line in text.lines().filter(|line| line.ends_with(" yes") || line.ends_with(" no")) {
        let (at, may) = line.rsplit_once(' ').unwrap();
        assert_eq!(may == "yes", writable.contains(&at), "{text}");
    }
    assert_eq!(text.matches(" yes\n").count(), writable.len(), "{text}");
    assert!(text.contains("from host\nfrom extra\n"), "{text}");
    for line in text.lines().filter(|line| line.contains(" on ")) {
        assert!(line.contains("nosuid,nodev"), "{line}");
    }
    assert!(exists(&world.path("home/main/.claude/probe")) && exists(&world.path("groups/main/probe")));
}

#[test]
fn an_agent_that_is_not_trusted_cannot_change_its_folder() {
    let Some(world) = world("touch /workspace/group/probe; id -u") else { return };
    let (_, text) = world.run(|spec| spec.settings.trust = Trust::Untrusted);
    assert!(text.contains("Read-only file system") && !exists(&world.path("groups/main/probe")), "{text}");
}

#[test]
fn its_environment_is_what_was_configured() {
    let Some(world) = world("pwd; env | sort; tr '\\0' ' ' < /proc/1/cmdline") else { return };
    let plain = ("HOME".to_owned(), EnvValue::Plain("/elsewhere".to_owned()));
    let (_, text) = world.run(|spec| spec.settings.env = vec![reference("KEY", "env:TOKEN"), plain]);
    assert!(text.starts_with("/workspace/group\n"), "{text}");
    for line in [
        "HEARTH_INCARNATION=1",
        "HOME=/home/node",
        "KEY=token-of-the-daemon",
        "LANG=C.UTF-8",
        "NANOCLAW_SESSION_NAME=maintenance",
        "TZ=Europe/Vienna",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert!(!text.contains("CARGO") && !text.contains("CONTAINER_HOST") && !text.contains("HEARTH_ROOTS"), "{text}");
    assert_eq!(text.matches("token-of-the-daemon").count(), 1, "{text}");
}

/// Files that root has in directories that agents write are given to the agents; links are not followed.
#[test]
fn only_what_is_ours_is_given_away() {
    let Some(world) = world("cat /workspace/group/notes/old; echo more >> /workspace/group/notes/old && echo changed")
    else {
        return;
    };
    if rustix::process::geteuid().as_raw() != 0 {
        eprintln!("SKIPPED: only root has anything to give away");
        return;
    }
    let group = world.path("groups/main");
    std::fs::create_dir(group.join("notes")).unwrap();
    std::fs::write(group.join("notes/old"), "old\n").unwrap();
    std::fs::write(world.path("mine"), "").unwrap();
    std::fs::write(group.join("strange"), "").unwrap();
    std::os::unix::fs::chown(group.join("strange"), Some(4321), Some(4321)).unwrap();
    std::fs::hard_link(world.path("mine"), group.join("hard")).unwrap();
    std::os::unix::fs::symlink(world.path("mine"), group.join("soft")).unwrap();
    std::os::unix::fs::symlink(world.directory.path(), group.join("up")).unwrap();
    let (exit, text) = world.run(|_| {});
    assert_eq!((exit, text.as_str()), (Exit::Code(0), "old\nchanged\n"));
    let owner = |path: &Path| std::os::unix::fs::MetadataExt::uid(&std::fs::symlink_metadata(path).unwrap());
    assert_eq!(owner(&group.join("notes/old")), 1000);
    assert_eq!(owner(&group.join("strange")), 4321);
    assert_eq!(owner(&world.path("mine")), 0);
    assert_eq!(owner(world.directory.path()), 0);
    assert_eq!(owner(&world.path("session/host")), 0);
    // Files that the host adds later, deep in a directory that was handed over before, or in a read-only one.
    std::fs::write(group.join("notes/new"), "").unwrap();
    let mut spec = world.spec(ONE, 2);
    spec.settings.trust = Trust::Untrusted;
    world.runtime.ensure(spec);
    world.heard.gone(ONE, 2);
    assert_eq!(owner(&group.join("notes/new")), 1000);
}

/// Answers on the loopback address of this machine while this exists.
fn answering() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            connection.write_all(b"hello\n").unwrap();
            let _rest = connection.read(&mut [0; 8]);
        }
    });
    port
}

const TRY: &str = "try() { timeout 5 bash -c \"exec 3<>/dev/tcp/$1/$2 && read -t 4 -r line <&3 && echo \\\"$1 \\$line\\\"\" \
    2>/dev/null || echo \"$1 unreachable\"; }\n";

fn reached(network: Network, loopback: bool) -> Option<String> {
    let port = answering();
    let script = format!(
        "{TRY}try host.containers.internal {port}; try 127.0.0.1 {port}; try 1.1.1.1 53; try 10.0.2.2 {port}
        ip route; timeout 5 nslookup example.org >/dev/null 2>&1 && echo resolved; exit 0"
    );
    let world = world(&script)?;
    let (exit, text) = world.run(|spec| {
        spec.settings.network = network;
        spec.settings.allow_host_loopback = loopback;
    });
    assert_eq!(exit, Exit::Code(0), "{text}");
    Some(text)
}

#[test]
fn without_a_network_there_is_no_way_anywhere() {
    let Some(text) = reached(Network::None, true) else { return };
    assert!(!text.contains("hello") && !text.contains("default") && !text.contains("resolved"), "{text}");
}

#[test]
fn the_host_is_reached_and_nothing_beyond_it() {
    let Some(text) = reached(Network::Host, false) else { return };
    if text.contains("slirp4netns") {
        eprintln!("SKIPPED: {text}");
        return;
    }
    assert!(text.contains("host.containers.internal hello"), "{text}");
    assert!(text.contains("127.0.0.1 unreachable") && text.contains("1.1.1.1 unreachable"), "{text}");
    assert!(!text.contains("resolved"), "{text}");
    if TcpStream::connect_timeout(&([1, 1, 1, 1], 53).into(), Duration::from_secs(5)).is_err() {
        eprintln!(
            "SKIPPED: this machine reaches no other one, so that nothing is shown by not reaching it from inside"
        );
    }
}

/// Only the route out is checked: whether the machine itself reaches the internet does not concern the agent.
#[test]
fn an_open_network_has_a_way_out() {
    let Some(text) = reached(Network::Open, false) else { return };
    assert!(text.contains("default via") && text.contains("127.0.0.1 unreachable"), "{text}");
    // The loopback address of the host is the host's own.
    assert!(!text.contains("hello") && text.contains("10.0.2.2 unreachable"), "{text}");
}

#[test]
fn an_open_network_reaches_the_loopback_address_where_that_was_asked_for() {
    let Some(text) = reached(Network::Open, true) else { return };
    assert!(text.contains("host.containers.internal hello") && text.contains("10.0.2.2 hello"), "{text}");
}

/// A listening agent can be reached by itself and by no other agent.
#[test]
fn agents_do_not_reach_each_other() {
    let listens = "hostname -i; ip -o addr; while true; do echo hello | nc -l -p 7777; done &
        sleep 1; echo ready > /workspace/session/agent/ready; sleep 1000";
    let Some(world) = world(listens) else { return };
    let mut spec = world.spec(ONE, 1);
    spec.settings.network = Network::Open;
    world.runtime.ensure(spec);
    world.heard.running(ONE, 1);
    world.line("ready");
    let named =
        world.inspect(ONE, "{{.NetworkSettings.IPAddress}} {{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}");
    let shown = std::fs::read_to_string(world.path("session/agent/out")).unwrap();
    let own = shown.split_whitespace().filter_map(|word| word.split('/').next()).chain(named.split_whitespace());
    let addresses: std::collections::BTreeSet<&str> =
        own.filter(|word| word.parse::<std::net::Ipv4Addr>().is_ok_and(|address| !address.is_loopback())).collect();
    assert!(!addresses.is_empty(), "{shown}");
    let tries: String = addresses.iter().map(|address| format!("try {address} 7777; ")).collect();
    let other = self::world(&format!("{TRY}{tries}exit 0")).unwrap();
    let (exit, text) = other.run(|spec| spec.settings.network = Network::Open);
    assert_eq!((exit, text.matches("unreachable").count()), (Exit::Code(0), addresses.len()), "{text}");
}

/// Files may be readable by root only.
#[test]
fn what_agents_share_is_theirs_to_read_or_to_change() {
    let script = "/app/skills/web/run.sh; cat /workspace/global/CLAUDE.md /workspace/trusted/old; \
        echo new > /workspace/trusted/new; test -r /workspace/extra/own/secret || echo closed";
    let Some(world) = world(script) else { return };
    let mode = |name: &str, mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(world.path(name), mode).unwrap();
    };
    let files = [
        ("skills/web", "run.sh", "#!/bin/sh\necho ran\n", 0o700),
        ("global", "CLAUDE.md", "shared\n", 0o600),
        ("trusted", "old", "old\n", 0o600),
        ("own", "secret", "the operator's\n", 0o600),
    ];
    for (directory, name, text, bits) in files {
        let file = format!("{directory}/{name}");
        std::fs::create_dir_all(world.path(directory)).unwrap();
        std::fs::write(world.path(&file), text).unwrap();
        mode(&file, bits);
        mode(directory, 0o700);
    }
    let real = world.path("").canonicalize().unwrap();
    let mount = |name: &str, target: &str, access| Mount { source: real.join(name), target: target.into(), access };
    let mounts = vec![
        mount("skills", "/app/skills", Access::ReadOnly),
        mount("global", "/workspace/global", Access::ReadOnly),
        mount("trusted", "/workspace/trusted", Access::ReadWrite),
        mount("own", "/workspace/extra/own", Access::ReadOnly),
    ];
    let (exit, text) = world.run(|spec| spec.mounts = mounts);
    assert_eq!(exit, Exit::Code(0), "{text}");
    assert!(text.starts_with("ran\nshared\nold\n"), "{text}");
    assert!(exists(&world.path("trusted/new")), "{text}");
    if rustix::process::geteuid().is_root() {
        // Directories that are not Hearth's keep their mode.
        assert!(text.ends_with("closed\n"), "{text}");
    }
}
