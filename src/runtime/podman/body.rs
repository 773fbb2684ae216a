//! What a container is asked for. Pure: the words of Podman's API and nothing else.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::api::{IMAGE, INCARNATION, INSTALL, SECRETS, SESSION, SPEC};
use super::facts::Facts;
use crate::model::entity::{Access, Limits, Network};
use crate::model::id::SessionId;
use crate::runtime::Spec;
use crate::runtime::image::RUNNER;

/// User and group of agents in containers that root starts, and of every agent as its container sees it.
pub(super) const AGENT: u32 = 1000;
/// Home of an agent.
const HOME: &str = "/home/node";
/// Bytes of memory, unless something else was configured: a runner, an agent CLI and its tools.
const MEMORY: u64 = 2 << 30;
/// Processes and threads, likewise. It ends fork bombs, not builds.
const PIDS: u32 = 512;
/// Seconds between being asked to end and being ended.
pub(super) const GRACE: u32 = 2;
/// Bytes of a log that Podman keeps on disk, whatever an agent writes.
const LOG_BYTES: u64 = 4 << 20;
/// Where slirp4netns shows the loopback of this machine.
const LOOPBACK: &str = "10.0.2.2";

/// One thing of the host at a place of the container's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bind {
    pub(super) source: PathBuf,
    pub(super) target: PathBuf,
    pub(super) access: Access,
}

/// All that goes into a container.
pub(super) struct Order<'a> {
    pub(super) install: &'a str,
    pub(super) spec: &'a Spec,
    pub(super) image: &'a str,
    /// Name of the image that it would be made of if that were there.
    pub(super) wanted: &'a str,
    pub(super) variables: Vec<(String, String)>,
    pub(super) secret_names: &'a [String],
    pub(super) binds: &'a [Bind],
    pub(super) facts: &'a Facts,
    /// File of the filter of system calls; none is Podman's own.
    pub(super) filter: Option<&'a Path>,
    /// Who the daemon is.
    pub(super) user: (u32, u32),
}

/// Name of a session's container. No two containers have the same, so that no session has two.
pub(super) fn name(install: &str, session: SessionId) -> String {
    format!("hearth-{install}-{session}")
}

/// The body of a request to create it.
pub(super) fn body(order: &Order<'_>) -> Value {
    let spec = order.spec;
    let mut body = json!({
        "name": name(order.install, spec.session),
        "image": order.image,
        // With an entrypoint of ours the image's own, and its command, count for nothing.
        "entrypoint": [RUNNER],
        "env": order.variables.iter().map(|(name, value)| (name.clone(), json!(value))).collect::<serde_json::Map<_, _>>(),
        "labels": labels(order),
        "work_dir": "/workspace/group",
        "init": true,
        "stop_timeout": GRACE,
        "read_only_filesystem": true,
        "cap_drop": ["ALL"],
        "no_new_privileges": true,
        "image_volume_mode": "ignore",
        "log_configuration": { "driver": "k8s-file", "size": LOG_BYTES },
        "mounts": mounts(order.binds, spec.settings.limits.memory.unwrap_or(MEMORY)),
        "resource_limits": limits(&spec.settings.limits, order.facts),
        "user": user(order),
    });
    let network = network(spec.settings.network, order.facts.rootless);
    let filter = order.filter.map(|filter| ("seccomp_profile_path", json!(filter)));
    for (key, value) in network.into_iter().chain(order.facts.rootless.then(keep_id)).chain(filter) {
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
        SECRETS: order.secret_names.join(","),
    })
}

/// Root gives its agents another user than itself. Somebody else cannot: agents have their user's id, whether Podman has
/// the rights of root, or maps that id to the agent's.
fn user(order: &Order<'_>) -> String {
    match order.user {
        (user, group) if user != 0 && !order.facts.rootless => format!("{user}:{group}"),
        _ => format!("{AGENT}:{AGENT}"),
    }
}

fn keep_id() -> (&'static str, Value) {
    ("userns", json!({ "nsmode": "keep-id", "value": format!("uid={AGENT},gid={AGENT}") }))
}

/// Only the host: every connection that leaves slirp4netns comes from the loopback address, from where nothing but this
/// machine can be reached; names are not resolved either. The agents' own bridge, which would hold them likewise, needs
/// root and joins them with each other.
fn network(network: Network, rootless: bool) -> Vec<(&'static str, Value)> {
    let slirp = |options: &[&str]| {
        let host = json!([format!("host.containers.internal:{LOOPBACK}")]);
        let options = json!({ "slirp4netns": options });
        vec![("netns", json!({ "nsmode": "slirp4netns" })), ("network_options", options), ("hostadd", host)]
    };
    match (network, rootless) {
        (Network::None, _) => vec![("netns", json!({ "nsmode": "none" }))],
        (Network::Host, _) => slirp(&["allow_host_loopback=true", "outbound_addr=127.0.0.1", "enable_ipv6=false"]),
        (Network::Open, true) => slirp(&["allow_host_loopback=true"]),
        (Network::Open, false) => vec![("netns", json!({ "nsmode": "bridge" }))],
    }
}

/// What Podman cannot limit here is left out: it would refuse the container.
fn limits(limits: &Limits, facts: &Facts) -> Value {
    let mut wanted = serde_json::Map::new();
    if facts.limits("memory") {
        wanted.insert("memory".to_owned(), json!({ "limit": limits.memory.unwrap_or(MEMORY) }));
    }
    if facts.limits("pids") {
        wanted.insert("pids".to_owned(), json!({ "limit": limits.pids.unwrap_or(PIDS) }));
    }
    if let Some(cpu) = limits.cpu.filter(|_| facts.limits("cpu")) {
        // Thousandths of a processor are microseconds of a millisecond; a period has a hundred of those.
        wanted.insert("cpu".to_owned(), json!({ "quota": u64::from(cpu) * 100, "period": 100_000 }));
    }
    Value::Object(wanted)
}

/// Directories that vanish with the container, each as large as its memory, where they are. `U` gives them to its user: the
/// mode alone is not honoured by runc.
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
        let options = [access, "nosuid", "nodev", "private", "rbind"];
        json!({ "type": "bind", "source": bind.source, "destination": bind.target, "options": options })
    };
    let temporary = [empty("/tmp", "mode=1777"), empty("/run", "mode=0755"), empty(HOME, "mode=0755")];
    temporary.into_iter().chain(binds.iter().map(bind)).collect()
}

/// What an agent gets besides what its configuration asks for. Later ones win: nothing the runner relies on can be changed.
pub(super) fn variables(spec: &Spec, configured: Vec<(String, String)>) -> Vec<(String, String)> {
    let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut variables = vec![own("LANG", "C.UTF-8")];
    variables.extend(configured);
    variables.extend([
        own("HOME", HOME),
        own("TZ", &spec.timezone),
        own("HEARTH_INCARNATION", &spec.incarnation.to_string()),
        own("NANOCLAW_SESSION_NAME", spec.session_name.as_str()),
    ]);
    variables
}

/// What every agent sees: of its session, its group, and of itself.
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
        }
    }

    fn made(network: Network, rootless: bool, user: u32) -> Value {
        let controllers = if rootless { Vec::new() } else { ["memory", "cpu", "pids"].map(str::to_owned).to_vec() };
        let facts = Facts { rootless, controllers, ..Facts::default() };
        let spec = spec(network);
        let variables = variables(&spec, vec![("TZ".to_owned(), "x".to_owned()), ("A".to_owned(), "b".to_owned())]);
        let (install, image, wanted) = ("0f", "localhost/a:1", "localhost/b:1");
        let (secret_names, binds, user) = (&["A".to_owned()][..], &[][..], (user, user));
        let filter = Some(Path::new("/data/run/seccomp.json"));
        body(&Order {
            install,
            spec: &spec,
            image,
            wanted,
            variables,
            secret_names,
            binds,
            facts: &facts,
            filter,
            user,
        })
    }

    #[test]
    fn the_whole_of_it() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&made(Network::Host, false, 0)).unwrap());
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

    #[test]
    fn networks() {
        let mode = |network, rootless| made(network, rootless, 1000)["netns"]["nsmode"].as_str().unwrap().to_owned();
        for rootless in [true, false] {
            assert_eq!(mode(Network::None, rootless), "none");
            assert_eq!(mode(Network::Host, rootless), "slirp4netns");
            let options = &made(Network::Host, rootless, 1000)["network_options"]["slirp4netns"];
            assert!(options.to_string().contains("outbound_addr=127.0.0.1"));
        }
        assert_eq!(
            (mode(Network::Open, true), mode(Network::Open, false)),
            ("slirp4netns".to_owned(), "bridge".to_owned())
        );
        let open = &made(Network::Open, true, 1000)["network_options"]["slirp4netns"];
        assert!(!open.to_string().contains("outbound_addr"));
    }
}
