//! HTTP/2 is not offered on hosts of secrets: what programs do that would rather speak it.

use std::process::Command;

use super::{furnished, said};
use crate::host::confined::{Setup, possible};
use crate::host::documents::generated;
use crate::host::echo_host::EchoHost;
use crate::host::skipped;

/// A program, what it speaks by itself, what came of it, and how that is seen.
struct Tried {
    program: &'static str,
    speaks: &'static str,
    result: &'static str,
    command: &'static str,
    says: &'static str,
}

const REACHED: &str = "HTTP/1.1";
const EITHER: &str = "HTTP/2, or HTTP/1.1 if that is not offered";
const OLD: &str = "HTTP/1.1";

/// `AT` is replaced by the address of the host, and `AUTH` by the header with the placeholder.
const PROGRAMS: [Tried; 7] = [
    Tried {
        program: "curl",
        speaks: EITHER,
        result: REACHED,
        command: "curl -sSi -w 'over %{http_version}' -H AUTH AT/open/a | grep -i -e x-good -e over | tr -d '\\r\\n'",
        says: "x-good: Trueover 1.1",
    },
    Tried {
        program: "git",
        speaks: EITHER,
        result: REACHED,
        command: "GIT_CURL_VERBOSE=1 git -c http.version=HTTP/2 -c http.extraHeader=AUTH ls-remote AT/open/repo 2>&1 | grep -o -e 'header: HTTP/.* 200' -e 'x-good: True'",
        says: "header: HTTP/1.1 200\nx-good: True",
    },
    Tried {
        program: "Python httpx, with HTTP/2",
        speaks: EITHER,
        result: REACHED,
        command: "/usr/bin/python3 -c 'import os, httpx; r = httpx.Client(http2=True).get(\"AT/open/a\", headers={\"Authorization\": \"Bearer \" + os.environ[\"TOKEN\"]}); print(r.http_version, r.headers[\"x-good\"])'",
        says: "HTTP/1.1 True",
    },
    Tried {
        program: "Python urllib",
        speaks: OLD,
        result: REACHED,
        command: "python3 -c 'import os, urllib.request as r; print(r.urlopen(r.Request(\"AT/open/a\", headers={\"Authorization\": \"Bearer \" + os.environ[\"TOKEN\"]})).headers[\"X-Good\"])'",
        says: "True",
    },
    Tried {
        program: "wget",
        speaks: OLD,
        result: REACHED,
        command: "wget -qSO- --header=AUTH AT/open/a 2>&1",
        says: "x-good: True",
    },
    Tried {
        program: "Node fetch",
        speaks: OLD,
        result: REACHED,
        command: "node -e 'fetch(\"AT/open/a\", { headers: { authorization: \"Bearer \" + process.env.TOKEN } }).then(r => console.log(r.headers.get(\"x-good\")))'",
        says: "True",
    },
    Tried {
        program: "Node http2",
        speaks: "HTTP/2 only",
        result: "not reached",
        command: "timeout 20 node -e 'const c = require(\"http2\").connect(\"AT\"); const end = e => { console.log(\"ended with\", e.code); process.exit(); }; c.on(\"error\", end); c.request({ \":path\": \"/open/a\" }).on(\"error\", end)'",
        says: "ended with ERR_",
    },
];

#[test]
fn programs_that_prefer_http_2_fall_back() {
    let setup = Setup::new();
    if !possible() {
        return;
    }
    if String::from_utf8_lossy(&setup.hearth(&["doctor", "--offline"]).stdout).contains("install bubblewrap") {
        return skipped("there is no bubblewrap that works");
    }
    if !Command::new("/usr/bin/python3").args(["-c", "import httpx, h2"]).output().unwrap().status.success() {
        return skipped("there is no httpx with HTTP/2 for Python; `.ci/run` installs it");
    }
    let host = EchoHost::start(&setup.path("user"));
    furnished(&setup, &host);
    let at = format!("https://this-machine.internal:{}", host.port);
    let header = "\"Authorization: Bearer $TOKEN\"";
    let commands: Vec<String> = PROGRAMS
        .iter()
        .map(|tried| {
            tried
                .command
                .replace("AT/", &format!("{at}/"))
                .replace("\"AT\"", &format!("\"{at}\""))
                .replace("AUTH", header)
        })
        .collect();
    let mut table = "| program | what it speaks | what it reached the host by |\n|---|---|---|\n".to_owned();
    let mut failed = Vec::new();
    for (tried, said) in PROGRAMS.iter().zip(said(&setup, &commands)) {
        let Tried { program, speaks, result, says, .. } = tried;
        if !said.contains(says) {
            failed.push(format!("{program}: {said}"));
        }
        table.push_str(&format!("| {program} | {speaks} | {result} |\n"));
    }
    assert!(failed.is_empty(), "{failed:#?}");
    generated(
        "docs/secrets.md",
        "versions: generated from tests/it/bound_secrets/versions.rs",
        "versions",
        &format!("\n{table}\n"),
    );
}
