//! Requests to the Cloud API of WhatsApp, for one number.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;
use std::time::Duration;

use hearth_bridge::FILE_BYTES_MAX;
use hearth_bridge::program::settings::part;
use serde_json::Value;

use super::failure::{Failure, Kind};
use super::person::is_id;
use super::report::text;
use crate::web::{Answer, Ask, Content, FILE, Method, NoAnswer, ORDINARY, Uri, Web};

/// Version of the API.
const VERSION: &str = "v24.0";
/// Hosts of files besides that of the API.
const FILE_HOSTS: [&str; 3] = [".fbsbx.com", ".facebook.com", ".whatsapp.net"];
/// Separates the parts of a form. Content that contains it is not to be expected.
const BOUNDARY: &str = "hearth-3f9a52c07be14d86a1";
/// The longest pause that is believed, in seconds.
const PAUSE_MAX: u64 = 24 * 3_600;

/// Why a request did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Trouble {
    /// Nothing was sent.
    #[error("{0}")]
    Unreachable(String),
    /// It may have been carried out.
    #[error("{0}")]
    Lost(String),
    #[error("WhatsApp asks for a pause")]
    Paused(Duration),
    #[error("WhatsApp does not accept the access token: {0}")]
    Token(String),
    #[error("{0}")]
    Refused(Failure),
    /// It is not asked for.
    #[error("{0}")]
    Unfit(String),
}

impl From<NoAnswer> for Trouble {
    fn from(none: NoAnswer) -> Self {
        match none {
            NoAnswer::Unreachable(_) => Self::Unreachable(none.to_string()),
            NoAnswer::Lost(_) => Self::Lost(none.to_string()),
        }
    }
}

/// The API of one number.
#[derive(Clone)]
pub(super) struct Api {
    web: Web,
    server: String,
    number: String,
    authorization: String,
    /// The daemon's limit for a file, in bytes.
    pub(super) file_max: u64,
}

impl Api {
    pub(super) fn new(server: &str, number: &str, token: &str) -> Self {
        let web = Web::new(concat!("hearth-networks/", env!("CARGO_PKG_VERSION")));
        let (server, number, authorization) = (server.to_owned(), number.to_owned(), format!("Bearer {token}"));
        Self { web, server, number, authorization, file_max: FILE_BYTES_MAX }
    }

    /// The number as people see it.
    pub(super) fn shown(&self) -> Result<String, Trouble> {
        let answer = self.ask(Method::GET, &self.url("?fields=display_phone_number"), Content::Nothing, ORDINARY)?;
        Ok(text(&answer, "/display_phone_number").unwrap_or(&self.number).to_owned())
    }

    /// Sends a message; its id.
    pub(super) fn send(&self, message: &Value) -> Result<String, Trouble> {
        let answer = self.ask(Method::POST, &self.url("/messages"), Content::Json(message), ORDINARY)?;
        let id = text(&answer, "/messages/0/id").filter(|id| is_id(id)).map(str::to_owned);
        id.ok_or_else(|| Trouble::Lost("its answer has no id of the message".to_owned()))
    }

    /// Gives WhatsApp a file; its id there.
    pub(super) fn upload(&self, path: &Path, mime: &str) -> Result<String, Trouble> {
        let unreadable = |error: std::io::Error| Trouble::Unfit(error.to_string());
        let file = File::open(path).map_err(unreadable)?;
        let size = file.metadata().map_err(unreadable)?.len();
        let field = |name: &str, value: &str| {
            format!("--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let head = format!(
            "{}{}--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"file\"\r\ncontent-type: {mime}\r\n\r\n",
            field("messaging_product", "whatsapp"),
            field("type", mime)
        );
        let tail = format!("\r\n--{BOUNDARY}--\r\n");
        let length = head.len() as u64 + size + tail.len() as u64;
        let from = Cursor::new(head.into_bytes()).chain(file.take(size)).chain(Cursor::new(tail.into_bytes()));
        let kind = format!("multipart/form-data; boundary={BOUNDARY}");
        let content = Content::Stream { kind: &kind, length, from: Box::new(from) };
        let answer = self.ask(Method::POST, &self.url("/media"), content, FILE)?;
        let id = text(&answer, "/id").filter(|id| is_id(id)).map(str::to_owned);
        id.ok_or_else(|| Trouble::Lost("its answer has no id of the file".to_owned()))
    }

    /// Fetches a file of a person. Its address works for five minutes, and wants the token.
    pub(super) fn fetch(&self, id: &str, to: &Path) -> Result<(), Trouble> {
        let url = format!("{}/{VERSION}/{}", self.server, part(id));
        let about = self.ask(Method::GET, &url, Content::Nothing, ORDINARY)?;
        let max = self.file_max;
        let too_large = || Trouble::Unfit(format!("it is larger than {max} bytes"));
        if about.get("file_size").and_then(Value::as_u64).is_some_and(|size| size > max) {
            return Err(too_large());
        }
        let url = text(&about, "/url").filter(|url| self.is_file(url));
        let url = url.ok_or_else(|| Trouble::Unfit("its address is not one of WhatsApp".to_owned()))?;
        let authorization = Some(self.authorization.as_str());
        let ask = Ask { method: Method::GET, url, authorization, content: Content::Nothing, within: FILE };
        match self.web.fetch(ask, to, max)? {
            Some(answer) if answer.is_success() => Ok(()),
            Some(answer) => Err(trouble(&answer)),
            None => Err(too_large()),
        }
    }

    fn url(&self, rest: &str) -> String {
        format!("{}/{VERSION}/{}{rest}", self.server, part(&self.number))
    }

    /// Whether the token may go to the address of a file.
    fn is_file(&self, url: &str) -> bool {
        let (Ok(url), Ok(own)) = (url.parse::<Uri>(), self.server.parse::<Uri>()) else { return false };
        if url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return false;
        }
        let is_own = url.scheme() == own.scheme() && url.authority() == own.authority();
        let is_known = |host: &str| FILE_HOSTS.iter().any(|end| host.ends_with(end));
        let is_secure = url.scheme_str() == Some("https") && url.port_u16().is_none_or(|port| port == 443);
        is_own || (is_secure && url.host().is_some_and(is_known))
    }

    fn ask(&self, method: Method, url: &str, content: Content<'_>, within: Duration) -> Result<Value, Trouble> {
        let authorization = Some(self.authorization.as_str());
        let answer = self.web.ask(Ask { method, url, authorization, content, within })?;
        if answer.is_success() { Ok(answer.json()?) } else { Err(trouble(&answer)) }
    }
}

/// What an answer means that is no success.
fn trouble(answer: &Answer) -> Trouble {
    let body = answer.json().unwrap_or(Value::Null);
    let mut failure = Failure::read(body.get("error").unwrap_or(&Value::Null));
    if failure.why.is_empty() {
        failure.why = format!("it answers {}", answer.status);
    }
    let asked = answer.header("retry-after").and_then(|after| after.trim().parse::<u64>().ok());
    match failure.kind(Some(answer.status)) {
        Kind::Token => Trouble::Token(failure.why),
        Kind::Pause(usual) => {
            Trouble::Paused(asked.map_or(usual, |seconds| Duration::from_secs(seconds.min(PAUSE_MAX))))
        }
        Kind::Fault => Trouble::Lost(failure.to_string()),
        Kind::Refusal => Trouble::Refused(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_goes_to_whatsapp_only() {
        let api = Api::new("https://graph.facebook.com", "42", "t");
        for url in
            ["https://lookaside.fbsbx.com/x?y=1", "https://graph.facebook.com/x", "https://mmg.whatsapp.net:443/x"]
        {
            assert!(api.is_file(url), "{url}");
        }
        for url in [
            "http://lookaside.fbsbx.com/x",
            "https://fbsbx.com.evil.test/",
            "https://evilfbsbx.com",
            "https://a.fbsbx.com@evil.test/",
            "https://a@b.fbsbx.com/",
            "https://a.fbsbx.com:8443/",
            "/x",
            "",
            "x",
        ] {
            assert!(!api.is_file(url), "{url}");
        }
        let here = Api::new("http://127.0.0.1:7", "42", "t");
        assert!(here.is_file("http://127.0.0.1:7/f") && !here.is_file("http://127.0.0.1:8/f"));
    }
}
