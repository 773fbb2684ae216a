//! `hearth completions SHELL` and `hearth man DIR`, generated from the definition of the commands.
//!
//! The scripts for shells ask this program for completions, so that these have the names and ids of the store.

use std::collections::BTreeSet;
use std::path::Path;

use clap::{Arg, Command};
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};

use super::{Done, Failure, configuration, print};
use crate::config::Paths;
use crate::config::env::env_lookup;
use crate::state::{self, Reader};

/// The variable in which a shell's script asks for completions. Its value is the name of the shell.
const ASKED: &str = "HEARTH_COMPLETE";
/// zsh loads the script as the function `_hearth` when it first completes, and expects that call to complete.
const FIRST_ZSH: &str = r#"
if [ "$funcstack[1]" = "_hearth" ]; then
    _clap_dynamic_completer_hearth "$@"
fi
"#;
/// The function that [`COLONS_BASH`] calls.
const CLAP_BASH: &str = "-F _clap_complete_hearth hearth";
/// bash ends a word at a colon, and ids contain colons: the parts are joined, and answers lose what is typed already.
const COLONS_BASH: &str = r#"
_hearth() {
    local word=${COMP_LINE:0:COMP_POINT} at=$COMP_CWORD joined= parts
    word=${word##*[[:space:]]}
    if [[ $word != *:* || $COMP_WORDBREAKS != *:* ]]; then
        _clap_complete_hearth "$@"
        return
    fi
    joined=${COMP_WORDS[at]}
    while [[ $joined != "$word" && $at -gt 1 ]]; do
        at=$((at - 1))
        joined=${COMP_WORDS[at]}$joined
    done
    [[ $joined == "$word" ]] || return 0
    parts=("${COMP_WORDS[@]:0:at}" "$word")
    local COMP_WORDS=("${parts[@]}") COMP_CWORD=$at
    _clap_complete_hearth "$1" "$word" "$3"
    COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*:}"}"}")
}
"#;
/// Maximum number of rows of a table that are looked at.
const ROWS_MAX: usize = 5_000;

/// Writes a script to standard output, which a shell reads to complete commands.
pub(super) fn completions(shell: Shell) -> Done {
    let name = shell.to_string();
    let shells = Shells::builtins();
    let completer = shells.completer(&name).ok_or_else(|| Failure::Failed(format!("{name} has no completions")))?;
    let mut script = Vec::new();
    completer.write_registration(ASKED, "hearth", "hearth", "hearth", &mut script)?;
    let script = String::from_utf8_lossy(&script);
    let script = match shell {
        Shell::Bash => COLONS_BASH.to_owned() + &script.replace(CLAP_BASH, "-F _hearth hearth"),
        Shell::Zsh => script.into_owned() + FIRST_ZSH,
        _ => script.into_owned(),
    };
    print::line(script.trim())
}

/// Answers a shell's script. Returns whether one asked. A failure completes nothing and is silent, because the shell
/// shows standard error in the middle of the typed line.
pub(super) fn complete(command: impl Fn() -> Command) -> bool {
    if env_lookup(ASKED).is_none_or(|shell| shell.is_empty()) {
        return false;
    }
    let place = std::env::current_dir().ok();
    let asked = CompleteEnv::with_factory(|| with_names(command(), &[]));
    drop(asked.var(ASKED).bin("hearth").completer("hearth").try_complete(std::env::args_os(), place.as_deref()));
    true
}

/// Kinds of names in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Agent,
    Chat,
    User,
    Channel,
    Session,
    Task,
    Approval,
    Question,
    Skip,
    /// Subjects of `hearth why` besides messages, and `latest`.
    Explained,
}

/// Adds completion of the store's names to arguments. `within` has the names of the outer commands.
fn with_names(command: Command, within: &[String]) -> Command {
    let within: Vec<String> = within.iter().cloned().chain([command.get_name().to_owned()]).collect();
    // Sessions of workspaces have other ids, and a new agent gets a new name.
    let path: Vec<&str> = within.iter().skip(1).map(String::as_str).collect();
    if matches!(path.as_slice(), ["session" | "workspace" | "agent", ..] | ["agents", "add"]) {
        return command;
    }
    let names: Vec<String> = command.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    let explains = path == ["why"];
    let kind = |arg: &Arg| match arg.get_id().as_str() {
        "message" if explains => Some(Named::Explained),
        _ => named(arg),
    };
    let command = command.mut_args(|arg| match kind(&arg) {
        Some(kind) => arg.add(ArgValueCandidates::new(move || candidates(kind))),
        None => arg,
    });
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, |one| with_names(one, &within)))
}

fn named(arg: &Arg) -> Option<Named> {
    if !arg.get_action().takes_values() {
        return None;
    }
    match arg.get_id().as_str() {
        "agent" | "folder" | "to_agent" => Some(Named::Agent),
        "chat" => Some(Named::Chat),
        "user" => Some(Named::User),
        "channel" => Some(Named::Channel),
        "session" => Some(Named::Session),
        "task" => Some(Named::Task),
        "approval" => Some(Named::Approval),
        "question" => Some(Named::Question),
        "skip" => Some(Named::Skip),
        _ => None,
    }
}

fn candidates(kind: Named) -> Vec<CompletionCandidate> {
    let names = Paths::find(None).ok().and_then(|paths| read(&paths, kind).ok()).unwrap_or_default();
    names.into_iter().filter(|name| is_plain(name)).map(CompletionCandidate::new).collect()
}

/// Whether a name means itself in every shell. Others are not completed: people and networks choose them, and a shell
/// would run what they contain.
fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./:@+".contains(&byte))
}

fn read(paths: &Paths, kind: Named) -> Result<BTreeSet<String>, state::Error> {
    let ids = |kind| Reader::open(paths.data())?.read(|db, txn| ids(db, txn, kind));
    match kind {
        Named::Agent => Ok(configuration::read(paths)?.agents.iter().map(|one| one.folder.to_string()).collect()),
        Named::User => Ok(configuration::read(paths)?.users.iter().map(|one| one.spec.id.to_string()).collect()),
        Named::Channel => Ok(configuration::read(paths)?.channels.iter().map(|one| one.name.to_string()).collect()),
        Named::Chat => {
            let place = |one: &configuration::ChatEntry| format!("{}/{}", one.spec.channel, one.spec.platform_id);
            Ok(configuration::read(paths)?.chats.iter().map(place).collect())
        }
        Named::Session | Named::Task | Named::Approval | Named::Question | Named::Skip => ids(kind),
        Named::Explained => {
            let mut all = BTreeSet::from(["latest".to_owned()]);
            for kind in [Named::Session, Named::Task, Named::Approval, Named::Question] {
                all.extend(ids(kind)?);
            }
            Ok(all)
        }
    }
}

/// The ids of a table.
fn ids(db: &state::Tables, txn: &state::Read<'_>, kind: Named) -> Result<BTreeSet<String>, state::Error> {
    match kind {
        Named::Task => db.tasks.iter(txn)?.take(ROWS_MAX).map(|row| Ok(row?.0.to_string())).collect(),
        Named::Approval => db.approvals.iter(txn)?.take(ROWS_MAX).map(|row| Ok(row?.0.to_string())).collect(),
        Named::Question => db.questions.iter(txn)?.take(ROWS_MAX).map(|row| Ok(row?.0.to_string())).collect(),
        Named::Skip => db.skips.iter(txn)?.take(ROWS_MAX).map(|row| Ok(row?.0.to_string())).collect(),
        Named::Session => {
            let rows = db.sessions.iter(txn)?.take(ROWS_MAX);
            let mut found = BTreeSet::new();
            for row in rows {
                let (key, session) = row?;
                if session.chat().is_some() {
                    found.insert(key.session.to_string());
                }
            }
            Ok(found)
        }
        Named::Agent | Named::Chat | Named::User | Named::Channel | Named::Explained => Ok(BTreeSet::new()),
    }
}

/// Writes a page for the program and one for each of its commands.
pub(super) fn man(dir: &Path, command: Command) -> Done {
    let failed = |error: std::io::Error| Failure::Failed(format!("{}: {error}", dir.display()));
    std::fs::create_dir_all(dir).map_err(failed)?;
    clap_mangen::generate_to(command.disable_help_subcommand(true), dir).map_err(failed)?;
    print::note(&format!("manual pages are in {}", dir.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_mean_themselves_in_a_shell_are_completed() {
        for (name, plain) in [
            ("main", true),
            ("telegram/-100:5", true),
            ("matrix:@ann.b+c:x.org", true),
            ("", false),
            ("-rf", false),
            ("~root", false),
            ("$(touch x)", false),
            ("a`b`", false),
            ("a b", false),
            ("a\u{b}b", false),
            ("a\nb", false),
            ("a\u{1b}[2J", false),
            ("a;b", false),
            ("a*", false),
            ("é", false),
            ("a'b", false),
            ("a\\b", false),
        ] {
            assert_eq!(is_plain(name), plain, "{name:?}");
        }
    }
}
