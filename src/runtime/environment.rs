//! The environment variables that an agent's configuration asks for, in every runtime.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::process::{Lookup, SecretError, resolve};
use super::redact::Secrets;
use super::{Error, Spec};
use crate::model::bound_secret::{BUNDLE, BUNDLE_VARIABLES, SecretAccess};
use crate::model::entity::{AgentSettings, EnvValue};
use crate::model::gateway::{Api, GatewayAddress, ModelAccess, SOCKET};
use crate::model::network::{NETWORK_SOCKET, NetworkAccess, PROXY};
use crate::model::secrets;

/// Where agents reach the gateway.
const LOOPBACK: &str = "127.0.0.1";

/// Variables, and the secret values among them.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Environment {
    pub(in crate::runtime) variables: Vec<(OsString, OsString)>,
    /// Values to remove from its output, also of keys that it does not have.
    pub(in crate::runtime) secrets: Secrets,
    /// Names of the variables that came from references.
    pub(in crate::runtime) secret_names: Vec<String>,
}

/// Directories with sockets, as the agent sees them.
#[derive(Debug, Clone, Copy)]
pub(in crate::runtime) struct Places<'a> {
    /// Of the model gateway.
    pub(in crate::runtime) gate: &'a Path,
    /// Of its way out.
    pub(in crate::runtime) network: &'a Path,
}

/// The variables of the agent and of its MCP servers, with references resolved. Keys that the gateway keeps are replaced
/// by their placeholders. Blocks while `cmd:` references run.
pub(in crate::runtime) fn configured(
    spec: &Spec,
    lookup: &Lookup,
    stopped: &dyn Fn() -> bool,
    places: Places<'_>,
) -> Result<Environment, Error> {
    let mut environment = Environment::default();
    let mut known = secrets::Secrets::default();
    for (name, value) in &spec.settings.env {
        check_name(name)?;
        let variable = |source| Error::Variable { name: name.clone(), source };
        let (value, is_secret) = match value {
            EnvValue::Plain(text) if text.contains('\0') => return Err(variable(SecretError::ZeroByte)),
            EnvValue::Plain(text) => (OsString::from(text), false),
            EnvValue::Reference(reference) => (resolve(reference, lookup, stopped).map_err(variable)?, true),
        };
        if is_secret {
            known.add(name, value.as_bytes());
            environment.secrets.add(value.as_bytes());
        }
        let given = match spec.model_access.as_ref().map(|access| (access, access.placeholder(name))) {
            Some((access, placeholder)) if placeholder.is_some() || access.is_address(name) => {
                access.values.put(name, value.as_bytes());
                environment.variables.extend(placeholder.map(|text| (name.into(), text.into())));
                continue;
            }
            _ => value,
        };
        environment.secret_names.extend(is_secret.then(|| name.clone()));
        environment.variables.push((name.into(), given));
    }
    for (name, value) in server_secrets(spec, lookup, stopped) {
        known.add(&name, value.as_bytes());
        environment.secrets.add(value.as_bytes());
        environment.variables.push((name.clone().into(), value));
        environment.secret_names.push(name);
    }
    if let Some(access) = &spec.model_access {
        let is_set = |name: &str| spec.settings.env.iter().any(|(known, _)| known == name);
        let keyless = access.placeholders.iter().filter(|(name, _)| !is_set(name));
        environment.variables.extend(keyless.map(|(name, text)| ((*name).into(), text.into())));
        let addresses = to_gateway(access, places.gate)?;
        if !addresses.is_empty() {
            around_proxies(&mut environment.variables);
        }
        environment.variables.extend(addresses);
    }
    if let Some(access) = spec.network_access.as_ref().and_then(|access| access.secrets.as_ref()) {
        bound(&mut environment, &mut known, access);
    }
    if let Some(access) = &spec.network_access {
        by_proxy(&mut environment.variables, access, places.network)?;
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

/// The variables that lead an agent's programs to the gateway. The runner makes addresses from a socket.
fn to_gateway(access: &ModelAccess, gate: &Path) -> Result<Vec<(OsString, OsString)>, Error> {
    match &access.address {
        GatewayAddress::None => Ok(Vec::new()),
        GatewayAddress::Port(port) => {
            let address = |api: &Api| format!("http://{LOOPBACK}:{port}{}", api.base_path());
            Ok(access.apis.iter().map(|api| (api.base_variable().into(), address(api).into())).collect())
        }
        GatewayAddress::Socket(_) => {
            let socket = gate.join(SOCKET);
            let socket = socket.to_str().ok_or_else(|| Error::Path { path: socket.clone() })?;
            let addresses = access.apis.iter().map(|api| (api.base_variable().to_owned(), api.base_path().into()));
            let addresses: serde_json::Map<_, _> = addresses.collect();
            let text = serde_json::json!({ "socket": socket, "addresses": addresses }).to_string();
            Ok(vec![("HEARTH_GATEWAY".into(), text.into())])
        }
    }
}

/// Sets placeholders and certificates. Hides the real values in output too: a host may echo one.
fn bound(environment: &mut Environment, known: &mut secrets::Secrets, access: &SecretAccess) {
    for (name, value) in access.values.all() {
        known.add(&name, &value);
        environment.secrets.add(&value);
    }
    let variables = access.variables.iter();
    environment.variables.extend(variables.map(|(name, text)| (name.into(), text.into())));
    for name in BUNDLE_VARIABLES {
        if access.bundle.is_some() && !environment.variables.iter().any(|(known, _)| known == name) {
            environment.variables.push((name.into(), BUNDLE.into()));
        }
    }
}

/// The variables for the way out. Programs find hosts by name without a proxy; it leads to ports on which the runner does
/// not listen. Proxies of the operator cannot be reached from there.
fn by_proxy(variables: &mut Vec<(OsString, OsString)>, access: &NetworkAccess, place: &Path) -> Result<(), Error> {
    let socket = place.join(NETWORK_SOCKET);
    let socket = socket.to_str().ok_or_else(|| Error::Path { path: socket.clone() })?;
    let asked = serde_json::json!({ "socket": socket, "ports": access.ports }).to_string();
    let proxies = ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"].map(|name| (name, PROXY));
    let none = ["NO_PROXY", "no_proxy"].map(|name| (name, "127.0.0.1,localhost,::1"));
    let others = [("HEARTH_NETWORK", asked.as_str()), ("NODE_USE_ENV_PROXY", "1")];
    let own: Vec<_> = proxies.into_iter().chain(none).chain(others).collect();
    let is_own = |name: &OsString| own.iter().any(|(own, _)| name == own) || name == "ALL_PROXY" || name == "all_proxy";
    variables.retain(|(name, _)| !is_own(name));
    variables.extend(own.into_iter().map(|(name, value)| (name.into(), value.into())));
    Ok(())
}

/// Keeps programs from asking a proxy for the gateway, whose address is their own loopback interface. Some read one
/// spelling, some the other.
fn around_proxies(variables: &mut Vec<(OsString, OsString)>) {
    let names = ["NO_PROXY", "no_proxy"];
    let given = names.map(|name| variables.iter().find(|(known, _)| known == name).map(|(_, hosts)| hosts.clone()));
    let [upper, lower] = &given;
    for (name, own) in names.into_iter().zip([upper.as_ref().or(lower.as_ref()), lower.as_ref().or(upper.as_ref())]) {
        let mut hosts = own.cloned().unwrap_or_default();
        if hosts != "*" {
            hosts.push(if hosts.is_empty() { "" } else { "," });
            hosts.push(LOOPBACK);
        }
        variables.retain(|(known, _)| known != name);
        variables.push((name.into(), hosts));
    }
}

fn check_name(name: &str) -> Result<(), Error> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.bytes().all(plain) && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit()) {
        Ok(())
    } else {
        Err(Error::VariableName { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_proxy_is_asked_for_the_gateway() {
        for (given, upper, lower) in [
            (vec![], "127.0.0.1", "127.0.0.1"),
            (vec![("NO_PROXY", "a.example")], "a.example,127.0.0.1", "a.example,127.0.0.1"),
            (vec![("no_proxy", "b")], "b,127.0.0.1", "b,127.0.0.1"),
            (vec![("no_proxy", "b"), ("NO_PROXY", "a")], "a,127.0.0.1", "b,127.0.0.1"),
            (vec![("NO_PROXY", "*"), ("no_proxy", "")], "*", "127.0.0.1"),
        ] {
            let mut variables: Vec<(OsString, OsString)> =
                given.iter().map(|(name, hosts)| ((*name).into(), (*hosts).into())).collect();
            around_proxies(&mut variables);
            let expected: Vec<(OsString, OsString)> =
                vec![("NO_PROXY".into(), upper.into()), ("no_proxy".into(), lower.into())];
            assert_eq!(variables, expected, "{given:?}");
        }
    }
}
