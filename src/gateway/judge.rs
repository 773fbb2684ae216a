//! Decides about a request of an agent: which server it is for, what it asks, and whether the agent may ask that. Pure.
//!
//! On the way to a server that knows a key, only the placeholder of that key passes. Any other credential would let an
//! agent carry data out to another account.

use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};

use super::refusal::Refusal;
use crate::model::gateway::{Api, KeyHeader, KeyVariable, Operation};

/// Maximum size of all headers in bytes.
const HEADERS_MAX: usize = 64 << 10;
/// Headers that carry credentials.
const CREDENTIALS: [&str; 6] =
    ["authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie", "proxy-authorization"];
/// Parts of the names of other headers with credentials.
const CREDENTIAL_WORDS: [&str; 7] = ["auth", "token", "api-key", "apikey", "secret", "cookie", "credential"];
/// Parameters that carry credentials.
const CREDENTIAL_PARAMETERS: [&str; 7] =
    ["key", "api_key", "apikey", "api-key", "access_token", "oauth_token", "token"];

/// What agents may ask of the servers: method, and path below the server's address. A `*` is one segment, or its
/// beginning.
const OPERATIONS: [(Api, &str, &str, Operation); 15] = [
    (Api::Anthropic, "POST", "/v1/messages", Operation::Messages),
    (Api::Anthropic, "POST", "/v1/messages/count_tokens", Operation::Count),
    (Api::Anthropic, "GET", "/v1/models", Operation::Models),
    (Api::Anthropic, "GET", "/v1/models/*", Operation::Models),
    (Api::OpenAi, "POST", "/chat/completions", Operation::Chat),
    (Api::OpenAi, "POST", "/responses", Operation::Responses),
    (Api::OpenAi, "POST", "/embeddings", Operation::Embeddings),
    (Api::OpenAi, "GET", "/models", Operation::Models),
    (Api::OpenAi, "GET", "/models/*", Operation::Models),
    (Api::Gemini, "POST", "/v1beta/models/*:generateContent", Operation::Generate),
    (Api::Gemini, "POST", "/v1beta/models/*:streamGenerateContent", Operation::Generate),
    (Api::Gemini, "POST", "/v1beta/models/*:embedContent", Operation::Embeddings),
    (Api::Gemini, "POST", "/v1beta/models/*:countTokens", Operation::Count),
    (Api::Gemini, "GET", "/v1beta/models", Operation::Models),
    (Api::Gemini, "GET", "/v1beta/models/*", Operation::Models),
];

/// A key that the gateway keeps for an agent.
#[derive(Debug, Clone)]
pub(super) struct BoundKey {
    pub(super) variable: &'static KeyVariable,
    /// What the agent has instead.
    pub(super) placeholder: String,
}

/// A request that may pass.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Allowed<'r> {
    pub(super) api: Api,
    pub(super) operation: Operation,
    /// Below the server's address.
    pub(super) path: &'r str,
    pub(super) query: Option<&'r str>,
    /// The headers that get keys, and the variables whose values they are.
    pub(super) keys: Vec<(KeyHeader, &'static str)>,
    /// The model, if the path names it.
    pub(super) model: Option<&'r str>,
}

/// Judges a request, except for its body. `keys` are those of the agent.
pub(super) fn judge<'r>(parts: &'r Parts, keys: &[BoundKey]) -> Result<Allowed<'r>, Refusal> {
    if parts.uri.scheme().is_some() || parts.uri.authority().is_some() {
        return Err(Refusal::Form("the address must be a path"));
    }
    let path = parts.uri.path();
    if !is_canonical(path) {
        return Err(Refusal::Form("the path has parts that mean something else than they say"));
    }
    let (api, path) = server(path, keys)?;
    let (operation, model) = operation(api, &parts.method, path)?;
    check_framing(&parts.headers)?;
    let keys = credentials(&parts.headers, api, keys)?;
    parts.uri.query().map_or(Ok(()), check_query)?;
    Ok(Allowed { api, operation, path, query: parts.uri.query(), keys, model })
}

/// Whether a path means what it says: no encoding, no empty segments, no dots that lead elsewhere.
fn is_canonical(path: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':' | b'~' | b'@');
    let segment = |text: &str| !text.is_empty() && text != "." && text != ".." && text.bytes().all(plain);
    path.strip_prefix('/').is_some_and(|path| path.split('/').all(segment))
}

/// The server that a path of the gateway stands for, and the path there.
fn server<'r>(path: &'r str, keys: &[BoundKey]) -> Result<(Api, &'r str), Refusal> {
    let below = |api: &Api| path.strip_prefix(api.base_path()).filter(|rest| rest.starts_with('/'));
    let found = Api::ALL.into_iter().find_map(|api| Some((api, below(&api)?)));
    let (api, rest) = found.ok_or(Refusal::NoServer)?;
    if keys.iter().any(|key| key.variable.api == api) { Ok((api, rest)) } else { Err(Refusal::NoServer) }
}

fn operation<'r>(api: Api, method: &Method, path: &'r str) -> Result<(Operation, Option<&'r str>), Refusal> {
    let fits = |(its, its_method, pattern, operation): &(Api, &str, &str, Operation)| {
        let model = (*its == api && *its_method == method.as_str()).then(|| fit(pattern, path)).flatten()?;
        Some((*operation, model))
    };
    let (operation, model) = OPERATIONS.iter().find_map(fits).ok_or(Refusal::Operation { api })?;
    // A list of models is not about the one that its path names.
    Ok((operation, model.filter(|_| api == Api::Gemini && operation != Operation::Models)))
}

/// What the `*` of a pattern stands for in a path, if the path fits.
fn fit<'r>(pattern: &str, path: &'r str) -> Option<Option<&'r str>> {
    let Some((before, after)) = pattern.split_once('*') else { return (pattern == path).then_some(None) };
    let found = path.strip_prefix(before)?.strip_suffix(after)?;
    let one = |byte: u8| byte != b'/' && (after.is_empty() || byte != b':');
    (!found.is_empty() && found.bytes().all(one)).then_some(Some(found))
}

/// A body has one length. With `Transfer-Encoding`, which the HTTP library prefers, a second length could hide another
/// request.
fn check_framing(headers: &HeaderMap) -> Result<(), Refusal> {
    let size: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if size > HEADERS_MAX {
        return Err(Refusal::Form("the headers are too long"));
    }
    if headers.contains_key(header::TRANSFER_ENCODING) {
        return Err(Refusal::Form("the body needs a Content-Length instead of a Transfer-Encoding"));
    }
    if headers.get_all(header::CONTENT_LENGTH).iter().count() > 1 {
        return Err(Refusal::Form("there are several lengths"));
    }
    Ok(())
}

/// The keys that the request's placeholders stand for. Every credential must be such a placeholder, and each header
/// occurs once.
fn credentials(headers: &HeaderMap, api: Api, keys: &[BoundKey]) -> Result<Vec<(KeyHeader, &'static str)>, Refusal> {
    let mut found: Vec<(KeyHeader, &'static str)> = Vec::new();
    for (name, value) in headers.iter().filter(|(name, _)| is_credential(name.as_str())) {
        let of_header = |key: &&BoundKey| key.variable.api == api && key.variable.header.name() == name.as_str();
        let header = keys.iter().find(of_header).map(|key| key.variable.header);
        let header = header.ok_or_else(|| Refusal::ForeignCredential(name.as_str().to_owned()))?;
        if found.iter().any(|(known, _)| *known == header) {
            return Err(Refusal::Form("a header with a key occurs twice"));
        }
        let value = value.as_bytes().strip_prefix(header.prefix().as_bytes()).unwrap_or_default();
        let mut same = keys.iter().filter(of_header).filter(|key| is_same(key.placeholder.as_bytes(), value));
        let key = same.next().ok_or(Refusal::WrongPlaceholder)?;
        found.push((header, key.variable.name));
    }
    if found.is_empty() { Err(Refusal::NoPlaceholder) } else { Ok(found) }
}

pub(super) fn is_credential(name: &str) -> bool {
    CREDENTIALS.contains(&name) || CREDENTIAL_WORDS.iter().any(|word| name.contains(word))
}

/// Compares in a time that depends on the lengths alone.
pub(super) fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

fn check_query(query: &str) -> Result<(), Refusal> {
    for parameter in query.split('&') {
        let name = parameter.split('=').next().unwrap_or_default();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'$' | b'[' | b']');
        if !name.bytes().all(plain) {
            return Err(Refusal::Form("a parameter has a name that means something else than it says"));
        }
        if CREDENTIAL_PARAMETERS.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            return Err(Refusal::ForeignCredential(name.to_owned()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;
    use crate::model::gateway::KEY_VARIABLES;

    const OURS: &str = "sk-ant-api03-hearth-0f";
    const BEARER: &str = "hearth-0f";

    fn keys(names: &[&str]) -> Vec<BoundKey> {
        let known = KEY_VARIABLES.iter().filter(|key| names.contains(&key.name));
        known.map(|variable| BoundKey { variable, placeholder: format!("{}hearth-0f", variable.begins) }).collect()
    }

    fn parts(method: &str, target: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn asked(method: &str, target: &str, headers: &[(&str, &str)]) -> Result<(Operation, Vec<&'static str>), Refusal> {
        let all = keys(&["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "GEMINI_API_KEY"]);
        let parts = parts(method, target, headers);
        judge(&parts, &all).map(|allowed| (allowed.operation, allowed.keys.iter().map(|(_, name)| *name).collect()))
    }

    fn with_key(method: &str, target: &str) -> Result<Operation, Refusal> {
        let header = match target {
            target if target.starts_with("/openai") => ("authorization", "Bearer sk-hearth-0f"),
            target if target.starts_with("/gemini") => ("x-goog-api-key", BEARER),
            _ => ("x-api-key", OURS),
        };
        asked(method, target, &[header]).map(|(operation, _)| operation)
    }

    #[test]
    fn what_agents_need_passes() {
        for (method, target, operation) in [
            ("POST", "/anthropic/v1/messages", Operation::Messages),
            ("POST", "/anthropic/v1/messages?beta=true", Operation::Messages),
            ("POST", "/anthropic/v1/messages/count_tokens", Operation::Count),
            ("GET", "/anthropic/v1/models?limit=1000", Operation::Models),
            ("GET", "/anthropic/v1/models/claude-x", Operation::Models),
            ("POST", "/openai/v1/chat/completions", Operation::Chat),
            ("POST", "/openai/v1/responses", Operation::Responses),
            ("POST", "/openai/v1/embeddings", Operation::Embeddings),
            ("GET", "/openai/v1/models", Operation::Models),
            ("POST", "/gemini/v1beta/models/gemini-2.5-pro:generateContent", Operation::Generate),
            ("POST", "/gemini/v1beta/models/g:streamGenerateContent?alt=sse", Operation::Generate),
            ("POST", "/gemini/v1beta/models/g:countTokens", Operation::Count),
        ] {
            assert_eq!(with_key(method, target), Ok(operation), "{target}");
        }
        let all = keys(&["GEMINI_API_KEY"]);
        let parts = parts("POST", "/gemini/v1beta/models/g-2:generateContent", &[("x-goog-api-key", BEARER)]);
        assert_eq!(judge(&parts, &all).unwrap().model, Some("g-2"));
    }

    #[test]
    fn no_other_path_and_no_other_method_passes() {
        for (method, target) in [
            ("POST", "/anthropic/v1/files"),
            ("GET", "/anthropic/v1/files"),
            ("POST", "/anthropic/v1/messages/batches"),
            ("DELETE", "/anthropic/v1/messages"),
            ("TRACE", "/anthropic/v1/messages"),
            ("GET", "/anthropic/v1/models/a/b"),
            ("GET", "/anthropic/v1/models/"),
            ("POST", "/openai/v1/files"),
            ("POST", "/openai/v1/v1/messages"),
            ("POST", "/gemini/v1beta/models/g:generateContent/x"),
            ("POST", "/gemini/v1beta/models/a/b:generateContent"),
            ("POST", "/gemini/v1beta/models/a:b:generateContent"),
            ("POST", "/gemini/v1beta/models/:generateContent"),
            ("POST", "/gemini/v1beta/files"),
            ("POST", "/gemini/upload/v1beta/files"),
            ("GET", "/"),
            ("GET", "/anthropic"),
            ("POST", "/anthropicx/v1/messages"),
            ("POST", "/v1/messages"),
            // The address of another server.
            ("POST", "https://api.anthropic.com/anthropic/v1/messages"),
            ("POST", "http://elsewhere.example/anthropic/v1/messages"),
            ("CONNECT", "api.anthropic.com:443"),
        ] {
            assert!(with_key(method, target).is_err(), "{method} {target}");
        }
    }

    #[test]
    fn a_path_that_means_something_else_is_refused() {
        for path in [
            "/v1/files/../messages",
            "/v1/messages/..",
            "/v1/./messages",
            "//v1/messages",
            "/v1//messages",
            "/v1/messages/",
            "/v1/%6dessages",
            "/v1/messages%2f..%2ffiles",
            "/v1/%2e%2e/files",
            "/v1\\messages",
            "/v1/messages;x=1",
        ] {
            let target = format!("/anthropic{path}");
            let built = Request::builder().method("POST").uri(&target).header("x-api-key", OURS).body(());
            // What is no address at all is refused by the HTTP library.
            if let Ok(request) = built {
                let parts = request.into_parts().0;
                assert!(judge(&parts, &keys(&["ANTHROPIC_API_KEY"])).is_err(), "{path}");
            }
        }
    }

    #[test]
    fn only_the_placeholder_of_the_agent_passes_and_only_once() {
        let path = "/anthropic/v1/messages";
        let ours = ("x-api-key", OURS);
        let bearer = ("authorization", "Bearer hearth-0f");
        let of = |headers: &[(&str, &str)]| asked("POST", path, headers);
        assert_eq!(of(&[ours]).unwrap().1, ["ANTHROPIC_API_KEY"]);
        assert_eq!(of(&[bearer]).unwrap().1, ["ANTHROPIC_AUTH_TOKEN"]);
        assert_eq!(of(&[ours, bearer]).unwrap().1, ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"]);
        assert_eq!(of(&[]), Err(Refusal::NoPlaceholder));
        for wrong in ["", "sk-ant-api03-hearth-0e", "sk-ant-api03-hearth-0f0", "sk-ant-api03-of-somebody", BEARER] {
            assert_eq!(of(&[("x-api-key", wrong)]), Err(Refusal::WrongPlaceholder), "{wrong:?}");
        }
        for wrong in ["hearth-0f", "Basic hearth-0f", "bearer hearth-0f", "Bearer  hearth-0f", "Bearer sk-foreign"] {
            assert_eq!(of(&[("authorization", wrong)]), Err(Refusal::WrongPlaceholder), "{wrong:?}");
            assert_eq!(of(&[ours, ("authorization", wrong)]), Err(Refusal::WrongPlaceholder), "{wrong:?}");
        }
        assert!(matches!(of(&[ours, ours]), Err(Refusal::Form(_))));
        assert!(of(&[ours, ("x-api-key", "sk-foreign")]).is_err());
        for name in
            ["api-key", "x-goog-api-key", "cookie", "proxy-authorization", "x-auth-token", "openai-api-key", "X-Secret"]
        {
            assert_eq!(of(&[ours, (name, OURS)]), Err(Refusal::ForeignCredential(name.to_lowercase())), "{name}");
        }
    }

    #[test]
    fn no_credential_passes_in_the_query() {
        for query in ["key=sk", "a=b&key=sk", "KEY=sk", "k%65y=sk", "api_key=x", "access_token=x", "key"] {
            assert!(with_key("POST", &format!("/gemini/v1beta/models/g:generateContent?{query}")).is_err(), "{query}");
        }
        assert!(with_key("POST", "/gemini/v1beta/models/g:generateContent?alt=sse&$alt=json").is_ok());
    }

    #[test]
    fn a_body_has_one_length() {
        let key = ("x-api-key", OURS);
        for headers in [
            vec![key, ("transfer-encoding", "chunked")],
            vec![key, ("content-length", "5"), ("transfer-encoding", "chunked")],
            vec![key, ("transfer-encoding", "identity")],
            vec![key, ("content-length", "5"), ("content-length", "6")],
        ] {
            assert!(matches!(asked("POST", "/anthropic/v1/messages", &headers), Err(Refusal::Form(_))), "{headers:?}");
        }
        let long = "x".repeat(HEADERS_MAX);
        assert!(asked("POST", "/anthropic/v1/messages", &[key, ("x-long", &long)]).is_err());
    }

    #[test]
    fn a_server_without_a_key_of_the_agent_is_not_reached() {
        let parts = parts("POST", "/openai/v1/responses", &[("authorization", "Bearer sk-hearth-0f")]);
        assert_eq!(judge(&parts, &keys(&["ANTHROPIC_API_KEY"])), Err(Refusal::NoServer));
    }
}
