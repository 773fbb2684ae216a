//! What an operator should know of, for `hearth status` and the console; and what admins of agents should.

use super::last_backup::BackupStatus;
use super::last_check::LastCheck;
use super::report::Report;
use super::{budgets, prerequisites, problems, speeches, tasks};
use crate::config::Paths;
use crate::console::Rank;
use crate::daemon::{Sandbox, proof};
use crate::model::configure::RuntimeKind;
use crate::model::entity::{AgentSettings, Hold, ProviderKind};
use crate::socket::protocol::DaemonStatus;
use crate::state::{self, Admission, Read, Tables, Usage};

/// State that is not in the store.
pub(super) struct Around<'a> {
    pub(super) paths: &'a Paths,
    /// None if no daemon runs.
    pub(super) daemon: Option<&'a DaemonStatus>,
    pub(super) sandbox: &'a Sandbox,
    pub(super) usage: &'a Usage,
}

/// All warnings that cost a few rows and files, however much is stored. Those who do not see everything get what concerns
/// the agents that they see, and nothing about the installation.
pub(super) fn read(
    db: &Tables,
    txn: &Read<'_>,
    report: &Report,
    around: &Around<'_>,
    rank: &Rank,
) -> Result<Vec<String>, state::Error> {
    let Around { paths, daemon, sandbox, .. } = around;
    let mut warnings = Vec::new();
    if *rank == Rank::Everything {
        of_installation(db, txn, report, around, &mut warnings)?;
    }
    let gaps = prerequisites::missing(paths, db, txn, *daemon, rank)?;
    warnings.extend(gaps.into_iter().map(|gap| format!("{}; {}", gap.found, gap.mend)));
    if let Some(daemon) = daemon {
        of_running(db, txn, daemon, rank, &mut warnings)?;
    }
    let contained = daemon.is_some_and(|daemon| daemon.runtime == RuntimeKind::Podman.as_str());
    of_confinement(db, txn, sandbox, contained, rank, &mut warnings)?;
    warnings.extend(report.file_warnings(rank).chain(report.agent_warnings(rank)));
    warnings.append(&mut tasks::failing(db, txn, rank)?);
    warnings.append(&mut budgets::warnings(db, txn, rank)?);
    warnings.extend(speeches::failing(db, txn, rank)?);
    Ok(warnings)
}

/// About the daemon, the store, channels and backups.
fn of_installation(
    db: &Tables,
    txn: &Read<'_>,
    report: &Report,
    around: &Around<'_>,
    warnings: &mut Vec<String>,
) -> Result<(), state::Error> {
    let Around { paths, daemon, usage, .. } = around;
    let settings = db.settings.get(txn, &())?.unwrap_or_default();
    warnings.extend(report.channel_warnings(*daemon));
    if let Some(daemon) = daemon {
        warnings.extend(runtime_change(daemon, settings.runtime));
        warnings.extend(problems::no_containers(&settings, &daemon.runtime, &daemon.runtime_why));
    }
    warnings.extend(state::look_at_place(paths.data())?);
    if let Admission::Refuse(why) = usage.admission() {
        warnings.push(format!("new work is refused: {why}"));
    }
    warnings.extend(proof::last(paths).as_ref().map(LastCheck::of).and_then(|last| last.warning()));
    let backup = BackupStatus::look(paths, settings.backup.as_ref());
    warnings.extend(backup.as_ref().and_then(BackupStatus::problem).map(|(found, mend)| format!("{found}; {mend}")));
    Ok(())
}

/// About agents, as the daemon sees them.
fn of_running(
    db: &Tables,
    txn: &Read<'_>,
    daemon: &DaemonStatus,
    rank: &Rank,
    warnings: &mut Vec<String>,
) -> Result<(), state::Error> {
    let again =
        |what: String, agent: &str| format!("{what}; Hearth retries, and `hearth image build {agent}` retries now");
    let builds = daemon.builds.iter().filter(|build| rank.sees(&build.agent));
    warnings.extend(builds.filter_map(|build| Some(again(problems::failed_build(build)?, &build.agent))));
    warnings.extend(problems::floods(db, txn, &daemon.floods, rank)?);
    if daemon.runtime == RuntimeKind::Process.as_str() {
        let mut closed = problems::networks(db, txn)?;
        closed.retain(|agent| rank.sees(agent));
        warnings.extend((!closed.is_empty()).then(|| problems::open_network(&closed)));
    }
    Ok(())
}

fn runtime_change(daemon: &DaemonStatus, wanted: Option<RuntimeKind>) -> Option<String> {
    let wanted = wanted.map(RuntimeKind::as_str);
    (wanted != daemon.runtime_setting.as_deref()).then(|| {
        format!("the setting `runtime` is now {}; it takes effect at the next start", wanted.unwrap_or("auto"))
    })
}

/// `contained` says whether agents run in containers.
fn of_confinement(
    db: &Tables,
    txn: &Read<'_>,
    sandbox: &Sandbox,
    contained: bool,
    rank: &Rank,
    warnings: &mut Vec<String>,
) -> Result<(), state::Error> {
    let lack = if contained { None } else { sandbox.lacks_networks() };
    let needs_rules =
        |settings: &AgentSettings| settings.network.has_rules() && settings.provider != ProviderKind::Echo;
    for row in db.agents.iter(txn)? {
        let (_, agent) = row?;
        let (folder, settings) = (&agent.folder, &agent.settings);
        if agent.archived.is_some() || !rank.sees(folder.as_str()) {
            continue;
        }
        if settings.unconfined {
            warnings.push(format!("agent {folder} is unconfined: it has all permissions of the user who runs Hearth"));
        } else if settings.hold(settings.provider, sandbox.confines()) == Hold::NeedsUnconfined {
            warnings.push(format!(
                "agent {folder} is not started, because agents cannot be confined here; `unconfined = true` lets it run"
            ));
        } else if let Some((why, mend)) = lack.as_ref().filter(|_| needs_rules(settings)) {
            warnings.push(problems::unlimited(folder.as_str(), settings, why, mend));
        }
    }
    let cut_off = problems::cut_off_agents(db, txn, contained || sandbox.has_networks())?;
    warnings.extend(cut_off.iter().filter(|agent| rank.sees(agent)).map(|agent| problems::cut_off(agent)));
    warnings.append(&mut problems::unconfined(db, txn, sandbox.confines(), rank)?);
    Ok(())
}
