//! `hearth doctor --self-test`: runs a hostile agent in the current runtime, and reports the result of each attack.

use serde::{Serialize, Serializer};

use super::print::{self, Tone};
use super::{Done, Failure, daemon_status};
use crate::config::Paths;
use crate::daemon::rehearse;
use crate::daemon::selftest::{self, Finding, Verdict};
use crate::model::configure::{RuntimeKind, Settings};
use crate::state::Reader;

/// JSON output of the self-test.
#[derive(Debug, Serialize)]
pub(super) struct SelfTest {
    runtime: String,
    /// Whether agents are isolated there.
    confined: bool,
    attacks: Vec<AttackJson>,
    /// Protections that this system does not provide.
    limits: Vec<String>,
}

#[derive(Debug, Serialize)]
struct AttackJson {
    attack: &'static str,
    about: &'static str,
    tries: &'static str,
    holds: &'static str,
    /// `held`, `not_held`, `not_tried` or `not_promised`.
    #[serde(serialize_with = "as_word")]
    result: Verdict,
    detail: String,
}

/// Runs the self-test. It takes some seconds and does not touch this installation.
pub(super) fn self_test(paths: &Paths) -> Result<SelfTest, Failure> {
    let settings = settings(paths);
    let report = selftest::run(in_use(paths, &settings)?, &settings)?;
    let shown = |finding: Finding| {
        let Finding { attack, result, detail } = finding;
        AttackJson {
            attack: attack.name,
            about: attack.about,
            tries: attack.tries,
            holds: attack.holds,
            result,
            detail,
        }
    };
    let attacks = report.findings.into_iter().map(shown).collect();
    Ok(SelfTest { runtime: report.runtime, confined: report.confined, attacks, limits: report.limits })
}

impl SelfTest {
    /// Attacks that succeeded.
    pub(super) fn broken(&self) -> usize {
        self.attacks.iter().filter(|attack| attack.result == Verdict::NotHeld).count()
    }

    /// Prints each attack with its result for people, with details of failures.
    pub(super) fn print(&self) -> Done {
        print::line("")?;
        print::line(&format!("self-test in {}", self.runtime))?;
        let mut heading = "";
        for attack in &self.attacks {
            if attack.about != heading {
                heading = attack.about;
                print::line(heading)?;
            }
            let (tone, shown) = shown(attack.result);
            print::toned(tone, &format!("{shown:12}"), &format!(" {:20} it {}", attack.attack, attack.tries))?;
            if tone != Tone::Good {
                print::line(&format!("{:13}{}", "", attack.detail))?;
            }
        }
        self.limits.iter().for_each(|limit| print::note(&format!("note: {limit}")));
        Ok(())
    }
}

/// For programs.
fn as_word<S: Serializer>(verdict: &Verdict, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(match verdict {
        Verdict::Held => "held",
        Verdict::NotHeld => "not_held",
        Verdict::NotTried => "not_tried",
        Verdict::NotPromised => "not_promised",
    })
}

/// For people.
const fn shown(verdict: Verdict) -> (Tone, &'static str) {
    match verdict {
        Verdict::Held => (Tone::Good, "held"),
        Verdict::NotHeld => (Tone::Bad, "NOT HELD"),
        Verdict::NotTried => (Tone::Warning, "not tried"),
        Verdict::NotPromised => (Tone::Warning, "not promised"),
    }
}

/// Settings of the store, or the defaults without one.
fn settings(paths: &Paths) -> Settings {
    let read = |reader: Reader| reader.read(|db, txn| db.settings.get(txn, &()));
    Reader::open(paths.data()).and_then(read).ok().flatten().unwrap_or_default()
}

/// The runtime of the running daemon, or the one that a daemon would choose now.
pub(super) fn in_use(paths: &Paths, settings: &Settings) -> Result<RuntimeKind, Failure> {
    match daemon_status::ask(paths).ok().flatten() {
        Some(daemon) if daemon.runtime == RuntimeKind::Podman.as_str() => Ok(RuntimeKind::Podman),
        Some(_) => Ok(RuntimeKind::Process),
        None => Ok(rehearse(settings).map_err(|error| Failure::Failed(error.to_string()))?.0),
    }
}
