//! The seccomp profile of agents in containers: Podman's own profile, without the ways to a user namespace, without
//! keyrings, and with only the socket families that agents need. In its own user namespace an agent would have every
//! capability over the kernel objects of that namespace, and much of the kernel was written with only root in mind.
//! Keyrings belong to the user and not to the container, and the sockets of a virtual machine are not isolated either.
//! Nothing that the profile forbids is allowed here.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::crash;

/// Calls that are always forbidden.
const FORBIDDEN: [&str; 5] = ["unshare", "setns", "keyctl", "add_key", "request_key"];
/// Calls whose arguments are in memory, where no filter can look. They fail as if the kernel did not know them, so that
/// libc falls back to `clone` and `socket`.
const UNKNOWN: [&str; 2] = ["clone3", "socketcall"];
/// Creates sockets.
const SOCKET: &str = "socket";
/// Socket families that agents need: Unix, IPv4, IPv6 and netlink. A deny list would have a hole: the kernel reads half
/// of the number, and the filter all of it.
const FAMILIES: [u64; 4] = [1, 2, 10, 16];
/// Creates processes and threads, and with [`NEWUSER`] a user namespace.
const CLONE: &str = "clone";
/// Flag of `clone` for a new user namespace.
const NEWUSER: u64 = 0x1000_0000;
/// Index of the flags argument of `clone`.
const FLAGS: u32 = if cfg!(target_arch = "s390x") { 1 } else { 0 };
const ALLOW: &str = "SCMP_ACT_ALLOW";
const MASKED: &str = "SCMP_CMP_MASKED_EQ";
const EQUAL: &str = "SCMP_CMP_EQ";
const GREATER: &str = "SCMP_CMP_GT";
const EPERM: u32 = 1;
const ENOSYS: u32 = 38;
const EAFNOSUPPORT: u32 = 97;

/// Serializes writers of the file: sessions start in parallel.
static SETTLING: Mutex<()> = Mutex::new(());

/// Why agents in containers get Podman's own profile, which lets them create user namespaces.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoFilter {
    /// Podman names no profile file: it uses a built-in one, or none.
    #[error("Podman names no file with its seccomp profile")]
    Unnamed,
    /// The file cannot be read.
    #[error("Podman's seccomp profile {path} cannot be read: {source}")]
    Unread { path: PathBuf, source: io::Error },
    /// The profile cannot be tightened.
    #[error("Podman's seccomp profile {path} is not understood: {why}")]
    Strange { path: PathBuf, why: String },
}

/// The profile for agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filter(String);

impl Filter {
    /// Derives the profile from the one that Podman uses.
    pub(super) fn of(profile: Option<&Path>) -> Result<Self, NoFilter> {
        let path = profile.ok_or(NoFilter::Unnamed)?;
        let read = std::fs::read(path);
        let text = read.map_err(|source| NoFilter::Unread { path: path.to_owned(), source })?;
        let made = serde_json::from_slice(&text).map_err(|error| error.to_string()).and_then(tighten);
        made.map(Self).map_err(|why| NoFilter::Strange { path: path.to_owned(), why })
    }

    /// Makes sure that the file exists with this content. It is replaced by a rename, so readers see the old or the new
    /// content. The temporary file has a fixed name, so one left by a crash is overwritten.
    pub(super) fn settle(&self, path: &Path) -> io::Result<()> {
        let _alone = SETTLING.lock().unwrap_or_else(PoisonError::into_inner);
        if std::fs::read(path).is_ok_and(|there| there == self.0.as_bytes()) {
            return Ok(());
        }
        let unfinished = path.with_extension("new");
        crash::point("filter-write");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        file.write_all(self.0.as_bytes())?;
        crash::point("filter-rename");
        std::fs::rename(&unfinished, path)
    }
}

/// The stricter profile, or why Podman's profile is not understood.
///
/// Only system call numbers of this architecture are allowed. Among the 32-bit calls is one that takes the socket
/// family from memory, and libseccomp allows all of those calls where it allows any.
fn tighten(mut profile: Value) -> Result<String, String> {
    if let Some(fields) = profile.as_object_mut() {
        fields.remove("archMap");
        fields.remove("architectures");
    }
    let rules = profile.get_mut("syscalls").and_then(Value::as_array_mut).ok_or("it has no list `syscalls`")?;
    let mut kept = Vec::new();
    for rule in std::mem::take(rules) {
        kept.extend(tightened(rule)?);
    }
    kept.push(json!({ "names": FORBIDDEN, "action": "SCMP_ACT_ERRNO", "errnoRet": EPERM }));
    kept.push(json!({ "names": UNKNOWN, "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS }));
    let refused = flags(NEWUSER);
    kept.push(json!({ "names": [CLONE], "action": "SCMP_ACT_ERRNO", "errnoRet": EPERM, "args": [refused] }));
    kept.extend(other_families().map(
        |family| json!({ "names": [SOCKET], "action": "SCMP_ACT_ERRNO", "errnoRet": EAFNOSUPPORT, "args": [family] }),
    ));
    *rules = kept;
    Ok(profile.to_string())
}

/// The stricter form of a rule: the rule without the handled calls, `clone` without the user namespace flag, and
/// `socket` for the allowed families.
fn tightened(mut rule: Value) -> Result<Vec<Value>, String> {
    // The older form has one name per rule.
    let names = match (rule.get("names"), rule.get("name")) {
        (Some(Value::Array(names)), _) => names.clone(),
        (_, Some(name)) => vec![name.clone()],
        _ => return Err("a rule of it names no call".to_owned()),
    };
    let allows = rule.get("action").and_then(Value::as_str).ok_or("a rule of it has no action")? == ALLOW;
    let fields = rule.as_object_mut().ok_or("a rule of it is not an object")?;
    fields.remove("name");
    let mut kept = Vec::new();
    if allows && names.iter().any(|name| name == CLONE) {
        kept.push(Value::Object(without_namespace(fields.clone())?));
    }
    if allows && names.iter().any(|name| name == SOCKET) {
        kept.extend(of_families(fields)?);
    }
    let ours = |name: &Value| FORBIDDEN.iter().chain(&UNKNOWN).chain(&[CLONE, SOCKET]).any(|ours| name == ours);
    if !allows && names.iter().any(|name| name == SOCKET) {
        kept.extend(refusal_of_family(fields));
    }
    let others: Vec<Value> = names.into_iter().filter(|name| !ours(name)).collect();
    if !others.is_empty() {
        fields.insert("names".to_owned(), Value::Array(others));
        kept.push(rule);
    }
    Ok(kept)
}

/// A rule that allows only `clone`, without that flag.
fn without_namespace(mut rule: serde_json::Map<String, Value>) -> Result<serde_json::Map<String, Value>, String> {
    rule.insert("names".to_owned(), json!([CLONE]));
    let arguments = rule.get("args").and_then(Value::as_array).cloned().unwrap_or_default();
    if arguments.is_empty() {
        rule.insert("args".to_owned(), json!([flags(0)]));
    } else if !arguments.iter().any(bars) {
        return Err("it allows `clone` depending on something else than flags".to_owned());
    }
    Ok(rule)
}

/// Rules that allow `socket`, one for each allowed family that the rule covers.
fn of_families(rule: &serde_json::Map<String, Value>) -> Result<Vec<Value>, String> {
    let arguments = rule.get("args").and_then(Value::as_array).cloned().unwrap_or_default();
    let number = |argument: &Value, name: &str| argument.get(name).and_then(Value::as_u64).unwrap_or_default();
    let (family, others): (Vec<_>, Vec<_>) = arguments.into_iter().partition(|argument| number(argument, "index") == 0);
    let allows = |wanted: u64| match family.as_slice() {
        [] => Ok(true),
        [one] => {
            let value = number(one, "value");
            match one.get("op").and_then(Value::as_str) {
                Some(EQUAL) => Ok(wanted == value),
                Some("SCMP_CMP_NE") => Ok(wanted != value),
                Some("SCMP_CMP_LT") => Ok(wanted < value),
                Some("SCMP_CMP_LE") => Ok(wanted <= value),
                Some("SCMP_CMP_GE") => Ok(wanted >= value),
                Some(GREATER) => Ok(wanted > value),
                _ => Err("it allows `socket` depending on bits of the family".to_owned()),
            }
        }
        _ => Err("it allows `socket` depending on the family twice".to_owned()),
    };
    let mut kept = Vec::new();
    for wanted in FAMILIES {
        if allows(wanted)? {
            let mut rule = rule.clone();
            rule.insert("names".to_owned(), json!([SOCKET]));
            rule.insert("args".to_owned(), std::iter::once(is_family(EQUAL, wanted)).chain(others.clone()).collect());
            kept.push(Value::Object(rule));
        }
    }
    Ok(kept)
}

/// A rule that rejects `socket` for one allowed family, with its own error code. Rules that reject all families are not
/// needed.
fn refusal_of_family(rule: &serde_json::Map<String, Value>) -> Option<Value> {
    let arguments = rule.get("args").and_then(Value::as_array)?;
    let one_of_ours = |argument: &Value| FAMILIES.iter().any(|family| names_family(argument, *family));
    let mut rule = rule.clone();
    rule.insert("names".to_owned(), json!([SOCKET]));
    arguments.iter().any(one_of_ours).then_some(Value::Object(rule))
}

fn names_family(argument: &Value, family: u64) -> bool {
    ["index", "value", "op"].iter().all(|field| argument.get(*field) == is_family(EQUAL, family).get(*field))
}

/// All other families, so that programs get a proper error. Libseccomp accepts no two rules for the same family.
fn other_families() -> impl Iterator<Item = Value> {
    let last = FAMILIES.iter().copied().max().unwrap_or_default();
    let between = (0..last).filter(|family| !FAMILIES.contains(family)).map(|family| is_family(EQUAL, family));
    between.chain([is_family(GREATER, last)])
}

fn is_family(how: &str, family: u64) -> Value {
    json!({ "index": 0, "value": family, "op": how })
}

/// A condition: the flag has this value.
fn flags(flag: u64) -> Value {
    json!({ "index": FLAGS, "value": NEWUSER, "valueTwo": flag, "op": MASKED })
}

/// Whether a required argument rules out a new user namespace.
fn bars(argument: &Value) -> bool {
    let number = |name: &str| argument.get(name).and_then(Value::as_u64).unwrap_or_default();
    let text = argument.get("op").and_then(Value::as_str);
    text == Some(MASKED)
        && number("index") == u64::from(FLAGS)
        && number("value") & NEWUSER != 0
        && number("valueTwo") & NEWUSER == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(profile: Value) -> Result<Vec<String>, String> {
        let made: Value = serde_json::from_str(&tighten(profile)?).unwrap();
        assert_eq!(made["defaultAction"], "SCMP_ACT_ERRNO", "what is beside the rules stays");
        assert_eq!(made.get("archMap"), None);
        Ok(made["syscalls"].as_array().unwrap().iter().map(Value::to_string).collect())
    }

    fn profile(rules: Value) -> Value {
        json!({ "defaultAction": "SCMP_ACT_ERRNO", "archMap": [{ "architecture": "SCMP_ARCH_X86_64" }], "syscalls": rules })
    }

    #[test]
    fn what_makes_namespaces_is_taken_out_and_everything_else_stays() {
        let rules = json!([
            { "names": ["kexec_load", "setns"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1 },
            { "names": ["read", "clone", "clone3", "unshare"], "action": ALLOW, "includes": { "caps": ["CAP_X"] } },
            { "names": ["setns", "unshare"], "action": ALLOW },
            { "name": "clone3", "action": ALLOW },
            { "name": "write", "action": ALLOW },
            { "names": ["keyctl", "socketcall", "bind"], "action": ALLOW },
            { "names": ["socket"], "action": ALLOW, "args": [{ "index": 0, "value": 16, "op": "SCMP_CMP_NE" }] },
            { "names": ["socket"], "action": ALLOW, "args": [{ "index": 2, "value": 9, "op": "SCMP_CMP_NE" }] },
            { "names": ["socket"], "action": "SCMP_ACT_ERRNO", "errnoRet": 22, "args":
                [{ "index": 0, "value": 16, "op": "SCMP_CMP_EQ" }, { "index": 2, "value": 9, "op": "SCMP_CMP_EQ" }] },
            { "names": ["socket"], "action": "SCMP_ACT_ERRNO", "args": [{ "index": 0, "value": 40, "op": "SCMP_CMP_EQ" }] },
        ]);
        insta::assert_snapshot!(made(profile(rules)).unwrap().join("\n"));
    }

    #[test]
    fn a_clone_that_makes_none_already_stays_as_it_is_and_nothing_is_allowed_anew() {
        let argument = json!({ "index": FLAGS, "value": 2_114_060_288, "valueTwo": 0, "op": MASKED });
        let rule = json!({ "names": ["clone"], "action": ALLOW, "args": [argument] });
        let rules = made(profile(json!([rule.clone()]))).unwrap();
        assert_eq!((rules.len(), &rules[0]), (4 + other_families().count(), &rule.to_string()));
        let rules = made(profile(json!([{ "names": ["read"], "action": ALLOW }]))).unwrap();
        assert_eq!(rules.iter().filter(|rule| rule.contains(ALLOW)).count(), 1, "{rules:#?}");
    }

    #[test]
    fn what_is_not_understood_is_no_filter() {
        let odd = json!({ "index": 3, "value": 1, "op": "SCMP_CMP_EQ" });
        let (masked, twice) = (json!({ "value": 1, "op": MASKED }), json!({ "value": 40, "op": "SCMP_CMP_NE" }));
        for (rules, why) in [
            (json!({}), "no list"),
            (json!([{ "action": ALLOW }]), "names no call"),
            (json!([{ "names": ["read"] }]), "no action"),
            (json!([7]), "names no call"),
            (json!([{ "names": ["clone"], "action": ALLOW, "args": [odd] }]), "something else than flags"),
            (json!([{ "names": ["socket"], "action": ALLOW, "args": [masked] }]), "bits of the family"),
            (json!([{ "names": ["socket"], "action": ALLOW, "args": [twice, twice] }]), "the family twice"),
        ] {
            let error = made(profile(rules.clone())).unwrap_err();
            assert!(error.contains(why), "{rules}: {error}");
        }
    }

    #[test]
    fn a_profile_that_cannot_be_had_is_told_with_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("seccomp.json");
        let why = |place: Option<&Path>| Filter::of(place).unwrap_err().to_string();
        assert!(why(None).contains("names no file"));
        assert!(why(Some(&place)).contains("seccomp.json cannot be read"));
        std::fs::write(&place, "[").unwrap();
        assert!(why(Some(&place)).contains("seccomp.json is not understood"));
        std::fs::write(&place, r#"{"syscalls": []}"#).unwrap();
        assert!(Filter::of(Some(&place)).is_ok());
    }

    #[test]
    fn the_file_is_made_again_when_it_is_gone_or_says_something_else() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("filter.json");
        let filter = Filter("{}".to_owned());
        for before in [None, Some("{"), Some("{}")] {
            drop(std::fs::remove_file(&place));
            if let Some(text) = before {
                std::fs::write(&place, text).unwrap();
            }
            filter.settle(&place).unwrap();
            assert_eq!(std::fs::read_to_string(&place).unwrap(), "{}");
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left beside it");
        assert!(filter.settle(&directory.path().join("none/filter.json")).is_err());
    }
}
