//! `hearth apply FILE` and `hearth export`.

mod merge;
mod reset_words;
mod resets;

use std::path::PathBuf;

use clap::Args;

use resets::Resets;

use super::change::Configured;
use super::configuration::UserEntry;
use super::{Done, Failure, change, configuration, local_owner, mount_args, net, print, problems, users};
use crate::config::Paths;
use crate::config::file::write;
use crate::daemon::opening::Opening;
use crate::daemon::sandbox;
use crate::model::address::UserId;
use crate::model::bound_secret::AgentSecret;
use crate::model::configure::{Change, Configure, RoleSpec, UserSpec};
use crate::model::entity::{AgentSettings, Folder, Hold, Origin};
use crate::socket::change::ChangeRequest;
use crate::socket::protocol::LINE_MAX;
use crate::state::{self, Reader};

#[derive(Debug, Args)]
pub(super) struct ApplyArgs {
    /// The file, usually hearth.toml; `-` is standard input
    file: PathBuf,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
    /// Also remove what an earlier file added and this one does not name
    #[arg(long)]
    prune: bool,
    /// Change only the keys that the file names
    #[arg(long, conflicts_with = "prune")]
    merge: bool,
    /// Do not ask before keys that the file omits are reset
    #[arg(long)]
    yes: bool,
    /// Also take the role from the last owner
    #[arg(long)]
    force: bool,
    /// Do not make yourself owner of a new installation whose file names no owner
    #[arg(long)]
    no_owner: bool,
    /// Create a store even where parts of an installation without one, or other files, are
    #[arg(long)]
    new: bool,
}

/// Applies a file atomically. At a terminal, people see the changes first.
pub(super) fn apply(paths: &Paths, args: &ApplyArgs, json: bool) -> Done {
    let name = args.file.display().to_string();
    let plan =
        ChangeRequest { toml: read(args)?, from_file: true, prune: args.prune, dry_run: true, ..Default::default() };
    let configure = plan.configure(&name)?;
    warn_of_unconfined(paths, &configure);
    mount_args::warn_of_mounts(&configure);
    warn_of_networks(&configure);
    problems::warn_of_recall(&configure);
    let opening = Opening::or_new(args.new);
    let mut looked = look(paths, args, &plan, &name)?;
    warn_of_unknown_secrets(paths, &looked.plan.configure(&name)?)?;
    let (shown, resets) = Resets::split(looked.planned.clone(), &plan.toml);
    if json && args.dry_run {
        change::print(&looked.planned, json)?;
    } else if !json {
        change::print(&shown, json)?;
        resets.print()?;
    }
    if args.dry_run {
        return Ok(());
    }
    resets.agree(args.yes, json)?;
    if let Some(owner) = &looked.last_owner {
        users::agree_to_no_owner(owner, args.force, json)?;
    }
    for _ in 0..change::LOOKS {
        let made_owner = !looked.plan.edits.is_empty();
        match change::submit_by(paths, &ChangeRequest { dry_run: false, ..looked.plan }, &name, opening) {
            Err(Failure::Changed(_)) => {}
            Err(failure) => return Err(failure),
            Ok(done) if json => {
                change::add_notes(&mut looked.planned, &done);
                return change::print(&looked.planned, true);
            }
            Ok(done) => {
                change::print_notes(&done)?;
                return if made_owner { local_owner::announce() } else { Ok(()) };
            }
        }
        // The concurrent change may not concern this file.
        let next = look(paths, args, &plan, &name)?;
        if (!json && next.planned != looked.planned) || next.last_owner != looked.last_owner {
            return Err(changed());
        }
        looked = next;
    }
    Err(changed())
}

/// The effect of a file on one version of the configuration.
struct PlannedChange {
    /// The request, valid only for that version.
    plan: ChangeRequest,
    planned: Configured,
    /// An owner who loses the role, if no owner is left.
    last_owner: Option<UserId>,
}

/// Computes report and differences from the same version of the configuration. The transaction rejects any other
/// version.
fn look(paths: &Paths, args: &ApplyArgs, plan: &ChangeRequest, name: &str) -> Result<PlannedChange, Failure> {
    let opening = Opening::or_new(args.new);
    for _ in 0..change::LOOKS {
        let known = configuration::read(paths)?;
        let toml = if args.merge { merge::merged(&known, &plan.toml, name)? } else { plan.toml.clone() };
        let mut plan = ChangeRequest { expected: known.digest, toml, ..plan.clone() };
        if !args.no_owner
            && known.users.is_empty()
            && known.agents.is_empty()
            && !names_owner(&plan.configure(name)?.changes)?
        {
            plan.edits.push(local_owner::grant()?);
        }
        match change::submit_by(paths, &plan, name, opening) {
            Err(Failure::Changed(_)) => {}
            planned => {
                let mut planned = planned?;
                let changes = plan.configure(name)?.changes;
                change::explain(&mut planned, &known.diff(&changes));
                let last_owner = last_owner(&known.users, &changes, plan.prune);
                return Ok(PlannedChange { plan, planned, last_owner });
            }
        }
    }
    Err(changed())
}

/// Whether a file says who is owner, or what the local user may do.
fn names_owner(changes: &[Change]) -> Result<bool, Failure> {
    let Change::Grant(me, _) = local_owner::grant()? else { return Ok(false) };
    Ok(changes.iter().any(|change| match change {
        Change::PutUser(spec) => spec.id == me || spec.roles.contains(&RoleSpec::Owner),
        _ => false,
    }))
}

/// An owner who loses the role by these changes, if no owner is left.
fn last_owner(known: &[UserEntry], changes: &[Change], prune: bool) -> Option<UserId> {
    let is_owner = |spec: &UserSpec| spec.roles.contains(&RoleSpec::Owner);
    let named = |change: &Change| match change {
        Change::PutUser(spec) => Some(spec.clone()),
        _ => None,
    };
    let named: Vec<UserSpec> = changes.iter().filter_map(named).collect();
    let stays = |entry: &&UserEntry| {
        let is_named = named.iter().any(|spec| spec.id == entry.spec.id);
        !is_named && is_owner(&entry.spec) && !(prune && entry.origin == Origin::File)
    };
    if named.iter().any(is_owner) || known.iter().any(|entry| stays(&entry)) {
        return None;
    }
    known.iter().find(|entry| is_owner(&entry.spec)).map(|entry| entry.spec.id.clone())
}

fn changed() -> Failure {
    Failure::Failed(
        "the configuration changed meanwhile, so this file would now have a different effect: nothing was applied; \
         check with --dry-run"
            .to_owned(),
    )
}

/// Writes the whole configuration as a file. Applying it changes nothing.
pub(super) fn export(paths: &Paths, json: bool) -> Done {
    let (configuration, decisions) = Reader::open(paths.data())?
        .read(|db, txn| Ok::<_, state::Error>((configuration::collect(db, txn)?, net::decisions(db, txn)?)))?;
    let mut toml = write::write(&configuration.changes());
    if !decisions.is_empty() {
        toml.push_str(
            "\n# People decided about hosts. Applying a file keeps that; another installation needs these commands:\n",
        );
        decisions.iter().for_each(|command| toml.push_str(&format!("#   {command}\n")));
    }
    if u64::try_from(toml.len()).is_ok_and(|bytes| bytes > FILE_MAX) {
        print::warning(&format!("this file has more than {FILE_MAX} bytes: `hearth apply` reads it only in parts"));
    }
    if json { print::json(&serde_json::json!({ "toml": toml })) } else { print::verbatim(toml.trim_end()) }
}

/// Warns about agents that could not start here as processes because they, or their networks, cannot be confined. They
/// are accepted, because the daemon may run elsewhere.
fn warn_of_unconfined(paths: &Paths, configure: &Configure) {
    let confined: Vec<_> = configure.changes.iter().filter_map(needs_confinement).collect();
    if confined.is_empty() {
        return;
    }
    let sandbox = sandbox(paths);
    let lack = sandbox.lacks_networks();
    for (folder, settings) in confined {
        if let Some(why) = sandbox.missing() {
            let what = "does not start here without `unconfined = true`, which gives it all permissions of your user";
            print::warning(&format!("agent {folder} {what}: {why}"));
        } else if let Some((why, mend)) = lack.as_ref().filter(|_| settings.network.has_rules()) {
            print::warning(&problems::unlimited(folder.as_str(), settings, why, mend));
        }
    }
}

/// The agent of a change, if it starts only where it can be confined.
fn needs_confinement(change: &Change) -> Option<(&Folder, &AgentSettings)> {
    let Change::PutAgent(folder, settings) = change else { return None };
    let mut providers =
        std::iter::once(settings.provider).chain(settings.fallback.iter().map(|fallback| fallback.provider));
    providers.any(|provider| settings.hold(provider, false) == Hold::NeedsUnconfined).then_some((folder, settings))
}

/// Warns about agents whose provider cannot be reached, or that have keys which Hearth could keep from them.
fn warn_of_networks(configure: &Configure) {
    for change in &configure.changes {
        let Change::PutAgent(folder, settings) = change else { continue };
        if settings.is_cut_off(true) {
            print::warning(&problems::cut_off(folder.as_str()));
        }
        let agent = folder.as_str();
        if let Some(warning) = problems::key_holder(agent, settings) {
            print::warning(&warning);
        }
        if let Some((found, mend)) = problems::unlisted(agent, settings) {
            print::warning(&format!("{found}; {mend}"));
        }
    }
}

/// Warns about secrets of agents that neither the file nor, if the file has none, the installation defines.
fn warn_of_unknown_secrets(paths: &Paths, configure: &Configure) -> Done {
    let of_file = configure.changes.iter().find_map(|change| match change {
        Change::PutSettings(settings) => Some(settings.secrets.clone()),
        _ => None,
    });
    let secrets = match of_file {
        Some(secrets) => secrets,
        None => configuration::read(paths)?.settings.unwrap_or_default().secrets,
    };
    for change in &configure.changes {
        let Change::PutAgent(folder, settings) = change else { continue };
        for used in &settings.secrets {
            let (AgentSecret { variable, .. }, secret) = (used, used.used().name());
            if !secrets.iter().any(|known| known.name == secret) {
                print::warning(&format!(
                    "`{variable}` of agent {folder} stands for the secret {secret}, which is not defined; add \
                     `[secrets.{secret}]`, or remove the variable"
                ));
            }
        }
    }
    Ok(())
}

/// Largest file that is read, about 80,000 chats. Escaped as a JSON string, it still fits into one line of the socket.
const FILE_MAX: u64 = 16 << 20;
const _: () = assert!(FILE_MAX as usize * 2 < LINE_MAX);

fn read(args: &ApplyArgs) -> Result<String, Failure> {
    use std::io::Read as _;
    let name = args.file.display();
    let mut text = String::new();
    let read = if args.file.as_os_str() == "-" {
        std::io::stdin().take(FILE_MAX + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(&args.file).and_then(|file| file.take(FILE_MAX + 1).read_to_string(&mut text))
    };
    match read {
        Ok(bytes) if u64::try_from(bytes).is_ok_and(|bytes| bytes > FILE_MAX) => {
            Err(Failure::Failed(format!("{name} has more than {FILE_MAX} bytes; apply it in parts, without --prune")))
        }
        Ok(_) => Ok(text),
        Err(error) => Err(Failure::Failed(format!(
            "{name} cannot be read: {error}; give a file like hearth.toml, or `-` for standard input"
        ))),
    }
}
