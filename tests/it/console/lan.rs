//! The console where others can reach it, which is over TLS alone; and agents, which do not reach it at all.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::driver::Browser;
use super::{Console, me};
use crate::host::channels::free_port;
use crate::host::confined::{PROTOCOL, possible};
use crate::host::{Host, skipped, wait_for};

/// Sends requests over TLS: name of the server, port, file with the certificate to trust, and the request. Prints the
/// SHA-256 digest of the server's certificate and the answer.
const CLIENT: &str = r#"
import hashlib, socket, ssl, sys
name, port, trusted, request = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
context = ssl.create_default_context()
if trusted == "none":
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
else:
    context.load_verify_locations(trusted)
with context.wrap_socket(socket.create_connection(("127.0.0.1", port), 30), server_hostname=name) as stream:
    der = stream.getpeercert(True)
    stream.sendall(request.encode())
    text = b""
    while True:
        try:
            more = stream.recv(65536)
        except ssl.SSLError:
            break
        if not more:
            break
        text += more
digest = hashlib.sha256(der).hexdigest().upper()
print(":".join(digest[at:at + 2] for at in range(0, 64, 2)))
sys.stdout.write(text.decode(errors="replace"))
"#;

/// Makes a certificate for `hearth.lan`: as PEM, from nothing but OpenSSL.
fn certificate(dir: &Path) {
    let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=hearth.lan"])
        .args(["-addext", "subjectAltName=DNS:hearth.lan", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&cert)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}

/// What a client over TLS gets: the digest of the certificate, and the answer.
fn ask(port: u16, name: &str, trusted: &str, request: &str) -> Result<(String, String), String> {
    let port = port.to_string();
    let ended = Command::new("python3").args(["-c", CLIENT, name, &port, trusted, request]).output().unwrap();
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    match text.split_once('\n') {
        Some((digest, answer)) if ended.status.success() => Ok((digest.to_owned(), answer.to_owned())),
        _ => Err(String::from_utf8_lossy(&ended.stderr).into_owned()),
    }
}

fn get(port: u16, trusted: &str, path: &str, cookie: &str) -> Result<(String, String), String> {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: hearth.lan:{port}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n");
    ask(port, "hearth.lan", trusted, &request)
}

fn lan(more: &str) -> Console {
    let port = free_port();
    let mut host = Host::with_echo();
    host.apply(&format!(
        "schema = 1\n[console]\nlisten = \"0.0.0.0:{port}\"\nnames = [\"hearth.lan\"]\n{more}[[users]]\nid = \"{}\"\n\
         name = \"Ada\"\nroles = [\"owner\"]\n",
        me()
    ));
    host.start();
    Console { host, port }
}

/// A link and the digest to compare, in the words of `hearth console`.
fn link(console: &Console) -> (String, Option<String>) {
    let link = wait_for("the console to be served", || {
        let ended = console.host.run(&["console", "--json"], b"");
        (ended.code == Some(0)).then(|| serde_json::from_str::<serde_json::Value>(&ended.stdout).unwrap())
    });
    (link["link"].as_str().unwrap().to_owned(), link["fingerprint"].as_str().map(str::to_owned))
}

#[test]
fn where_others_can_reach_it_only_tls_is_spoken_and_people_sign_in() {
    let mut console = lan("");
    let port = console.port;
    let (address, fingerprint) = link(&console);
    let code = address.strip_prefix(&format!("https://hearth.lan:{port}/sign-in/")).unwrap().to_owned();
    let fingerprint = fingerprint.unwrap();
    let said = console.host.run(&["console"], b"");
    assert!(said.stderr.contains(&fingerprint), "{said:?}");
    // Without TLS there is no answer at all.
    let plain = console.get("/", "");
    assert!(plain.status == 0 && !plain.head.contains("HTTP/"), "{plain:?}");
    // The certificate is the one that was named, and it is for this name alone.
    let (shown, answer) = get(port, "none", "/", "").unwrap();
    assert_eq!(shown, fingerprint);
    assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("Not signed in"), "{answer}");
    let pem = console.host.path("known.pem");
    let made = Command::new("python3")
        .args(["-c", "import ssl, sys; print(ssl.DER_cert_to_PEM_cert(open(sys.argv[1], 'rb').read()))"])
        .arg(console.host.data().join("run/console/certificate"))
        .output()
        .unwrap();
    std::fs::write(&pem, made.stdout).unwrap();
    let pem = pem.to_str().unwrap();
    assert!(get(port, pem, "/", "").is_ok());
    let other = ask(port, "other.lan", pem, "GET / HTTP/1.1\r\n\r\n").unwrap_err();
    assert!(other.contains("CERTIFICATE_VERIFY_FAILED"), "{other}");
    // Other names are refused, also that of this machine: a page elsewhere may have led here (DNS rebinding).
    for host in ["evil.example", &format!("evil.example:{port}"), &format!("localhost:{port}"), "hearth.lan"] {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let (_, answer) = ask(port, "hearth.lan", pem, &request).unwrap();
        assert!(answer.starts_with("HTTP/1.1 421"), "{host}: {answer}");
    }
    // Signing in.
    let form = format!("code={code}");
    let post = |origin: &str| {
        let request = format!(
            "POST /sign-in HTTP/1.1\r\nHost: hearth.lan:{port}\r\nOrigin: {origin}\r\nContent-Type: \
             application/x-www-form-urlencoded\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{form}",
            form.len()
        );
        ask(port, "hearth.lan", pem, &request).unwrap().1
    };
    assert!(post(&format!("http://hearth.lan:{port}")).starts_with("HTTP/1.1 403"), "a page without TLS");
    let answer = post(&format!("https://hearth.lan:{port}"));
    let cookie =
        answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap_or_else(|| panic!("{answer}"));
    assert!(cookie.starts_with(&format!("__Host-hearth-{port}=")) && cookie.ends_with("; Secure"), "{cookie}");
    let cookie = cookie.split_once(';').unwrap().0.to_owned();
    let (_, home) = get(port, pem, "/", &cookie).unwrap();
    assert!(home.starts_with("HTTP/1.1 200") && home.contains("Ada"), "{home}");
    // Browsers have accepted the certificate once; a restart does not ask them again.
    console.host.kill();
    console.host.start();
    assert_eq!(link(&console).1, Some(fingerprint));
    let (_, home) = get(port, pem, "/", &cookie).unwrap();
    assert!(home.starts_with("HTTP/1.1 200"), "{home}");
    let key = std::fs::metadata(console.host.data().join("run/console/key")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&key.permissions()) & 0o777, 0o600);
    console.host.check();
}

#[test]
fn a_certificate_of_the_operator_is_used_and_read_again_when_it_was_renewed() {
    let dir = tempfile::tempdir().unwrap();
    certificate(dir.path());
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let console = lan(&format!("tls_cert = {:?}\ntls_key = {:?}\n", path("cert.pem"), path("key.pem")));
    assert_eq!(link(&console).1, None, "browsers know it, or people know their own");
    let (first, _) = get(console.port, &path("cert.pem"), "/", "").unwrap();
    certificate(dir.path());
    let second = wait_for("the new certificate", || {
        get(console.port, &path("cert.pem"), "/", "").ok().map(|(digest, _)| digest).filter(|digest| *digest != first)
    });
    assert_ne!(first, second);
    // A file that is no key: the console says why it is not served.
    std::fs::write(path("key.pem"), "no key").unwrap();
    let why = wait_for("the reason", || {
        let ended = console.host.run(&["console"], b"");
        ended.stderr.contains("has no private key").then_some(ended.stderr)
    });
    assert!(why.contains("key.pem"), "{why}");
}

/// The digest of the key of a certificate, as Chromium wants it.
fn key_digest(pem: &str) -> String {
    let script = "openssl x509 -in \"$1\" -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64";
    let made = Command::new("sh").args(["-c", script, "sh", pem]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_browser_that_knows_the_certificate_signs_in_over_tls() {
    let dir = tempfile::tempdir().unwrap();
    certificate(dir.path());
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let option = format!("--ignore-certificate-errors-spki-list={}", key_digest(&path("cert.pem")));
    let Some(mut browser) = Browser::with(&[option]) else { return };
    let mut console = lan(&format!("tls_cert = {:?}\ntls_key = {:?}\n", path("cert.pem"), path("key.pem")));
    let (address, _) = link(&console);
    // A browser that does not know it stays away.
    let mut other = Browser::start().unwrap();
    let refused = other.step(&json!({"go": address}));
    assert!(refused.as_str().is_some_and(|why| why.contains("ERR_CERT_AUTHORITY_INVALID")), "{refused}");
    browser.go(&address);
    browser.press("Sign in");
    browser.wait("document.querySelector('h1')?.innerText === 'Home' && window.isSecureContext");
    let cookies = browser.step(&json!({"cookies": true}));
    let cookie = &cookies[0];
    assert!(cookie["name"].as_str().unwrap().starts_with("__Host-hearth-") && cookie["secure"] == true, "{cookie}");
    // The page updates itself, also after the daemon was killed.
    browser.go(&format!("https://hearth.lan:{}/tasks", console.port));
    for prompt in ["Water the plants", "Read the news"] {
        console.host.done(&["tasks", "add", "main", prompt, "--every", "2h", "--no-chat"], b"");
        browser.wait(&format!("document.body.innerText.includes({prompt:?})"));
        console.host.kill();
        browser.wait("!document.getElementById('offline').hidden");
        console.host.start();
        browser.wait("document.getElementById('offline').hidden");
    }
}

/// Connects to each port that it is told and says what came of it.
const AGENT: &str = r#"
def answer(text):
    told = []
    for port in text.split():
        command = ["curl", "-sS", "--max-time", "10", "http://this-machine.internal:" + port + "/"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
        told.append(ended.stdout + ended.stderr)
    return "; ".join(told)
"#;

#[test]
fn doctor_names_a_key_that_all_users_can_read() {
    let host = Host::with_echo();
    let (cert, key) = (host.path("cert.pem"), host.path("key.pem"));
    certificate(host.path("").as_path());
    host.apply(&format!("schema = 1\n[console]\ntls_cert = {cert:?}\ntls_key = {key:?}\n"));
    for (mode, is_named) in [(0o644, true), (0o602, true), (0o640, false), (0o600, false)] {
        std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        let shown = host.run(&["doctor", "--offline"], b"").stdout;
        assert_eq!(shown.contains("all users of this machine can read or change"), is_named, "{mode:o}: {shown}");
    }
}

#[test]
fn an_agent_does_not_reach_the_console_even_where_a_rule_names_its_port() {
    if !possible() {
        return;
    }
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, open) = (free_port(), other.local_addr().unwrap().port());
    std::thread::spawn(move || {
        for stream in other.incoming() {
            let mut stream = stream.unwrap();
            drop(stream.read(&mut [0; 4096]));
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nreachable"));
        }
    });
    let mut host = Host::with_agent(&format!(
        "provider = \"command\"\ncommand = [\"python3\", \"agent.py\"]\nnetwork = \"listed\"\n\
         allow = [\"this-machine.internal:{port}\", \"this-machine.internal:{open}\"]"
    ));
    let group = host.data().join("groups/main");
    std::fs::create_dir_all(&group).unwrap();
    std::fs::write(group.join("agent.py"), format!("{PROTOCOL}\n{AGENT}\nmain()\n")).unwrap();
    host.apply(&format!(
        "schema = 1\n[console]\nlisten = \"127.0.0.1:{port}\"\n[[users]]\nid = \"{}\"\nroles = [\"owner\"]\n\
         [[agents]]\nfolder = \"free\"\nprovider = \"echo\"\nnetwork = \"open\"\n",
        me()
    ));
    let offline = host.run(&["doctor", "--offline"], b"");
    if offline.stdout.contains("install bubblewrap") {
        return skipped("there is no bubblewrap that works");
    }
    host.start();
    let console = Console { host, port };
    assert_eq!(console.get("/", "").status, 401, "it is served");
    console.host.inject("1", &format!("{port} {open}"));
    let said = console.host.wait_said(1).remove(0);
    assert!(said.contains("Hearth itself listens there") && said.ends_with("reachable"), "{said}");
    assert!(!said.contains("Not signed in"), "{said}");
    // Who shares the machine's network may try, and `doctor` names them.
    let shown = console.host.run(&["doctor", "--offline", "--json"], b"").stdout;
    assert!(shown.contains("can connect to it, without a session: free"), "{shown}");
}
