//! Trials against servers that answer as real ones do, right and wrong.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use super::trial::try_within;
use super::*;
use fake::{FakeApi, Trouble};

#[path = "../../tests/it/host/fake_api.rs"]
mod fake;

const KEY: &str = "sk-ant-api03-right-and-secret";
/// An address without a listener.
const NOTHING: &str = "http://127.0.0.1:9";

/// Tries a credential, and checks that no text about it contains the secret.
fn tried(credential: Credential, secret: &str, base: &str) -> Result<Accepted, Rejected> {
    let login = Login::new(credential, secret, Some(base))?;
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let found = tokio.block_on(try_within(&login, Duration::from_secs(2)));
    let shown = format!("{login:?} {found:?} {}", found.as_ref().err().map(ToString::to_string).unwrap_or_default());
    assert!(!shown.contains(secret), "{shown}");
    found
}

fn refused(credential: Credential, secret: &str, base: &str) -> String {
    tried(credential, secret, base).unwrap_err().to_string()
}

/// Answers every request with these bytes. Returns the server's address.
fn server(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4_096];
            drop(stream.read(&mut request));
            drop(stream.write_all(answer));
        }
    });
    address
}

fn answer(status: &str, body: &str) -> String {
    let length = body.len();
    let text = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
    server(text.into_bytes().leak())
}

#[test]
fn every_kind_of_credential_is_accepted_and_a_wrong_one_is_not() {
    let api = FakeApi::start();
    api.takes(KEY);
    let openai = format!("{}/v1/", api.url());
    let found = tried(Credential::OpenAiKey, KEY, &openai);
    assert_eq!(found, Ok(Accepted::Models(vec!["claude-test".to_owned()])));
    assert!(matches!(tried(Credential::OpenAiKey, "wrong", &openai), Err(Rejected::Wrong { .. })));
    for credential in Credential::ALL {
        let found = tried(credential, &format!(" {KEY}\n"), &format!("{}/", api.url()));
        assert_eq!(found, Ok(Accepted::Models(vec!["claude-test".to_owned()])), "{credential:?}");
        let error = tried(credential, "sk-ant-api03-wrong", &api.url()).unwrap_err();
        assert!(matches!(error, Rejected::Wrong { .. }), "{error}");
        assert_eq!(error.to_string(), format!("{} rejects the {}", api.url(), credential.as_str()));
    }
}

#[test]
fn troubles_of_a_server_have_words() {
    let api = FakeApi::start();
    let said = |trouble| {
        api.trouble(Some(trouble));
        refused(Credential::ApiKey, KEY, &api.url())
    };
    let url = api.url();
    assert!(said(Trouble::Status(529, "overloaded_error", None)).contains("is in trouble: the API is in trouble"));
    assert!(said(Trouble::Status(429, "rate_limit_error", Some(5))).contains("is rate-limiting requests"));
    assert!(said(Trouble::Status(402, "billing_error", None)).contains("has no credit"));
    assert!(said(Trouble::Status(403, "forbidden", None)).contains("rejects the API key"));
    assert_eq!(said(Trouble::Mute), format!("{url} cannot be reached: it does not answer in time"));
    assert!(said(Trouble::Breaks).contains("cannot be reached"));
    api.trouble(Some(Trouble::Status(403, "permission_error", None)));
    let unchecked = tried(Credential::Subscription, KEY, &url);
    assert_eq!(unchecked, Ok(Accepted::Unchecked("the API is in trouble".to_owned())));
    api.trouble(Some(Trouble::Status(404, "not_found_error", None)));
    assert!(matches!(tried(Credential::ApiKey, KEY, &url), Ok(Accepted::Unchecked(why)) if why.contains("404")));
}

#[test]
fn an_unreachable_server_is_told_with_the_cause() {
    let said = refused(Credential::ApiKey, KEY, NOTHING);
    assert!(
        said.starts_with("http://127.0.0.1:9 cannot be reached: nothing listens there (Connection refused"),
        "{said}"
    );
    let said = refused(Credential::ApiKey, KEY, "http://no-such-host.invalid");
    assert!(said.contains("no server of this name was found"), "{said}");
    let said = refused(Credential::ApiKey, KEY, &answer("200 OK", "{}").replace("http:", "https:"));
    assert!(said.contains("no secure connection (TLS) could be made"), "{said}");
}

#[test]
fn another_kind_of_server_is_recognized_and_gets_no_second_request() {
    let said = refused(Credential::ApiKey, KEY, &answer("200 OK", "<html>welcome</html>"));
    assert!(said.contains("is not a server for Claude: its answer is not a list of models"), "{said}");
    let api = FakeApi::start();
    let location =
        format!("HTTP/1.1 302 Found\r\nlocation: {}/v1/models?k={KEY}\r\ncontent-length: 0\r\n\r\n", api.url());
    let said = refused(Credential::ApiKey, KEY, &server(location.into_bytes().leak()));
    assert!(said.contains(&format!("it redirects to {}; give", api.url())), "{said}");
    assert!(api.keys().is_empty());
    let said = refused(Credential::ApiKey, KEY, &answer("400 Bad Request", &format!(r#"{{"error":"no {KEY} here"}}"#)));
    assert!(said.ends_with("no [key] here"), "{said}");
    let endless = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n600000\r\n";
    let long = [endless.as_slice(), &vec![b' '; 0x60_0000]].concat();
    assert!(refused(Credential::ApiKey, KEY, &server(long.leak())).contains("its answer is longer than"));
}

#[test]
fn servers_of_ones_own_list_their_models_in_their_form() {
    let ollama = answer("200 OK", r#"{"object":"list","data":null}"#);
    assert_eq!(tried(Credential::ApiKey, "ollama", &ollama), Ok(Accepted::Models(Vec::new())));
    let lite = answer("200 OK", r#"{"object":"list","data":[{"id":"gpt-oss","object":"model"}]}"#);
    assert_eq!(tried(Credential::ServerToken, "sk-1234", &lite), Ok(Accepted::Models(vec!["gpt-oss".to_owned()])));
}

#[test]
fn wrong_forms_are_refused_before_any_call() {
    for secret in ["", " ", "two words", "line\nbreak", "\u{fc}nlaut"] {
        assert!(
            refused(Credential::Subscription, secret, NOTHING)
                .starts_with("the subscription token is empty, or contains")
        );
    }
    for (base, part) in [
        ("localhost:4000", "neither https:// nor http://"),
        ("ftp://x", "neither https:// nor http://"),
        ("not an address", "relative URL"),
        ("http://x/?k=1", "more parts than host, port and path"),
        ("http://u:p@x/", "more parts than host, port and path"),
        ("http://x/v1/", "omit the /v1"),
    ] {
        let said = refused(Credential::ApiKey, KEY, base);
        assert!(said.contains(part), "{base}: {said}");
    }
}

#[test]
fn a_secret_of_another_kind_is_recognized_by_its_form() {
    assert_eq!(Credential::looks_like(" sk-ant-oat01-x"), Credential::Subscription);
    assert_eq!(Credential::looks_like("sk-1234"), Credential::ApiKey);
    assert!(OFFERS.iter().all(|offer| !offer.needs.is_empty() && !offer.costs.is_empty()));
}
