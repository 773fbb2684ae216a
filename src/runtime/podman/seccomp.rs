//! Which system calls agents in containers may make: those of Podman's own profile, without the ways to a user namespace.
//! In one of its own an agent would have every capability over what the kernel keeps for that namespace, and much of the
//! kernel was written for nobody but root. Nothing that the profile forbids is allowed here.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::crash;

/// Calls that are forbidden whatever they are given.
const FORBIDDEN: [&str; 2] = ["unshare", "setns"];
/// Its flags lie in memory, where no filter can look. As if the kernel did not know it, so that libc takes `clone`.
const UNKNOWN: &str = "clone3";
/// Makes processes and threads, and with one of its flags a user namespace.
const CLONE: &str = "clone";
/// That flag.
const NEWUSER: u64 = 0x1000_0000;
/// Which argument of `clone` has the flags.
const FLAGS: u32 = if cfg!(target_arch = "s390x") { 1 } else { 0 };
const ALLOW: &str = "SCMP_ACT_ALLOW";
const MASKED: &str = "SCMP_CMP_MASKED_EQ";
const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

/// Held by whoever writes the file: sessions start side by side.
static SETTLING: Mutex<()> = Mutex::new(());

/// Why agents in containers get Podman's own profile, with which they can make user namespaces.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoFilter {
    /// It has one of its own making, or none.
    #[error("Podman names no file with its seccomp profile")]
    Unnamed,
    /// The file cannot be read.
    #[error("Podman's seccomp profile {path} cannot be read: {source}")]
    Unread { path: PathBuf, source: io::Error },
    /// It cannot be made stricter.
    #[error("Podman's seccomp profile {path} is not understood: {why}")]
    Strange { path: PathBuf, why: String },
}

/// The profile for agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filter(String);

impl Filter {
    /// Makes it of the profile that Podman uses.
    pub(super) fn of(profile: Option<&Path>) -> Result<Self, NoFilter> {
        let path = profile.ok_or(NoFilter::Unnamed)?;
        let read = std::fs::read(path);
        let text = read.map_err(|source| NoFilter::Unread { path: path.to_owned(), source })?;
        let made = serde_json::from_slice(&text).map_err(|error| error.to_string()).and_then(tighten);
        made.map(Self).map_err(|why| NoFilter::Strange { path: path.to_owned(), why })
    }

    /// Sees to it that the file is there with this content. Whoever reads it meanwhile finds all of it, or what was there.
    /// One that a daemon died over has the same name as the next, so that it does not stay.
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

/// The profile without the ways to a user namespace, or what is odd about it.
fn tighten(mut profile: Value) -> Result<String, String> {
    let rules = profile.get_mut("syscalls").and_then(Value::as_array_mut).ok_or("it has no list `syscalls`")?;
    let mut kept = Vec::new();
    for rule in std::mem::take(rules) {
        kept.extend(tightened(rule)?);
    }
    kept.push(json!({ "names": FORBIDDEN, "action": "SCMP_ACT_ERRNO", "errnoRet": EPERM }));
    kept.push(json!({ "names": [UNKNOWN], "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS }));
    let refused = flags(NEWUSER);
    kept.push(json!({ "names": [CLONE], "action": "SCMP_ACT_ERRNO", "errnoRet": EPERM, "args": [refused] }));
    *rules = kept;
    Ok(profile.to_string())
}

/// What is left of a rule: itself without our calls, and `clone` as far as it made no user namespace.
fn tightened(mut rule: Value) -> Result<Vec<Value>, String> {
    // An older form has one name for each rule.
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
    let ours = |name: &Value| FORBIDDEN.iter().chain(&[UNKNOWN, CLONE]).any(|ours| name == ours);
    let others: Vec<Value> = names.into_iter().filter(|name| !ours(name)).collect();
    if !others.is_empty() {
        fields.insert("names".to_owned(), Value::Array(others));
        kept.push(rule);
    }
    Ok(kept)
}

/// A rule that allows `clone`, for nothing else and without that flag.
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

/// That the flag is as it is here.
fn flags(flag: u64) -> Value {
    json!({ "index": FLAGS, "value": NEWUSER, "valueTwo": flag, "op": MASKED })
}

/// Whether an argument that has to be so makes no user namespace.
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
        Ok(made["syscalls"].as_array().unwrap().iter().map(Value::to_string).collect())
    }

    fn profile(rules: Value) -> Value {
        json!({ "defaultAction": "SCMP_ACT_ERRNO", "syscalls": rules })
    }

    #[test]
    fn what_makes_namespaces_is_taken_out_and_everything_else_stays() {
        let rules = json!([
            { "names": ["kexec_load", "setns"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1 },
            { "names": ["read", "clone", "clone3", "unshare"], "action": ALLOW, "includes": { "caps": ["CAP_X"] } },
            { "names": ["setns", "unshare"], "action": ALLOW },
            { "name": "clone3", "action": ALLOW },
            { "name": "write", "action": ALLOW },
        ]);
        insta::assert_snapshot!(made(profile(rules)).unwrap().join("\n"));
    }

    #[test]
    fn a_clone_that_makes_none_already_stays_as_it_is_and_nothing_is_allowed_anew() {
        let argument = json!({ "index": FLAGS, "value": 2_114_060_288, "valueTwo": 0, "op": MASKED });
        let rule = json!({ "names": ["clone"], "action": ALLOW, "args": [argument] });
        let rules = made(profile(json!([rule.clone()]))).unwrap();
        assert_eq!((rules.len(), &rules[0]), (4, &rule.to_string()));
        let rules = made(profile(json!([{ "names": ["read"], "action": ALLOW }]))).unwrap();
        assert_eq!(rules.iter().filter(|rule| rule.contains(ALLOW)).count(), 1, "{rules:#?}");
    }

    #[test]
    fn what_is_not_understood_is_no_filter() {
        let odd = json!({ "index": 3, "value": 1, "op": "SCMP_CMP_EQ" });
        for (rules, why) in [
            (json!({}), "no list"),
            (json!([{ "action": ALLOW }]), "names no call"),
            (json!([{ "names": ["read"] }]), "no action"),
            (json!([7]), "names no call"),
            (json!([{ "names": ["clone"], "action": ALLOW, "args": [odd] }]), "something else than flags"),
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
