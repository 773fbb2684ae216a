//! Prepares a start: directories and their owners, rules, environment and mount view.

use std::path::Path;
use std::sync::Arc;

use agent_runner::confine::CONFINE_VARIABLE;

use super::confine::Confined;
use super::environment::{Reach, environment};
use super::jail::{Jail, View, accounts, options};
use super::spawn::{Jailed, Launch};
use super::{Setup, Shared};
use crate::model::entity::Hold;
use crate::model::incarnation::IncarnationId;
use crate::runtime::owner::{give, is_shared, share, show};
use crate::runtime::redact::Secrets;
use crate::runtime::{Error, Spec, directory};

/// Directories and environment. All paths become absolute, because the runner's working directory is its group's.
pub(super) fn prepare(shared: &Arc<Shared>, mut spec: Spec) -> Result<(Launch, Secrets), Error> {
    for path in [&mut spec.session_dir, &mut spec.group_dir, &mut spec.home_dir] {
        let absolute = std::path::absolute(&*path);
        *path = absolute.map_err(|source| Error::Directory { path: path.clone(), source })?;
    }
    directory::make(&spec.group_dir)?;
    directory::make(&spec.home_dir)?;
    let run = IncarnationId::new(spec.session, spec.incarnation);
    let stopped = || shared.table.stopped(run);
    let confined = confined(&shared.setup, &spec);
    if confined.as_ref().is_some_and(|confined| confined.rules().user.is_some()) {
        give_away(&spec)?;
    }
    let reach = match &confined {
        Some(confined) => Reach { path: &confined.path, tmp: Some(&confined.tmp), marked: confined.view.is_none() },
        None => Reach { path: &shared.setup.path, tmp: None, marked: true },
    };
    let mut environment = environment(&spec, reach, &shared.setup.lookup, &stopped)?;
    if let Some(confined) = &confined {
        environment.variables.push((CONFINE_VARIABLE.into(), confined.rules_json()?.into()));
    }
    let mut launch = Launch {
        program: shared.setup.program.clone(),
        arguments: shared.setup.arguments.clone(),
        directory: spec.group_dir.clone(),
        variables: environment.variables,
        jailed: None,
    };
    launch.jailed = confined.and_then(|confined| jailed(&confined, &spec, &launch));
    Ok((launch, environment.secrets))
}

/// The rules for an agent that has to be confined.
fn confined(setup: &Setup, spec: &Spec) -> Option<Confined> {
    (spec.settings.hold(spec.provider, setup.sandbox().confines()) == Hold::Confined).then(|| Confined::of(spec, setup))
}

/// If the daemon is root, gives the agent's user what the agent has to write; it can read the rest.
fn give_away(spec: &Spec) -> Result<(), Error> {
    let told = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Directory { path, source }
    };
    for path in [&spec.session_dir.join("agent"), &spec.group_dir, &spec.home_dir] {
        give(path).map_err(told(path))?;
    }
    let host = spec.session_dir.join("host");
    show(&host).map_err(told(&host))?;
    for mount in spec.mounts.iter().filter(|mount| is_shared(mount)) {
        share(mount, true).map_err(told(&mount.source))?;
    }
    Ok(())
}

/// How to start the agent inside its mount view.
fn jailed(confined: &Confined, spec: &Spec, launch: &Launch) -> Option<Jailed> {
    let (Jail { program, user }, visible) = confined.view.as_ref()?;
    let view = View {
        rules: confined.rules(),
        visible,
        directory: &launch.directory,
        own_network: spec.settings.network.is_closed(),
        way_out: spec.network_access.as_ref(),
        becomes_user: user.is_some(),
        variables: &launch.variables,
    };
    let own = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let (uid, gid) = user.map_or(own, |user| (user, user));
    let (passwd, group) = accounts(uid, gid, &spec.home_dir);
    Some(Jailed { program: program.clone(), options: options(&view), passwd, group, user: *user })
}
