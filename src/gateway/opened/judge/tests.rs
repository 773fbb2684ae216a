use super::*;
use crate::gateway::opened::head;
use crate::gateway::opened::leak::Place;

const OURS: &str = "hearth-github-0f0f0f0f";
const REAL: &str = "ghp_theRealToken42";

fn secret(name: &str, header: &str, requests: &[&str]) -> HostSecret {
    HostSecret {
        name: name.to_owned(),
        header: header.parse().unwrap(),
        requests: requests.iter().map(|text| text.parse().unwrap()).collect(),
        placeholder: OURS.to_owned(),
    }
}

fn known() -> Secrets {
    let mut known = Secrets::default();
    known.add("github", REAL.as_bytes());
    known.add("ANTHROPIC_API_KEY", b"sk-ant-api03-real");
    known
}

fn asked_of(secrets: &[HostSecret], line: &str, headers: &[&str]) -> Result<Vec<Injection>, Refusal> {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let head = head::parse(format!("{line} HTTP/1.1\r\nHost: api.github.com\r\n{headers}\r\n").as_bytes())?;
    judge(&head, secrets, &known())
}

fn asked(line: &str, headers: &[&str]) -> Result<Vec<Injection>, Refusal> {
    asked_of(&[secret("github", "Authorization: Bearer {}", &[])], line, headers)
}

fn ours() -> String {
    format!("Authorization: Bearer {OURS}")
}

#[test]
fn the_placeholder_becomes_the_value() {
    let injections = asked("GET /repos/a/b?per_page=5", &[&ours(), "Accept: */*"]).unwrap();
    assert_eq!(injections.len(), 1);
    let (name, value) = injections[0].header(REAL.as_bytes()).unwrap();
    assert_eq!((name.as_str(), value.as_bytes()), ("authorization", format!("Bearer {REAL}").as_bytes()));
    assert!(value.is_sensitive());
    assert!(injections[0].header(b"two\nlines").is_none());
    assert_eq!(asked("GET /zen", &[]), Ok(vec![]), "git asks without a credential first");
}

#[test]
fn no_other_value_passes() {
    for value in [
        "",
        "Bearer",
        "Bearer ghp_ofSomebodyElse",
        "Bearer hearth-github-0f0f0f0e",
        "bearer hearth-github-0f0f0f0f",
        "Bearer  hearth-github-0f0f0f0f",
        "Bearer hearth-github-0f0f0f0f, x",
        "token hearth-github-0f0f0f0f",
        "Basic aGVhcnRoLWdpdGh1Yi0wZjBmMGYwZg==",
        "hearth-github-0f0f0f0f",
    ] {
        let refused = asked("GET /a", &[&format!("Authorization: {value}")]);
        assert_eq!(refused, Err(Refusal::Value("authorization".to_owned())), "{value:?}");
    }
}

#[test]
fn no_second_credential_passes() {
    let ours = ours();
    assert!(matches!(asked("GET /a", &[&ours, &ours]), Err(Refusal::Form(_))));
    assert!(asked("GET /a", &[&ours, "authorization: Bearer ghp_other"]).is_err());
    assert!(asked("GET /a", &["authorization: Bearer ghp_other", &ours]).is_err());
    for name in [
        "x-api-key",
        "api-key",
        "x-goog-api-key",
        "cookie",
        "proxy-authorization",
        "private-token",
        "x-auth-token",
        "x-secret",
        "x-amz-security-token",
        "job-token",
        "www-authenticate",
    ] {
        for value in ["foreign", OURS] {
            let header = format!("{name}: {value}");
            assert_eq!(asked("GET /a", &[&ours, &header]), Err(Refusal::Foreign(name.to_owned())), "{name}");
            assert_eq!(asked("GET /a", &[&header]), Err(Refusal::Foreign(name.to_owned())), "{name}");
        }
    }
    for query in ["access_token=x", "a=b&private_token=x", "KEY=x", "a;token=x", "k%65y=x", "api_key", "%74oken=x"] {
        assert!(matches!(asked(&format!("GET /a?{query}"), &[&ours]), Err(Refusal::Foreign(_))), "{query}");
    }
    for query in ["page_token=x", "filter%5Bstate%5D=open", "q=key", "a=b+c", ""] {
        assert!(asked(&format!("GET /a?{query}"), &[&ours]).is_ok(), "{query}");
    }
    assert!(asked("GET /a?%256bey=x", &[&ours]).is_err(), "encoded twice");
}

#[test]
fn a_request_is_what_it_says() {
    let ours = ours();
    for path in
        ["/a/../b", "/a/..", "/%2e%2e/a", "/a%2fb", "/a%5cb", "/a//b", "//a", "/./a", "/a\\b", "/a/..;/b", "/a%252e"]
    {
        assert!(matches!(asked(&format!("GET {path}"), &[&ours]), Err(Refusal::Form(_))), "{path}");
    }
    for header in
        ["X-HTTP-Method-Override: DELETE", "x-http-method: PUT", "X-Original-URL: /admin", "X-Rewrite-Url: /a"]
    {
        assert!(matches!(asked("POST /a", &[&ours, header]), Err(Refusal::Form(_))), "{header}");
    }
    assert!(asked("POST /a?_method=delete", &[&ours]).is_err());
}

#[test]
fn only_the_requests_that_a_secret_names_pass() {
    let secrets = [
        secret("read", "Authorization: Bearer {}", &["GET /repos/**"]),
        secret("write", "X-Write: {}", &["POST /repos/*/issues"]),
    ];
    let ours = ours();
    let write = format!("X-Write: {OURS}");
    assert!(asked_of(&secrets, "GET /repos/a", &[&ours]).is_ok());
    assert!(asked_of(&secrets, "GET /repos/a", &[]).is_ok());
    assert!(asked_of(&secrets, "POST /repos/a/issues", &[&write]).is_ok());
    let all = vec!["GET /repos/**".to_owned(), "POST /repos/*/issues".to_owned()];
    for line in ["GET /user", "DELETE /repos/a", "POST /repos/a", "GET /repositories"] {
        assert_eq!(asked_of(&secrets, line, &[]), Err(Refusal::Request(all.clone())), "{line}");
        assert_eq!(asked_of(&secrets, line, &[&ours]), Err(Refusal::Request(all.clone())), "{line}");
    }
    let refused = asked_of(&secrets, "POST /repos/a/issues", &[&ours]);
    assert_eq!(refused, Err(Refusal::Request(vec!["GET /repos/**".to_owned()])), "of the other secret");
    assert!(asked_of(&secrets, "POST /repos/a/issues", &[&write, &ours]).is_err());
}

#[test]
fn basic_credentials_carry_the_placeholder() {
    let encoded = |text: &str| format!("Authorization: Basic {}", STANDARD.encode(text));
    let any = [secret("git", "Authorization: Basic {}", &[])];
    let injections = asked_of(&any, "GET /a", &[&encoded(&format!("x-access-token:{OURS}"))]).unwrap();
    let value = injections[0].header(REAL.as_bytes()).unwrap().1;
    assert_eq!(value.as_bytes(), format!("Basic {}", STANDARD.encode(format!("x-access-token:{REAL}"))).as_bytes());
    let one = [secret("git", "Authorization: Basic git:{}", &[])];
    assert!(asked_of(&one, "GET /a", &[&encoded(&format!("git:{OURS}"))]).is_ok());
    let user = [secret("git", "Authorization: Basic {}:", &[])];
    let injections = asked_of(&user, "GET /a", &[&encoded(&format!("{OURS}:"))]).unwrap();
    let value = injections[0].header(REAL.as_bytes()).unwrap().1;
    assert_eq!(value.as_bytes(), format!("Basic {}", STANDARD.encode(format!("{REAL}:"))).as_bytes());
    for text in
        ["git:other".to_owned(), format!("{OURS}:"), format!("other:{OURS}x"), format!("a b:{OURS}"), OURS.to_owned()]
    {
        assert!(asked_of(&any, "GET /a", &[&encoded(&text)]).is_err(), "{text}");
        assert!(asked_of(&one, "GET /a", &[&encoded(&text)]).is_err(), "{text}");
    }
    assert!(asked_of(&one, "GET /a", &[&encoded(&format!("other:{OURS}"))]).is_err());
    assert!(asked_of(&any, "GET /a", &["Authorization: Basic %%%"]).is_err());
}

#[test]
fn no_known_value_passes_not_even_the_bound_one() {
    let ours = ours();
    let leak = |name: &str, place| Err(Refusal::Leak(super::super::leak::Leak { name: name.to_owned(), place }));
    let header = |name: &str| Place::Header(name.to_owned());
    let own = asked("GET /a", &[&format!("Authorization: Bearer {REAL}")]);
    assert_eq!(own, leak("github", header("authorization")));
    assert_eq!(asked(&format!("GET /a?q={REAL}"), &[&ours]), leak("github", Place::Address));
    assert_eq!(asked("GET /sk-ant-api03-real/x", &[&ours]), leak("ANTHROPIC_API_KEY", Place::Address));
    assert_eq!(
        asked("GET /a", &[&ours, "User-Agent: sk-ant-api03-real"]),
        leak("ANTHROPIC_API_KEY", header("user-agent"))
    );
    let encoded = format!("X-Note: {}", STANDARD.encode("my sk-ant-api03-real"));
    assert_eq!(asked("GET /a", &[&encoded]), leak("ANTHROPIC_API_KEY", header("x-note")));
    let refusal = own.unwrap_err();
    assert!(!refusal.to_string().contains(REAL) && refusal.to_string().contains("github"), "{refusal}");
}
