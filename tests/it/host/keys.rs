//! The key of a model, an agent that tries to get and to misuse it, and where to look for it.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::fake_api::FakeApi;

/// The key of the model. It must be nowhere but in its file.
pub(crate) const KEY: &str = "sk-ant-api03-the-real-key-of-this-test";

/// Sends requests of an agent that has been taken over, and returns the outcome of each.
pub(crate) const HOSTILE: &str = r#"
import glob, http.client, re, urllib.parse
BODY = b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}'
def send(method, path, headers, body=BODY):
    url = urllib.parse.urlsplit(os.environ["ANTHROPIC_BASE_URL"])
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=30)
    connection.putrequest(method, url.path + path, skip_host=False, skip_accept_encoding=True)
    for name, value in headers + [("content-length", str(len(body)))]:
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(body)
    return connection.getresponse().status
def keys():
    found = ""
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            found += open(path, errors="replace").read()
        except OSError:
            pass
    return sorted(set(re.findall("sk-ant[-0-9a-z]*", found)))
def answer(text):
    key = ("x-api-key", os.environ["ANTHROPIC_API_KEY"])
    messages = "/v1/messages"
    return json.dumps({
        "key": key[1], "keys": keys(), "ours": send("POST", messages, [key]),
        "files": send("POST", "/v1/files", [key]), "dots": send("POST", "/v1/files/../messages", [key]),
        "none": send("POST", messages, []), "other": send("POST", messages, [("x-api-key", "sk-ant-api03-other")]),
        "second": send("POST", messages, [key, ("authorization", "Bearer sk-other")]),
        "twice": send("POST", messages, [key, key]), "query": send("POST", messages + "?key=sk-other", [key]),
        "chunked": send("POST", messages, [key, ("transfer-encoding", "chunked")]),
        "replay": send("POST", messages, [("x-api-key", "sk-ant-api03-hearth-" + "0" * 32)]),
        "model": send("POST", messages, [key], BODY.replace(b'"m"', b'"expensive"')),
    })
"#;

/// Asserts that only what an agent may ask was passed on.
pub(crate) fn assert_held(answer: &str, api: &FakeApi) {
    let told: Value = serde_json::from_str(answer.trim()).unwrap();
    let key = told["key"].as_str().unwrap();
    assert!(key.starts_with("sk-ant-api03-hearth-"), "{key}");
    assert_eq!(told["keys"], serde_json::json!([key]), "in all environments");
    // Hearth would have replaced the real key by a word for it.
    assert!(!answer.contains(KEY) && !answer.contains("[secret"), "{answer}");
    for (what, status) in [
        ("ours", 200),
        ("files", 403),
        ("dots", 400),
        ("none", 401),
        ("other", 401),
        ("second", 403),
        ("twice", 400),
        ("query", 403),
        ("chunked", 400),
        ("replay", 401),
        ("model", 404),
    ] {
        assert_eq!(told[what], status, "{what}");
    }
    assert_eq!(api.keys(), [KEY], "one request was passed on, with the key");
}

/// Files below a directory that have the key in them.
pub(crate) fn with_key(directory: &Path) -> String {
    let found = Command::new("grep").args(["-rlaF", "--devices=skip", "-e", KEY]).arg(directory).output().unwrap();
    String::from_utf8_lossy(&found.stdout).into_owned()
}
