//! Builds the JSON bodies of Podman's container API. Pure.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::api::{IMAGE, INCARNATION, INSTALL, SESSION, SPEC};
use super::handover::{PIPE, PLACE};
use super::info::PodmanInfo;
use crate::model::entity::{Access, Limits, Network};
use crate::model::id::SessionId;
use crate::runtime::image::RUNNER;
use crate::runtime::owner::AGENT;
use crate::runtime::{MEMORY, PIDS, Spec};

/// Home of an agent.
const HOME: &str = "/home/node";
/// Seconds between SIGTERM, which the container's init passes on to the runner, and SIGKILL.
pub(super) const GRACE: u64 = crate::runtime::process::END_MAX.as_secs();
/// Seconds between SIGTERM and SIGKILL for a person who waits.
pub(super) const MOMENT: u64 = 1;
/// Bytes of a container's log that Podman keeps on disk.
const LOG_BYTES: u64 = 4 << 20;
/// Address at which slirp4netns exposes this machine's loopback.
const LOOPBACK: &str = "10.0.2.2";
/// Where the agent sees both sides of its mailbox.
const MAILBOX: &str = "/workspace/session";

/// Where it sees the directory of the model gateway's socket.
pub(in crate::runtime) const GATE: &str = "/run/hearth-gateway";

/// Where it sees the directory of its way out.
pub(in crate::runtime) const NETWORK: &str = "/run/hearth-network";

/// A bind mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bind {
    pub(super) source: PathBuf,
    pub(super) target: PathBuf,
    pub(super) access: Access,
}

/// Everything a container is created from.
pub(super) struct Order<'a> {
    pub(super) install: &'a str,
    pub(super) spec: &'a Spec,
    pub(super) image: &'a str,
    /// Name of the image that the container should have, even if it is missing.
    pub(super) wanted: &'a str,
    /// Variables that are not secret.
    pub(super) variables: Vec<(String, String)>,
    pub(super) binds: &'a [Bind],
    pub(super) info: &'a PodmanInfo,
    /// Path of the seccomp profile; `None` means Podman's own.
    pub(super) filter: Option<&'a Path>,
    /// User and group of the daemon.
    pub(super) user: (u32, u32),
}

/// Name of a session's container. Container names are unique, so a session never has two.
pub(super) fn name(install: &str, session: SessionId) -> String {
    format!("hearth-{install}-{session}")
}

/// The body of a create request.
pub(super) fn create(order: &Order<'_>) -> Value {
    let spec = order.spec;
    let mut body = json!({
        "name": name(order.install, spec.session),
        "image": order.image,
        // Setting an entrypoint overrides the entrypoint and the command of the image.
        "entrypoint": [RUNNER],
        "env": order.variables.iter().map(|(name, value)| (name.clone(), json!(value))).collect::<serde_json::Map<_, _>>(),
        "labels": labels(order),
        "work_dir": "/workspace/group",
        "init": true,
        "stop_timeout": GRACE,
        "read_only_filesystem": true,
        "cap_drop": ["ALL"],
        "no_new_privileges": true,
        // SELinux would keep the agent from what is mounted and from the daemon's sockets. Other labels for what is mounted
        // would not help with sockets, and would change files of the user. Without SELinux this has no effect.
        "selinux_opts": ["disable"],
        // Podman's default is an IPC namespace that other containers may join.
        "ipcns": { "nsmode": "private" },
        "image_volume_mode": "ignore",
        "log_configuration": { "driver": "k8s-file", "size": LOG_BYTES },
        "mounts": mounts(order.binds, spec.settings.limits.memory.unwrap_or(MEMORY)),
        "resource_limits": limits(&spec.settings.limits, order.info),
        "user": user(order),
    });
    let network = network(spec.settings.network, spec.settings.allow_host_loopback);
    // The runner listens on the ports of names. Nothing else is in that network.
    let low_ports = ("sysctl", json!({ "net.ipv4.ip_unprivileged_port_start": "0" }));
    let network = network.into_iter().chain(spec.network_access.is_some().then_some(low_ports));
    let filter = order.filter.map(|filter| ("seccomp_profile_path", json!(filter)));
    for (key, value) in network.chain(order.info.rootless.then(keep_id)).chain(filter) {
        if let Some(body) = body.as_object_mut() {
            body.insert(key.to_owned(), value);
        }
    }
    body
}

fn labels(order: &Order<'_>) -> Value {
    json!({
        INSTALL: order.install,
        SESSION: order.spec.session.to_string(),
        INCARNATION: order.spec.incarnation.to_string(),
        SPEC: order.spec.digest.to_string(),
        IMAGE: order.wanted,
    })
}

/// A daemon that runs as root gives its agents another user. Any other daemon cannot: its agents have the id of the
/// daemon's user, whether Podman runs as root or maps that id to the agent's.
fn user(order: &Order<'_>) -> String {
    match order.user {
        (user, group) if user != 0 && !order.info.rootless => format!("{user}:{group}"),
        _ => format!("{AGENT}:{AGENT}"),
    }
}

fn keep_id() -> (&'static str, Value) {
    ("userns", json!({ "nsmode": "keep-id", "value": format!("uid={AGENT},gid={AGENT}") }))
}

/// Every agent has its own network, made by slirp4netns with and without root. On Podman's bridge agents would reach
/// each other.
///
/// Host only: every connection leaves slirp4netns from the loopback address, so only this machine can
/// be reached. Names are not resolved either.
fn network(network: Network, loopback: bool) -> Vec<(&'static str, Value)> {
    let slirp = |options: &[&str]| {
        let options = json!({ "slirp4netns": options });
        vec![("netns", json!({ "nsmode": "slirp4netns" })), ("network_options", options)]
    };
    let mut wanted = match (network, loopback) {
        (Network::None | Network::Listed | Network::Ask | Network::Public, _) => {
            return vec![("netns", json!({ "nsmode": "none" }))];
        }
        (Network::Host, _) => slirp(&["allow_host_loopback=true", "outbound_addr=127.0.0.1", "enable_ipv6=false"]),
        (Network::Open, true) => slirp(&["allow_host_loopback=true"]),
        (Network::Open, false) => return slirp(&["allow_host_loopback=false"]),
    };
    wanted.push(("hostadd", json!([format!("host.containers.internal:{LOOPBACK}")])));
    wanted
}

/// Resource limits. Limits that Podman cannot apply here are skipped, because it would reject the container.
fn limits(limits: &Limits, info: &PodmanInfo) -> Value {
    let mut wanted = serde_json::Map::new();
    if info.limits("memory") {
        // Podman counts memory and swap together. Equal limits mean no swap.
        let most = limits.memory.unwrap_or(MEMORY);
        wanted.insert("memory".to_owned(), json!({ "limit": most, "swap": most }));
    }
    if info.limits("pids") {
        wanted.insert("pids".to_owned(), json!({ "limit": limits.pids.unwrap_or(PIDS) }));
    }
    if let Some(cpu) = limits.cpu.filter(|_| info.limits("cpu")) {
        // CPU limits are in thousandths of a processor. The period is 100 ms, so one thousandth is a quota of 100 µs.
        wanted.insert("cpu".to_owned(), json!({ "quota": u64::from(cpu) * 100, "period": 100_000 }));
    }
    Value::Object(wanted)
}

/// Mounts. Temporary directories vanish with the container and may each be as large as its memory limit. `U` gives them
/// to the container's user: runc does not honor the mode alone.
fn mounts(binds: &[Bind], memory: u64) -> Value {
    let size = format!("size={memory}");
    let empty = |target: &str, mode: &str| {
        let options = ["rw", "nosuid", "nodev", mode, &size, "U"];
        json!({ "type": "tmpfs", "source": "tmpfs", "destination": target, "options": options })
    };
    let bind = |bind: &Bind| {
        let access = match bind.access {
            Access::ReadOnly => "ro",
            Access::ReadWrite => "rw",
        };
        let mut options = vec![access, "nosuid", "nodev", "private", "rbind"];
        // Nothing in a mailbox is a program, and other users wrote part of it.
        if bind.target.starts_with(MAILBOX) || [PLACE, GATE, NETWORK].iter().any(|own| bind.target == Path::new(own)) {
            options.push("noexec");
        }
        json!({ "type": "bind", "source": bind.source, "destination": bind.target, "options": options })
    };
    let temporary = [empty("/tmp", "mode=1777"), empty("/run", "mode=0755"), empty(HOME, "mode=0755")];
    temporary.into_iter().chain(binds.iter().map(bind)).collect()
}

/// The variables of a container.
pub(super) struct Variables {
    /// Set on the container, visible in Podman.
    pub(super) shown: Vec<(String, String)>,
    /// Passed to the runner through the pipe only. Empty for an agent without secrets.
    pub(super) handed: Vec<(String, String)>,
}

/// The complete variables of an agent. Later ones win, so the configuration cannot change what the runner relies on.
///
/// If there are secrets, the incarnation number is handed over with them. A runner that does not know the pipe then
/// lacks the number and stops at once, instead of working without its secrets.
pub(super) fn variables(spec: &Spec, configured: Vec<(String, String)>, secrets: &[String]) -> Variables {
    let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let incarnation = own("HEARTH_INCARNATION", &spec.incarnation.to_string());
    let mut fixed =
        vec![own("HOME", HOME), own("TZ", &spec.timezone), own("NANOCLAW_SESSION_NAME", spec.session_name.as_str())];
    let (mut handed, mut shown): (Vec<_>, Vec<_>) =
        configured.into_iter().partition(|(name, _)| secrets.contains(name));
    shown.insert(0, own("LANG", "C.UTF-8"));
    handed.retain(|(name, _)| fixed.iter().all(|(own, _)| own != name));
    if handed.is_empty() {
        fixed.push(incarnation);
    } else {
        fixed.push(own("HEARTH_SECRETS", PIPE));
        handed.push(incarnation);
    }
    shown.extend(fixed);
    Variables { shown, handed }
}

/// The mounts every agent has: its session, its group and its home.
pub(super) fn places(spec: &Spec, writes_group: bool) -> Vec<(PathBuf, &'static Path, Access)> {
    let group = if writes_group { Access::ReadWrite } else { Access::ReadOnly };
    vec![
        (spec.session_dir.join("host"), Path::new("/workspace/session/host"), Access::ReadOnly),
        (spec.session_dir.join("agent"), Path::new("/workspace/session/agent"), Access::ReadWrite),
        (spec.group_dir.clone(), Path::new("/workspace/group"), group),
        (spec.home_dir.join(".claude"), Path::new("/home/node/.claude"), Access::ReadWrite),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::entity::AgentSettings;
    use crate::model::incarnation::SpecDigest;
    use crate::model::network::NetworkAccess;
    use crate::model::session::SessionName;

    fn spec(network: Network) -> Spec {
        let settings = AgentSettings { network, ..AgentSettings::named("Main".to_owned()) };
        Spec {
            session: SessionId::new(5),
            incarnation: 3,
            session_dir: "/data/sessions/se5".into(),
            group_dir: "/data/groups/main".into(),
            home_dir: "/data/homes/main".into(),
            provider: settings.provider,
            settings,
            session_name: SessionName::Default,
            timezone: "UTC".to_owned(),
            digest: SpecDigest::new(1),
            image: None,
            mounts: Vec::new(),
            secrets: crate::runtime::Known::default(),
            model_access: None,
            network_access: None,
        }
    }

    fn made(network: Network, rootless: bool, user: u32) -> Value {
        made_of(&spec(network), rootless, user)
    }

    fn made_of(spec: &Spec, rootless: bool, user: u32) -> Value {
        let controllers = if rootless { Vec::new() } else { ["memory", "cpu", "pids"].map(str::to_owned).to_vec() };
        let info = PodmanInfo { rootless, controllers, ..PodmanInfo::default() };
        let configured = [("TZ", "x"), ("A", "b"), ("KEY", "secret")];
        let configured = configured.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let variables = variables(spec, configured, &["KEY".to_owned()]).shown;
        let (install, image, wanted) = ("0f", "localhost/a:1", "localhost/b:1");
        let (binds, user) = (&[][..], (user, user));
        let filter = Some(Path::new("/data/run/seccomp.json"));
        create(&Order { install, spec, image, wanted, variables, binds, info: &info, filter, user })
    }

    #[test]
    fn the_whole_of_it() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&made(Network::Host, false, 0)).unwrap());
    }

    #[test]
    fn podman_is_told_no_secret_and_an_old_runner_no_incarnation() {
        let configured = || [("KEY", "secret"), ("HOME", "stolen"), ("MOOD", "good")];
        let configured = || configured().map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let spec = spec(Network::None);
        let value = |all: &[(String, String)], name: &str| {
            all.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value.clone())
        };
        let with = variables(&spec, configured(), &["KEY".to_owned(), "HOME".to_owned()]);
        let handed = [("KEY", "secret"), ("HEARTH_INCARNATION", "3")];
        assert_eq!(with.handed, handed.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(value(&with.shown, "HEARTH_SECRETS").as_deref(), Some("/run/hearth-secrets/pipe"));
        assert_eq!(value(&with.shown, "HOME").as_deref(), Some(HOME));
        assert_eq!(value(&with.shown, "MOOD").as_deref(), Some("good"));
        assert_eq!((value(&with.shown, "KEY"), value(&with.shown, "HEARTH_INCARNATION")), (None, None));
        let without = variables(&spec, configured(), &[]);
        assert_eq!(without.handed, []);
        assert_eq!(value(&without.shown, "HEARTH_INCARNATION").as_deref(), Some("3"));
        assert_eq!(value(&without.shown, "HEARTH_SECRETS"), None);
    }

    #[test]
    fn who_the_agent_is_depends_on_who_podman_is() {
        assert_eq!(made(Network::None, false, 0)["user"], "1000:1000");
        assert_eq!(made(Network::None, false, 1234)["user"], "1234:1234");
        assert_eq!(made(Network::None, false, 1234).get("userns"), None);
        let rootless = made(Network::None, true, 1234);
        assert_eq!(rootless["user"], "1000:1000");
        assert_eq!(rootless["userns"], json!({ "nsmode": "keep-id", "value": "uid=1000,gid=1000" }));
        assert_eq!(rootless["resource_limits"], json!({}));
    }

    /// Only an agent that requested it reaches the loopback address of this machine, and no agent reaches another one.
    #[test]
    fn networks() {
        let asked = |network, loopback, rootless| {
            let mut spec = spec(network);
            spec.settings.allow_host_loopback = loopback;
            made_of(&spec, rootless, 1000)
        };
        for (rootless, loopback) in [(true, true), (true, false), (false, true), (false, false)] {
            let none = asked(Network::None, loopback, rootless);
            assert_eq!((&none["netns"]["nsmode"], none.get("hostadd")), (&json!("none"), None));
            let host = asked(Network::Host, loopback, rootless);
            let options = json!(["allow_host_loopback=true", "outbound_addr=127.0.0.1", "enable_ipv6=false"]);
            assert_eq!(host["network_options"]["slirp4netns"], options);
            let open = asked(Network::Open, loopback, rootless);
            let options = json!([format!("allow_host_loopback={loopback}")]);
            assert_eq!(
                (&open["netns"]["nsmode"], &open["network_options"]["slirp4netns"]),
                (&json!("slirp4netns"), &options)
            );
            assert_eq!(open.get("hostadd").is_some(), loopback);
        }
    }

    #[test]
    fn only_with_a_way_out_low_ports_are_open() {
        let mut spec = spec(Network::Ask);
        assert_eq!(made_of(&spec, true, 1000).get("sysctl"), None);
        spec.network_access =
            Some(NetworkAccess { directory: "/data/run/network/se5.3".into(), ports: Vec::new(), secrets: None });
        let made = made_of(&spec, true, 1000);
        assert_eq!(made["netns"]["nsmode"], "none");
        assert_eq!(made["sysctl"], json!({ "net.ipv4.ip_unprivileged_port_start": "0" }));
    }

    #[test]
    fn nothing_in_a_mailbox_is_run() {
        let bind = |target: &str| Bind { source: "/x".into(), target: target.into(), access: Access::ReadWrite };
        let binds = ["/workspace/session/host", "/workspace/session/agent", "/workspace/group", "/workspace/sessions"];
        let mounts = mounts(&binds.map(bind), MEMORY);
        for mount in mounts.as_array().unwrap().iter().filter(|mount| mount["type"] == "bind") {
            let noexec = mount["options"].as_array().unwrap().contains(&json!("noexec"));
            let target = mount["destination"].as_str().unwrap();
            assert_eq!(noexec, target.starts_with("/workspace/session/"), "{mount}");
        }
    }
}
