//! The host's side of a container's mounts: creates them, checks them, and gives them to the agent's user.

use std::io;
use std::path::{Path, PathBuf};

use super::spec::{Bind, GATE, NETWORK, places};
use crate::model::bound_secret::BUNDLE;
use crate::model::entity::Access;
use crate::model::gateway::ModelAccess;
use crate::model::network::NETWORK_FILES;
use crate::runtime::owner::{give, is_shared, share, show};
use crate::runtime::{Error, Spec, directory};

/// Creates missing directories and returns the mounts with links resolved.
pub(super) fn prepare(spec: &Spec, give_away: bool) -> Result<Vec<Bind>, Error> {
    directory::make(&spec.group_dir)?;
    directory::make(&spec.home_dir.join(".claude"))?;
    let writes_group = spec.settings.access_to_folder() == Access::ReadWrite;
    let host = settle(&spec.session_dir.join("host"))?;
    let mut binds = Vec::new();
    for (source, target, access) in places(spec, writes_group) {
        let source = settle(&source)?;
        if give_away && !source.starts_with(&host) {
            give(&source).map_err(|error| Error::Directory { path: source.clone(), source: error })?;
        } else if give_away {
            show(&source).map_err(|error| Error::Directory { path: source.clone(), source: error })?;
        }
        binds.push(Bind { source, target: target.to_owned(), access });
    }
    for mount in &spec.mounts {
        let failed = |error| Error::Directory { path: mount.source.clone(), source: error };
        let source = if is_shared(mount) { share(mount, give_away).map_err(failed)? } else { mount.source.clone() };
        binds.push(Bind { source, target: mount.target.clone(), access: mount.access });
    }
    if let Some(directory) = spec.model_access.as_ref().and_then(ModelAccess::directory) {
        binds.push(Bind { source: directory.to_owned(), target: GATE.into(), access: Access::ReadOnly });
    }
    if let Some(access) = &spec.network_access {
        binds.push(Bind { source: access.directory.clone(), target: NETWORK.into(), access: Access::ReadOnly });
        for (name, _) in NETWORK_FILES {
            let (source, target) = (access.directory.join(name), Path::new("/etc").join(name));
            binds.push(Bind { source, target, access: Access::ReadOnly });
        }
        if let Some(bundle) = access.secrets.as_ref().and_then(|secrets| secrets.bundle.clone()) {
            binds.push(Bind { source: bundle, target: BUNDLE.into(), access: Access::ReadOnly });
        }
    }
    check(&binds)?;
    Ok(binds)
}

/// Checks that every source is still where it was when it was resolved: Podman follows links, and agents can create
/// some.
pub(super) fn check(binds: &[Bind]) -> Result<(), Error> {
    for bind in binds {
        let found = bind.source.canonicalize();
        let found = found.map_err(|source| Error::Directory { path: bind.source.clone(), source })?;
        if found != bind.source {
            return Err(Error::Moved { path: bind.source.clone(), found });
        }
        if bind.source.to_str().is_none() || bind.target.to_str().is_none() {
            return Err(Error::Path { path: bind.source.clone() });
        }
    }
    Ok(())
}

/// Resolves one of Hearth's own directories. The operator chooses the path to it; the last component must be a
/// directory.
fn settle(path: &Path) -> Result<PathBuf, Error> {
    let failed = |source| Error::Directory { path: path.to_owned(), source };
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(failed(io::ErrorKind::NotFound.into()));
    };
    let settled = parent.canonicalize().map_err(failed)?.join(name);
    if settled.symlink_metadata().map_err(failed)?.is_dir() {
        Ok(settled)
    } else {
        Err(failed(io::ErrorKind::NotADirectory.into()))
    }
}
