//! The environment variables that an agent's configuration asks for, in every runtime.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use super::process::{Lookup, SecretError, resolve};
use super::redact::Secrets;
use super::{Error, Spec};
use crate::model::entity::{AgentSettings, EnvValue};
use crate::model::secrets;

/// Variables, and the secret values among them.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Environment {
    pub(in crate::runtime) variables: Vec<(OsString, OsString)>,
    pub(in crate::runtime) secrets: Secrets,
    /// Names of the variables that came from references.
    pub(in crate::runtime) secret_names: Vec<String>,
}

impl Environment {
    fn hide(&mut self, name: &str, value: OsString) {
        self.secrets.add(value.as_bytes());
        self.secret_names.push(name.to_owned());
        self.variables.push((name.into(), value));
    }
}

/// The variables of the agent and of its MCP servers, with references resolved. Blocks while `cmd:` references run.
pub(in crate::runtime) fn configured(
    spec: &Spec,
    lookup: &Lookup,
    stopped: &dyn Fn() -> bool,
) -> Result<Environment, Error> {
    let mut environment = Environment::default();
    for (name, value) in &spec.settings.env {
        check_name(name)?;
        let variable = |source| Error::Variable { name: name.clone(), source };
        match value {
            EnvValue::Plain(text) if text.contains('\0') => return Err(variable(SecretError::ZeroByte)),
            EnvValue::Plain(text) => environment.variables.push((name.into(), text.into())),
            EnvValue::Reference(reference) => {
                environment.hide(name, resolve(reference, lookup, stopped).map_err(variable)?);
            }
        }
    }
    for (name, value) in server_secrets(spec, lookup, stopped) {
        environment.hide(&name, value);
    }
    let mut known = secrets::Secrets::default();
    for (name, value) in environment.variables.iter().filter_map(|(name, value)| Some((name.to_str()?, value))) {
        if environment.secret_names.iter().any(|secret| secret == name) {
            known.add(name, value.as_bytes());
        }
    }
    // A repeated start keeps the values of the first one.
    spec.secrets.get_or_init(|| known.into());
    Ok(environment)
}

/// The values that an agent's references have now, for an incarnation that an earlier daemon started. A reference that
/// cannot be resolved is skipped with a warning. Blocks while `cmd:` references run.
pub fn known(settings: &AgentSettings, lookup: &Lookup) -> secrets::Secrets {
    let mut known = secrets::Secrets::default();
    let servers = settings.mcp_servers.iter();
    let of_servers = servers.flat_map(|server| server.env.iter().map(|(name, value)| (server.variable(name), value)));
    for (name, value) in settings.env.iter().map(|(name, value)| (name.clone(), value)).chain(of_servers) {
        let EnvValue::Reference(reference) = value else { continue };
        match resolve(reference, lookup, &|| false) {
            Ok(value) => known.add(&name, value.as_bytes()),
            Err(error) => {
                tracing::warn!(name, %error, "the value of a secret is unknown, so it is not removed from the agent's output");
            }
        }
    }
    known
}

/// Resolves the references of MCP servers. A server that lacks a value does not work; the agent does.
fn server_secrets(spec: &Spec, lookup: &Lookup, stopped: &dyn Fn() -> bool) -> Vec<(String, OsString)> {
    let mut found = Vec::new();
    for server in &spec.settings.mcp_servers {
        for (name, value) in &server.env {
            let EnvValue::Reference(reference) = value else { continue };
            match resolve(reference, lookup, stopped) {
                Ok(value) => found.push((server.variable(name), value)),
                Err(error) => {
                    tracing::warn!(session = %spec.session, server = server.name, name, %error, "an MCP server lacks a variable");
                }
            }
        }
    }
    found
}

fn check_name(name: &str) -> Result<(), Error> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.bytes().all(plain) && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit()) {
        Ok(())
    } else {
        Err(Error::VariableName { name: name.to_owned() })
    }
}
