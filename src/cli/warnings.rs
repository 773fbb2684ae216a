//! What an operator should know of, for `hearth status` and the console.

use super::last_backup::BackupStatus;
use super::last_check::LastCheck;
use super::report::Report;
use super::{budgets, prerequisites, problems, speeches, tasks};
use crate::config::Paths;
use crate::daemon::{Sandbox, proof};
use crate::model::configure::RuntimeKind;
use crate::model::entity::Hold;
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

/// All warnings that cost a few rows and files, however much is stored.
pub(super) fn read(
    db: &Tables,
    txn: &Read<'_>,
    report: &Report,
    around: &Around<'_>,
) -> Result<Vec<String>, state::Error> {
    let Around { paths, daemon, sandbox, usage } = around;
    let mut warnings: Vec<String> = report.channel_warnings(*daemon).collect();
    let gaps = prerequisites::missing(paths, db, txn, *daemon)?;
    warnings.extend(gaps.into_iter().map(|gap| format!("{}; {}", gap.found, gap.mend)));
    if let Some(daemon) = daemon {
        of_daemon(db, txn, daemon, &mut warnings)?;
    }
    warnings.extend(state::look_at_place(paths.data())?);
    if let Admission::Refuse(why) = usage.admission() {
        warnings.push(format!("new work is refused: {why}"));
    }
    warnings.extend(proof::last(paths).as_ref().map(LastCheck::of).and_then(|last| last.warning()));
    let plan = db.settings.get(txn, &())?.and_then(|settings| settings.backup);
    let backup = BackupStatus::look(paths, plan.as_ref());
    warnings.extend(backup.as_ref().and_then(BackupStatus::problem).map(|(found, mend)| format!("{found}; {mend}")));
    let contained = daemon.is_some_and(|daemon| daemon.runtime == RuntimeKind::Podman.as_str());
    of_confinement(db, txn, sandbox, contained, &mut warnings)?;
    warnings.extend(report.file_warnings().chain(report.agent_warnings()));
    warnings.append(&mut tasks::failing(db, txn)?);
    warnings.append(&mut budgets::warnings(db, txn, &budgets::all(db, txn)?)?);
    warnings.extend(speeches::failing(db, txn)?);
    Ok(warnings)
}

fn of_daemon(
    db: &Tables,
    txn: &Read<'_>,
    daemon: &DaemonStatus,
    warnings: &mut Vec<String>,
) -> Result<(), state::Error> {
    let settings = db.settings.get(txn, &())?.unwrap_or_default();
    warnings.extend(runtime_change(daemon, settings.runtime));
    warnings.extend(problems::no_containers(&settings, &daemon.runtime, &daemon.runtime_why));
    let again =
        |what: String, agent: &str| format!("{what}; Hearth retries, and `hearth image build {agent}` retries now");
    let failed = daemon.builds.iter().filter_map(|build| Some(again(problems::failed_build(build)?, &build.agent)));
    warnings.extend(failed);
    warnings.extend(problems::floods(db, txn, &daemon.floods)?);
    if daemon.runtime == RuntimeKind::Process.as_str() {
        let closed = problems::networks(db, txn)?;
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
    warnings: &mut Vec<String>,
) -> Result<(), state::Error> {
    for row in db.agents.iter(txn)? {
        let (_, agent) = row?;
        let (folder, settings) = (&agent.folder, &agent.settings);
        if agent.archived.is_some() {
            continue;
        }
        if settings.unconfined {
            warnings.push(format!("agent {folder} is unconfined: it has all permissions of the user who runs Hearth"));
        } else if settings.hold(settings.provider, sandbox.confines()) == Hold::NeedsUnconfined {
            warnings.push(format!(
                "agent {folder} is not started, because agents cannot be confined here; `unconfined = true` lets it run"
            ));
        }
    }
    let cut_off = problems::cut_off_agents(db, txn, contained || sandbox.has_networks())?;
    warnings.extend(cut_off.iter().map(|agent| problems::cut_off(agent)));
    warnings.append(&mut problems::unconfined(db, txn, sandbox.confines())?);
    Ok(())
}
