//! The environment of a runner: only `PATH` from the daemon, plus what the agent's configuration asks for.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::secret::Lookup;
use super::spawn::{LIFE_FD, LOCK_FD};
use crate::model::gateway::ModelAccess;
use crate::model::mount::{APP_SKILLS, EXTRA, GLOBAL, Mount, PROJECT, TRUSTED};
use crate::runtime::environment::{Environment, Places, configured};
use crate::runtime::{Error, Spec};

/// Parts of an agent's surroundings that its variables name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach<'a> {
    /// Where it finds programs.
    pub(super) path: &'a OsStr,
    /// Its temporary directory, if it is not the system's.
    pub(super) tmp: Option<&'a Path>,
    /// Whether it inherits the mark by which the next daemon finds it.
    pub(super) marked: bool,
}

/// Later variables win: the configuration may change `PATH` or `LANG`, but nothing that the runner relies on.
pub(super) fn environment(
    spec: &Spec,
    reach: Reach<'_>,
    lookup: &Lookup,
    stopped: &dyn Fn() -> bool,
) -> Result<Environment, Error> {
    // The mount view shows the directory where it is.
    let gate = spec.model_access.as_ref().and_then(ModelAccess::directory).unwrap_or(Path::new(""));
    let network = spec.network_access.as_ref().map_or(Path::new(""), |access| &access.directory);
    let mut environment = configured(spec, lookup, stopped, Places { gate, network })?;
    let mut variables: Vec<(OsString, OsString)> =
        vec![("PATH".into(), reach.path.to_owned()), ("LANG".into(), "C.UTF-8".into())];
    variables.append(&mut environment.variables);
    variables.extend([
        ("HOME".into(), spec.home_dir.clone().into_os_string()),
        ("TZ".into(), spec.timezone.clone().into()),
        ("HEARTH_ROOTS".into(), roots(spec, reach.tmp)?.into()),
        ("HEARTH_INCARNATION".into(), spec.incarnation.to_string().into()),
        ("HEARTH_LIFE_FD".into(), LIFE_FD.to_string().into()),
        ("NANOCLAW_SESSION_NAME".into(), spec.session_name.as_str().into()),
    ]);
    if reach.marked {
        variables.push(("HEARTH_LOCK_FD".into(), LOCK_FD.to_string().into()));
    }
    environment.variables = variables;
    Ok(environment)
}

/// Where the runner finds the directories that have fixed paths in a container.
fn roots(spec: &Spec, tmp: Option<&Path>) -> Result<String, Error> {
    let text = |path: &Path| path.to_str().map(str::to_owned).ok_or_else(|| Error::Path { path: path.to_owned() });
    let mut roots = serde_json::json!({
        "session": text(&spec.session_dir)?,
        "group": text(&spec.group_dir)?,
        "home": text(&spec.home_dir)?,
    });
    let Some(all) = roots.as_object_mut() else { return Ok(roots.to_string()) };
    if let Some(tmp) = tmp {
        all.insert("tmp".to_owned(), text(tmp)?.into());
    }
    for Mount { source, target, .. } in &spec.mounts {
        let below_extra = target.starts_with(EXTRA) && source.is_dir();
        match target.to_str() {
            Some(GLOBAL) => drop(all.insert("global".to_owned(), text(source)?.into())),
            Some(TRUSTED) => drop(all.insert("trusted".to_owned(), text(source)?.into())),
            Some(APP_SKILLS) => drop(all.insert("skills".to_owned(), text(source)?.into())),
            // The CLI takes directories, but of this one the agent may read a single file.
            Some(PROJECT) => {
                drop(all.insert("project".to_owned(), text(source.parent().unwrap_or(source))?.into()));
            }
            _ if below_extra => {
                let extra = all.entry("extra").or_insert_with(|| serde_json::json!([]));
                extra
                    .as_array_mut()
                    .into_iter()
                    .try_for_each(|list| text(source).map(|path| list.push(path.into())))?;
            }
            _ => {}
        }
    }
    Ok(roots.to_string())
}
