//! Programs that agents use.

use super::*;

#[expect(clippy::disallowed_methods, reason = "a program that agents use")]
fn program(name: &str) -> Command {
    Command::new(name)
}

fn has(name: &str) -> bool {
    program(name).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn curl_gets_answers_and_sends_files() {
    let world = World::new(echo);
    let url = format!("https://{HOST}/chunks");
    let output = world.curl(&["-H", AUTH, &url]);
    assert!(output.status.success() && text(&output).contains("GET /chunks"), "{}", text(&output));
    assert_eq!(world.got().header("authorization"), [format!("Bearer {VALUE}")]);
    let file = world.directory.path().join("file");
    std::fs::write(&file, "y".repeat(2_000_000)).unwrap();
    for how in [&["-H", "Transfer-Encoding: chunked"][..], &["-H", "Expect: 100-continue"], &[]] {
        let to = format!("https://{HOST}/none");
        let mut arguments = vec!["-H", AUTH, "-T", file.to_str().unwrap()];
        arguments.extend(how);
        arguments.push(&to);
        let output = world.curl(&arguments);
        assert!(output.status.success(), "{how:?}: {}", text(&output));
        let got = world.got();
        assert!(got.head.starts_with("PUT /none"));
        assert!(got.body.len() >= 2_000_000, "{}", got.body.len());
    }
    let foreign = world.curl(&["-H", "x-api-key: mine", &url]);
    assert!(text(&foreign).contains("only the secrets that are bound to this host pass"), "{}", text(&foreign));
    let insecure = program("curl").args(["-sS", "--connect-to", &format!("{HOST}:443:{}", world.gate), &url]).output();
    assert!(!insecure.unwrap().status.success(), "nothing of this machine trusts the authority");
}

#[test]
fn other_programs_accept_the_certificate() {
    let world = World::new(echo);
    let (host, port) = (world.gate.ip().to_string(), world.gate.port().to_string());
    let python = format!(
        "import ssl,socket,http.client\n\
         c=http.client.HTTPSConnection('{HOST}',context=ssl.create_default_context())\n\
         s=socket.create_connection(('{host}',{port}))\n\
         c.sock=c._context.wrap_socket(s,server_hostname='{HOST}')\n\
         c.request('GET','/python',headers={{'Authorization':'Bearer {OURS}'}})\n\
         print(c.getresponse().status)"
    );
    let node = format!(
        "require('https').get({{host:'{host}',port:{port},servername:'{HOST}',path:'/node',headers:{{host:'{HOST}',\
         authorization:'Bearer {OURS}'}}}},r=>{{console.log(r.statusCode);process.exit()}})"
    );
    for (name, arguments) in [("python3", ["-c", &python]), ("node", ["-e", &node])] {
        if !has(name) {
            continue;
        }
        let mut command = program(name);
        command
            .args(arguments)
            .env("SSL_CERT_FILE", world.opener.bundle().unwrap())
            .env("NODE_EXTRA_CA_CERTS", world.opener.bundle().unwrap());
        let output = command.output().unwrap();
        assert_eq!(text(&output).trim(), "200", "{name}");
        assert_eq!(world.got().header("authorization"), [format!("Bearer {VALUE}")], "{name}");
    }
}

#[test]
fn git_sends_the_placeholder_as_a_password() {
    let world = World::with(echo, &[(SECRET, "Authorization: Basic {}", &[])]);
    let url = format!("https://user:{OURS}@{HOST}:{}/a.git", world.gate.port());
    let resolve = format!("http.curloptResolve={HOST}:{}:127.0.0.1", world.gate.port());
    let output = program("git")
        .args(["-c", &resolve, "-c", "http.proactiveAuth=basic", "ls-remote", &url])
        .env("GIT_SSL_CAINFO", world.opener.bundle().unwrap())
        .env("GIT_TERMINAL_PROMPT", "0")
        .output()
        .unwrap();
    let got = world.got();
    assert!(got.head.starts_with("GET /a.git/info/refs?service=git-upload-pack"), "{} {}", got.head, text(&output));
    assert_eq!(got.header("host"), [HOST], "without the port of this test");
}
