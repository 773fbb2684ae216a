//! Starts every agent of the provider `acp` for a moment and asks it what it is. Its model is not asked.

use super::trials::{IN_THE_DAEMON, Reach};
use super::{Check, CheckStatus, bad, ok};
use crate::cli::configuration::{AgentEntry, Configuration};
use crate::cli::labels;
use crate::cli::self_test;
use crate::config::{Paths, env};
use crate::daemon::handshake::{AskedAgent, Handshake, Offered, handshake};
use crate::model::configure::RuntimeKind;
use crate::model::entity::{AgentSettings, EnvValue, ProviderKind};
use crate::socket::protocol::DaemonStatus;
use crate::state::{self, Reader};

/// Name of the check.
const NAME: &str = "agent";
/// Values of a list that are shown, and the length of each.
const SHOWN: usize = 8;
const CHARS: usize = 60;

/// Asks each of these agents. One after the other, because each may take a gigabyte of memory.
pub(super) fn handshakes(
    paths: &Paths,
    reader: &Reader,
    known: &Configuration,
    daemon: Option<&DaemonStatus>,
    reach: Reach,
) -> Vec<Check> {
    let is_acp = |agent: &&AgentEntry| matches!(agent.settings.provider, ProviderKind::Acp | ProviderKind::Preset(_));
    let agents: Vec<&AgentEntry> = known.agents.iter().filter(is_acp).collect();
    if agents.is_empty() {
        return Vec::new();
    }
    let untried = |why: &str| {
        let check = |agent: &&AgentEntry| ok(NAME, format!("{} was not started: {why}", agent.folder));
        agents.iter().map(check).collect()
    };
    if reach == Reach::Offline {
        return untried("it may use a network");
    }
    let installation = known.settings.clone().unwrap_or_default();
    let install: Result<_, state::Error> = reader.read(|db, txn| db.meta.get(txn, &()));
    let (kind, install) = match (self_test::in_use(paths, &installation), install) {
        (Ok(kind), Ok(Some(meta))) => (kind, format!("{:016x}", meta.install)),
        // Other checks report these errors.
        (Err(_), _) | (_, Ok(None) | Err(_)) => return untried("there is no runtime for it"),
    };
    let ask = |agent: &&AgentEntry| {
        let AgentEntry { folder, settings, .. } = agent;
        if daemon.is_some() && needs_other_variables(settings) {
            return ok(NAME, format!("{folder} was not started: {IN_THE_DAEMON}"));
        }
        let asked = AskedAgent { install: &install, installation: &installation, kind, folder, settings };
        match handshake(paths, &asked) {
            Ok(handshake) => shaken(folder.as_str(), &handshake),
            Err(why) => {
                let found = format!("{folder} does not start: {}", plain(&why, usize::MAX));
                bad(NAME, CheckStatus::Fail, found, mend(settings, kind, &why))
            }
        }
    };
    agents.iter().map(ask).collect()
}

/// Whether it refers to variables that this process does not have. The daemon may.
fn needs_other_variables(settings: &AgentSettings) -> bool {
    let servers = settings.mcp_servers.iter().flat_map(|server| &server.env);
    let all = settings.env.iter().chain(servers);
    let mut names = all.filter_map(|(_, value)| match value {
        EnvValue::Reference(reference) => reference.strip_prefix("env:"),
        EnvValue::Plain(_) => None,
    });
    names.any(|name| env::env_lookup(name).is_none())
}

fn shaken(folder: &str, handshake: &Handshake) -> Check {
    let Handshake { agent, version, modes, models, has_tools } = handshake;
    let named = if agent.is_empty() { "an agent without a name" } else { agent };
    let lists = [list("mode", "modes", modes), list("model", "models", models)];
    let lists: String = lists.into_iter().flatten().map(|list| format!("; {list}")).collect();
    let found = format!("{folder} is {} {}{lists}", plain(named, CHARS), plain(version, CHARS));
    if *has_tools {
        return ok(NAME, format!("{found}; it has Hearth's tools"));
    }
    let mend = "it answers, but cannot send files or ask people questions: log it in, or let it start servers of tools; \
                docs/providers.md says what each agent needs";
    bad(NAME, CheckStatus::Warn, format!("{found}; it did not ask for Hearth's tools"), mend)
}

fn list(one: &str, many: &str, offered: &Offered) -> Option<String> {
    let Offered { values, current } = offered;
    let shown: Vec<String> = values.iter().take(SHOWN).map(|value| plain(value, CHARS)).collect();
    let more = values.len().saturating_sub(SHOWN);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let all = format!("{} ({}{more})", labels::count(values.len(), one, many), shown.join(", "));
    match (current, values.is_empty()) {
        (None, true) => None,
        (None, false) => Some(all),
        (Some(current), true) => Some(format!("{one} {}", plain(current, CHARS))),
        (Some(current), false) => Some(format!("{one} {} of {all}", plain(current, CHARS))),
    }
}

/// A text of an agent on one line, at most this long.
fn plain(text: &str, chars: usize) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().filter(|c| !c.is_control()).take(chars).collect()
}

fn mend(settings: &AgentSettings, kind: RuntimeKind, why: &str) -> String {
    let package = settings.provider.preset().map(|preset| preset.about().package);
    match package.filter(|package| why.contains(&package.install())) {
        Some(package) if kind == RuntimeKind::Podman => format!(
            "run `hearth image build --with {}`, which installs it in the image, or add `{}` to the agent's packages",
            settings.provider.as_str(),
            package.spec()
        ),
        Some(package) => format!("run `{}` as the user of the daemon, or set the agent's `command`", package.install()),
        None => "correct the agent's settings or its program; docs/providers.md says what each agent needs".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::entity::Preset;

    fn offered(values: &[&str], current: Option<&str>) -> Offered {
        Offered {
            values: values.iter().map(|value| (*value).to_owned()).collect(),
            current: current.map(str::to_owned),
        }
    }

    #[test]
    fn what_an_agent_says_is_shown_on_one_line() {
        let mut handshake = Handshake {
            agent: "Open\u{1b}[31mCode\n".to_owned(),
            version: "1".to_owned(),
            modes: offered(&["build", "plan"], Some("build")),
            models: offered(&["m"; 10], None),
            has_tools: true,
        };
        let check = shaken("dev", &handshake);
        assert_eq!(
            check.found,
            "dev is Open[31mCode 1; mode build of 2 modes (build, plan); 10 models (m, m, m, m, m, m, m, m and 2 more); it \
             has Hearth's tools"
        );
        assert_eq!(check.result, CheckStatus::Ok);
        (handshake.has_tools, handshake.modes, handshake.models) = (false, Offered::default(), offered(&[], Some("x")));
        let check = shaken("dev", &handshake);
        assert_eq!(check.found, "dev is Open[31mCode 1; model x; it did not ask for Hearth's tools");
        assert_eq!(check.result, CheckStatus::Warn);
    }

    #[test]
    fn a_missing_program_is_installed_where_the_agent_runs() {
        let mut settings = AgentSettings::named("A".to_owned());
        settings.provider = ProviderKind::Preset(Preset::Codex);
        let package = Preset::Codex.about().package;
        let why = format!("there is no program codex-acp: `{}` installs it", package.install());
        assert!(mend(&settings, RuntimeKind::Process, &why).contains(&package.install()));
        assert!(mend(&settings, RuntimeKind::Podman, &why).contains("--with codex"));
        assert!(mend(&settings, RuntimeKind::Podman, "no").contains("settings"));
    }
}
