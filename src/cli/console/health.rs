//! The state of the installation, for the console.

use serde::Deserialize;

use super::topics::{table, texts};
use crate::cli::last_backup::BackupStatus;
use crate::cli::{human_size, human_time};
use crate::console::view::Section;
use crate::model::time::Timestamp;
use crate::socket::protocol::DaemonStatus;
use crate::state::Usage;

/// State of the installation that is not in the store.
pub(super) struct Around {
    pub(super) status: DaemonStatus,
    pub(super) usage: Usage,
    pub(super) backup: Option<BackupStatus>,
    pub(super) examined: Option<Examined>,
}

/// Result of the checks of `hearth doctor`.
#[derive(Debug, Clone)]
pub(super) struct Examined {
    pub(super) at: Timestamp,
    pub(super) checks: Vec<Checked>,
}

/// One check, as `hearth doctor --json` has it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Checked {
    check: String,
    result: String,
    found: String,
    mend: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Report {
    checks: Vec<Checked>,
}

impl Examined {
    /// Reads the answer of `hearth doctor --json`.
    pub(super) fn read(text: &str, at: Timestamp) -> Result<Self, String> {
        let report: Report = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Ok(Self { at, checks: report.checks })
    }
}

pub(super) fn sections(around: &Around) -> Vec<Section> {
    vec![checks(around.examined.as_ref()), daemon(around), room(&around.usage), backups(around), channels(around)]
}

fn checks(examined: Option<&Examined>) -> Section {
    let columns = ["check", "result", "found", "what to do"];
    let Some(Examined { at, checks }) = examined else {
        let note = "Not checked since Hearth was started.".to_owned();
        return Section { note: Some(note), ..table("Checks", &columns, Vec::new()) };
    };
    // What is wrong comes first.
    let mut checks: Vec<&Checked> = checks.iter().collect();
    let weight = |one: &Checked| match one.result.as_str() {
        "fail" => 0,
        "warn" => 1,
        _ => 2,
    };
    checks.sort_by_key(|one| weight(one));
    let row = |one: &&Checked| {
        texts([one.check.clone(), one.result.clone(), one.found.clone(), one.mend.clone().unwrap_or_default()])
    };
    let at = human_time::local(&at.to_string());
    let note = format!("Checked at {at}, without the network: `hearth doctor` tries keys and tokens as well.");
    Section { note: Some(note), ..table("Checks", &columns, checks.iter().map(row).collect()) }
}

fn daemon(around: &Around) -> Section {
    let status = &around.status;
    let rows = [
        ("version", status.version.clone()),
        ("process", status.pid.to_string()),
        ("agents run", format!("as {}, because {}", status.runtime, status.runtime_why)),
        ("time zone", format!("{} ({})", status.zone, status.zone_from)),
        ("terminals", status.terminals.to_string()),
        ("inputs that wait", status.queued.to_string()),
    ];
    facts("Daemon", rows)
}

fn room(usage: &Usage) -> Section {
    let rows = [
        ("used", human_size::decimal(usage.used)),
        ("limit", human_size::decimal(usage.limit)),
        ("free on the disk", human_size::decimal(usage.free)),
    ];
    facts("Room", rows)
}

fn backups(around: &Around) -> Section {
    let Some(backup) = &around.backup else {
        let note = "No backup was ever made, and `[backup]` asks for none.".to_owned();
        return Section { note: Some(note), ..table("Backups", &[], Vec::new()) };
    };
    let problem = backup.problem().map(|(found, mend)| format!("{found}; {mend}"));
    let rows = std::iter::once(("last", backup.line())).chain(problem.map(|problem| ("problem", problem)));
    facts("Backups", rows)
}

fn channels(around: &Around) -> Section {
    let rows = around.status.channels.iter().map(|one| {
        let why = one.why.clone().unwrap_or_default();
        let contact = one.last_contact.clone().unwrap_or_default();
        texts([one.name.clone(), one.kind.clone(), one.state.clone(), why, contact])
    });
    table("Channels", &["name", "type", "state", "why", "last contact"], rows.collect())
}

fn facts(title: &str, rows: impl IntoIterator<Item = (&'static str, String)>) -> Section {
    let rows = rows.into_iter().map(|(name, value)| texts([name.to_owned(), value]));
    table(title, &["", ""], rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_comes_first() {
        let text = r#"{"checks":[{"check":"disk","result":"ok","found":"a","mend":null},
            {"check":"token","result":"fail","found":"b","mend":"c"},{"check":"room","result":"warn","found":"d","mend":"e"}]}"#;
        let examined = Examined::read(text, Timestamp::from_millis(0)).unwrap();
        let section = checks(Some(&examined));
        let names: Vec<&str> = section.rows.iter().map(|row| row.cells[0].text.as_str()).collect();
        assert_eq!(names, ["token", "room", "disk"]);
        assert!(checks(None).rows.is_empty() && Examined::read("no", Timestamp::from_millis(0)).is_err());
    }
}
