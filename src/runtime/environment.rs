//! What an agent's configuration asks for in its environment, wherever it runs.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use super::process::{Lookup, SecretError, resolve};
use super::redact::Secrets;
use super::{Error, Spec};
use crate::model::entity::EnvValue;

/// Variables and the values among them that must not be shown.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Environment {
    pub(in crate::runtime) variables: Vec<(OsString, OsString)>,
    pub(in crate::runtime) secrets: Secrets,
    /// Names of those that came from references.
    pub(in crate::runtime) secret_names: Vec<String>,
}

impl Environment {
    fn hide(&mut self, name: &str, value: OsString) {
        self.secrets.add(value.as_bytes());
        self.secret_names.push(name.to_owned());
        self.variables.push((name.into(), value));
    }
}

/// The variables of the agent and of its MCP servers, references resolved. Waits for the commands of `cmd:` references.
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
    Ok(environment)
}

/// What the references of MCP servers stand for. A server that lacks one does not work; the agent does.
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
