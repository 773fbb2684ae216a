//! The seccomp filter, defined in seccompiler's format by two files, `allowed.json` and `refused.json`. A call in
//! neither file fails as if the kernel did not have it (`ENOSYS`), so that libraries fall back to an older one. A
//! refused call fails with `EPERM`.
//!
//! It is an allow list, because a deny list misses calls of later kernels and of other call tables. The filter cannot
//! look behind pointers, so `openat2` and `clone3` are not allowed.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, TargetArch, apply_filter, compile_from_json};
use serde_json::{Value, json};

use super::Calls;

const ALLOWED: &str = include_str!("allowed.json");
const REFUSED: &str = include_str!("refused.json");
/// `errno` of an unknown and of a refused call.
const ENOSYS: u32 = 38;
const EPERM: u32 = 1;

/// Applies the filter to this thread and its children.
pub(super) fn apply(calls: Calls) -> Result<(), String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let programs = Programs::compile(calls, arch)?;
    // If several filters refuse a call, the kernel uses the one that was added last.
    [programs.allow, programs.refuse].iter().try_for_each(|filter| apply_filter(filter).map_err(|e| e.to_string()))
}

/// The compiled filters.
struct Programs {
    allow: BpfProgram,
    refuse: BpfProgram,
}

impl Programs {
    fn compile(calls: Calls, arch: TargetArch) -> Result<Self, String> {
        let old = if matches!(arch, TargetArch::x86_64) { vec!["on_x86_64"] } else { Vec::new() };
        let always = || ["always"].into_iter().chain(old.iter().copied());
        let allowed =
            always().chain(calls.view.then_some("in_mount_view")).chain(calls.network.then_some("with_network"));
        let refused = always()
            .chain((!calls.view).then_some("without_mount_view"))
            .chain((!calls.network).then_some("without_network"));
        let source = json!({
            "allow": {
                "mismatch_action": { "errno": ENOSYS },
                "match_action": "allow",
                "filter": rules(ALLOWED, allowed)?,
            },
            "refuse": {
                "mismatch_action": "allow",
                "match_action": { "errno": EPERM },
                "filter": rules(REFUSED, refused)?,
            },
        });
        let mut made = compile_from_json(source.to_string().as_bytes(), arch).map_err(|error| error.to_string())?;
        let mut take = |name| made.remove(name).ok_or_else(|| format!("there is no filter `{name}`"));
        Ok(Self { allow: take("allow")?, refuse: take("refuse")? })
    }
}

/// The rules of some sections of a file. A bare name allows any arguments.
fn rules<'a>(file: &str, sections: impl Iterator<Item = &'a str>) -> Result<Vec<Value>, String> {
    let mut all: BTreeMap<String, Vec<Value>> = serde_json::from_str(file).map_err(|error| error.to_string())?;
    let mut rules = Vec::new();
    for section in sections {
        rules.extend(all.remove(section).ok_or_else(|| format!("there is no section `{section}`"))?);
    }
    let full = |rule| if let Value::String(name) = rule { json!({ "syscall": name }) } else { rule };
    Ok(rules.into_iter().map(full).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_compiles_on_every_machine() {
        for arch in [TargetArch::x86_64, TargetArch::aarch64] {
            for (view, network) in [(true, true), (true, false), (false, true), (false, false)] {
                let made = Programs::compile(Calls { view, network }, arch).unwrap();
                assert!(made.allow.len() > 200 && made.refuse.len() > 50, "{arch:?}");
                assert!(made.allow.len() < 4096 && made.refuse.len() < 4096, "the kernel takes no more");
            }
        }
    }

    /// A call that is refused with any arguments must not be allowed elsewhere: one of the two lines would be wrong.
    #[test]
    fn nothing_is_allowed_and_refused() {
        let names = |file, sections: [&'static str; 2]| -> Vec<String> {
            let plain = |rule: Value| rule.get("args").is_none().then(|| rule["syscall"].as_str().unwrap().to_owned());
            rules(file, sections.into_iter()).unwrap().into_iter().filter_map(plain).collect()
        };
        let sections = ["always", "on_x86_64"];
        let (allowed, refused) = (names(ALLOWED, sections), names(REFUSED, sections));
        assert!(refused.iter().all(|name| !allowed.contains(name)));
        for name in ["openat2", "clone3", "io_uring_setup"] {
            assert!(!allowed.iter().any(|known| known == name), "{name} has its arguments behind a pointer");
        }
    }
}
