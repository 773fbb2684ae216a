//! Checks the daemon's environment variables that agents' requests name. Only variables that the operator listed for
//! the agent are allowed, and never one that a channel or another agent uses.

use crate::Result;
use crate::model::entity::{Agent, EnvValue, McpServer};
use crate::model::id::AgentId;
use crate::tx::Tx;

/// Why an agent may not have a server with these secrets; none if it may. Checked when the request arrives and again
/// when it is approved, since the configuration may have changed.
pub(crate) fn problem(tx: &Tx<'_, '_>, id: AgentId, agent: &Agent, server: &McpServer) -> Result<Option<String>> {
    for (name, value) in &server.env {
        let EnvValue::Reference(reference) = value else { continue };
        let variable = match decide_listed(reference, &agent.settings.request_env) {
            Ok(variable) => variable,
            Err(why) => return Ok(Some(format!("the value of `{name}` {why}"))),
        };
        if is_used(tx, id, variable)? {
            let why = "is a variable of Hearth that a channel or another agent uses, so no request can have it.";
            return Ok(Some(format!("the value of `{name}` {why}")));
        }
    }
    Ok(None)
}

/// The variable that a reference names, if the operator listed it.
fn decide_listed<'a>(reference: &'a str, listed: &[String]) -> std::result::Result<&'a str, &'static str> {
    let Some(variable) = reference.strip_prefix("env:") else {
        return Err("may be a text or a listed `env:NAME`; other references are for the operator.");
    };
    if listed.iter().any(|name| name == variable) {
        Ok(variable)
    } else {
        Err("names a variable of Hearth that the operator has not listed in `request_env` of this agent.")
    }
}

fn is_used(tx: &Tx<'_, '_>, asker: AgentId, variable: &str) -> Result<bool> {
    for row in tx.db.channels.iter(tx)? {
        let (_, channel) = row?;
        if [channel.token, channel.secret].iter().flatten().any(|reference| decide_names(reference, variable)) {
            return Ok(true);
        }
    }
    for row in tx.db.agents.iter(tx)? {
        let (id, agent) = row?;
        let settings = &agent.settings;
        let mut env = settings.env.iter().chain(settings.mcp_servers.iter().flat_map(|server| &server.env));
        let names = |(_, value): &(String, EnvValue)| match value {
            EnvValue::Reference(reference) => decide_names(reference, variable),
            EnvValue::Plain(_) => false,
        };
        if id != asker && agent.archived.is_none() && env.any(names) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a reference uses a variable. A command runs with Hearth's environment, so it uses every variable whose name
/// appears in it as a word.
fn decide_names(reference: &str, variable: &str) -> bool {
    match reference.split_once(':') {
        Some(("env", name)) => name == variable,
        Some(("cmd", line)) => {
            line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == variable)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::requests::variables::*;

    #[test]
    fn only_listed_variables_can_be_named() {
        let listed = ["WEATHER_KEY".to_owned()];
        assert_eq!(decide_listed("env:WEATHER_KEY", &listed), Ok("WEATHER_KEY"));
        for reference in ["env:BRIDGE_SECRET", "env:WEATHER_KEY2", "env:", "env: WEATHER_KEY", "file:/x", "cmd:id", "x"]
        {
            assert!(decide_listed(reference, &listed).is_err(), "{reference}");
        }
        assert!(decide_listed("env:WEATHER_KEY", &[]).is_err());
    }

    #[test]
    fn references_use_the_variables_that_they_name() {
        for (reference, uses) in [
            ("env:KEY", true),
            ("env:KEY2", false),
            ("file:/KEY", false),
            ("cmd:printf %s \"$KEY\"", true),
            ("cmd:echo ${KEY}x", true),
            ("cmd:echo $KEY2 $MY_KEY", false),
            ("KEY", false),
        ] {
            assert_eq!(decide_names(reference, "KEY"), uses, "{reference}");
        }
    }
}
