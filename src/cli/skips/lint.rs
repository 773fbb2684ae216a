//! `hearth skips lint`: finds summaries that will never be read, and rules of a tile without a test.

use std::path::Path;

use serde::Serialize;

use crate::cli::{Done, Failure, entity, lookup, print};
use crate::clock;
use crate::config::Paths;
use crate::contracts::skips::{self, Strange};
use crate::contracts::tile::{self, Flaw};
use crate::model::entity::Folder;
use crate::model::id::AgentId;
use crate::model::message::MessageState;
use crate::model::skip::{FoundSkip, SkipReport, SkipTrouble};
use crate::model::time::{Awake, Millis, Timestamp};
use crate::state::{self, InboxKey, Read, Reader, Tables, Text};

/// Age at which a summary should have been read: the interval of the skill that looks after agents.
const STALE: Millis = Millis::minutes(15);
/// Time limit for writing a file.
const WRITING: Millis = Millis::minutes(1);
/// Tolerance for timestamps in whole seconds on one machine.
const ROUNDING: Millis = Millis::seconds(1);

#[derive(Debug, Serialize)]
struct FindingJson {
    /// `malformed`, `unreadable`, `version`, `stale`, `unknown-skill`, `future`, `temporary`, `name`, `too-many`; of tiles
    /// `no-rule`, `no-examples`, `same-name`, `no-test`, `stray-test`, `too-many`.
    rule: &'static str,
    /// Folder of the agent; null for a tile.
    agent: Option<String>,
    /// The file, or the example of a tile.
    what: String,
    message: String,
}

/// Checks the folders of agents.
pub(super) fn folders(paths: &Paths, only: Option<&str>, json: bool) -> Done {
    let reader = Reader::open(paths.data())?;
    let mut agents = reader.read(super::super::configuration::collect)?.agents;
    if let Some(only) = only {
        agents.retain(|agent| agent.folder.as_str() == only);
        if agents.is_empty() {
            return Err(entity::missing("agent", only));
        }
    }
    let mut findings = Vec::new();
    for agent in agents {
        let look = LintPass { paths, folder: &agent.folder, now: clock::wall() };
        let found = skips::find(paths, &agent.folder)?;
        for skip in &found.skips {
            let at_rest = match &skip.content {
                Ok(report) => reader.read(|db, txn| is_at_rest(db, txn, agent.id, &skip.skill, report))?,
                Err(_) => true,
            };
            look.at_skip(skip, at_rest, &mut findings)?;
        }
        for strange in &found.strange {
            look.at_strange(strange, &mut findings)?;
        }
        if found.cut {
            look.note("too-many", "", "there are more files than Hearth checks".to_owned(), &mut findings);
        }
    }
    conclude(&findings, json)
}

/// Checks a tile.
pub(super) fn tile(dir: &Path, json: bool) -> Done {
    let describe = |flaw: Flaw| {
        let (rule, what, message) = match flaw {
            Flaw::NoRule(why) => ("no-rule", tile::RULE.to_owned(), why),
            Flaw::NoExamples => {
                let why = "it has no list of examples under `## Forbidden patterns`";
                ("no-examples", tile::RULE.to_owned(), why.to_owned())
            }
            Flaw::SameName(name) => {
                ("same-name", name, "another example has the same name; change its beginning".into())
            }
            Flaw::NoTest(name) => {
                let how = format!("it has no test; write `forbidden-pattern: {name}` in a test below `tests/`");
                ("no-test", name, how)
            }
            Flaw::Stray(name, file) => {
                ("stray-test", name, format!("{} refers to an example that is not in the rule", file.display()))
            }
            Flaw::TooMany => ("too-many", String::new(), "there are more files than Hearth checks".to_owned()),
        };
        FindingJson { rule, agent: None, what, message }
    };
    let findings: Vec<FindingJson> = tile::lint(dir)?.into_iter().map(describe).collect();
    conclude(&findings, json)
}

fn conclude(findings: &[FindingJson], json: bool) -> Done {
    if json {
        print::json(&serde_json::json!({ "clean": findings.is_empty(), "findings": findings }))?;
    } else if findings.is_empty() {
        print::line("nothing leaked")?;
    } else {
        let row = |one: &FindingJson| {
            vec![one.rule.to_owned(), one.agent.clone().unwrap_or_default(), one.what.clone(), one.message.clone()]
        };
        print::table(&["RULE", "AGENT", "WHAT", "WHY"], findings.iter().map(row).collect())?;
    }
    if findings.is_empty() { Ok(()) } else { Err(Failure::Told) }
}

/// Check of one folder.
struct LintPass<'a> {
    paths: &'a Paths,
    folder: &'a Folder,
    now: Timestamp,
}

impl LintPass<'_> {
    fn at_skip(&self, skip: &FoundSkip, at_rest: bool, findings: &mut Vec<FindingJson>) -> Result<(), Failure> {
        let file = skips::file_name(&skip.skill);
        match &skip.content {
            Ok(report) if report.occurred > self.now.plus(ROUNDING) => {
                let why = format!("occurred_at is {}, which is in the future", report.occurred);
                self.note("future", &file, why, findings);
            }
            Ok(_) => {}
            Err(trouble) => {
                let rule = match trouble {
                    SkipTrouble::Version(_) => "version",
                    SkipTrouble::Malformed(_) => "malformed",
                    SkipTrouble::Unreadable(_) => "unreadable",
                };
                self.note(rule, &file, trouble.to_string(), findings);
            }
        }
        if !skips::is_known(self.paths, self.folder, &skip.skill)? {
            self.note("unknown-skill", &file, format!("the agent has no skill {}", skip.skill), findings);
        }
        if at_rest && self.is_older(&file, STALE)? {
            let minutes = STALE.get() / 60_000;
            let why = format!("not removed for {minutes} minutes, and no turn is running that could remove it");
            self.note("stale", &file, why, findings);
        }
        Ok(())
    }

    fn at_strange(&self, strange: &Strange, findings: &mut Vec<FindingJson>) -> Result<(), Failure> {
        match strange {
            Strange::NoSkill(name) => {
                let why = "not the name of a skill: it must be tessl__, then words of a-z and 0-9 with - between them";
                self.note("name", name, why.to_owned(), findings);
            }
            // A file that is being written now is not an orphan.
            Strange::Temporary(name) if self.is_older(name, WRITING)? => {
                self.note("temporary", name, "it was never finished".to_owned(), findings);
            }
            Strange::Temporary(_) => {}
        }
        Ok(())
    }

    fn is_older(&self, file: &str, age: Millis) -> Result<bool, Failure> {
        let modified = skips::modified(self.paths, self.folder, file)?;
        Ok(modified.is_some_and(|modified| self.now.since(modified) > age))
    }

    fn note(&self, rule: &'static str, what: &str, message: String, findings: &mut Vec<FindingJson>) {
        findings.push(FindingJson { rule, agent: Some(self.folder.to_string()), what: what.to_owned(), message });
    }
}

/// Whether no current turn of an agent could own a summary.
fn is_at_rest(
    db: &Tables,
    txn: &Read<'_>,
    agent: AgentId,
    skill: &str,
    report: &SkipReport,
) -> Result<bool, state::Error> {
    let file = Text::new(format!("{skill}/{}", report.digest.as_str())).ok();
    let known = match file {
        Some(file) => db.skips_by_file.last_in(txn, &(agent, file))?,
        None => None,
    };
    let noticed: Option<Awake> = match known {
        Some((key, ())) => db.skips.get(txn, &key.skip)?.map(|skip| skip.noticed),
        None => None,
    };
    for row in db.claimed_messages.iter(txn)? {
        let (InboxKey { session, .. }, message) = row?;
        let own = lookup::session(db, txn, session)?.is_some_and(|row| row.agent == agent);
        if let (true, MessageState::Claimed { since, .. }) = (own, db.messages.require(txn, &message)?.state)
            && noticed.is_none_or(|noticed| since <= noticed)
        {
            return Ok(false);
        }
    }
    Ok(true)
}
