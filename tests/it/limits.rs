//! Limits of the system and load by other agents: few open files, little address space, floods.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::host::{Host, Running, event, wait_for};

/// A daemon under limits of the shell, without files inherited from the test: their numbers may be above the limit.
fn limited(host: &Host, limit: &str) -> Running {
    let mut shell = host.bare("bash");
    let close = "for fd in /proc/$$/fd/*; do fd=${fd##*/}; if [ $fd -gt 2 ]; then eval \"exec $fd>&-\"; fi; done";
    let script = format!("{close}; {limit}; exec \"$0\" run --runtime process --data \"$1\"");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_hearth")]).arg(host.data());
    Running::start_open(shell)
}

/// A daemon under limits that is already serving.
fn serving(host: &Host, limit: &str) -> Running {
    let mut daemon = limited(host, limit);
    wait_for("the daemon to serve", || {
        assert!(daemon.try_end().is_none(), "{limit}: {}", daemon.stderr());
        daemon.stderr().contains("hearth is running").then_some(())
    });
    daemon
}

#[test]
fn idle_connections_keep_no_one_out_where_few_files_can_be_opened() {
    for limit in ["ulimit -n 64", "ulimit -S -n 64"] {
        let mut host = Host::with_echo();
        let port = crate::host::channels::free_port();
        host.env.push(("WEB_SECRET".to_owned(), "0123456789abcdef0123456789abcdef".to_owned()));
        host.apply(&format!(
            "schema = 1\n[channels.web]\ntype = \"webhook\"\nsecret = \"env:WEB_SECRET\"\nlisten = \"127.0.0.1:{port}\"\n"
        ));
        let daemon = serving(&host, limit);
        let socket = std::fs::read_to_string(host.data().join("run/socket")).unwrap();
        let connect = || TcpStream::connect(("127.0.0.1", port)).ok();
        wait_for("the webhook to listen", connect);
        let callers: Vec<TcpStream> = (0..100).filter_map(|_| connect()).collect();
        let clients: Vec<UnixStream> = (0..100).filter_map(|_| UnixStream::connect(&socket).ok()).collect();
        assert!(callers.len() == 100 && !clients.is_empty(), "{limit}");
        let mut caller = connect().unwrap();
        caller.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        caller.write_all(b"POST /hearth HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").unwrap();
        let mut answer = [0; 12];
        caller.read_exact(&mut answer).unwrap_or_else(|error| panic!("{limit}: {error}: {}", daemon.stderr()));
        assert!(answer.starts_with(b"HTTP/1.1 4"), "{limit}: {}", String::from_utf8_lossy(&answer));
        assert_eq!(host.inject("m1", "still served")["outcome"], "routed", "{limit}");
        assert_eq!(host.wait_said(1), ["echo: still served"], "an agent can be started");
        assert_eq!(host.status()["daemon"]["runtime"], "process");
        assert_eq!(daemon.signal(rustix::process::Signal::TERM).end().code, Some(0), "{limit}");
    }
}

#[test]
fn too_little_address_space_is_told_and_no_panic() {
    let host = Host::with_echo();
    for kibibytes in [100_000, 200_000, 400_000, 800_000, 1_500_000] {
        let ended = limited(&host, &format!("ulimit -v {kibibytes}")).end();
        assert_eq!((ended.code, ended.signal), (Some(1), None), "{kibibytes}: {ended:#?}");
        assert!(ended.stderr.contains("ulimit -v") && !ended.stderr.contains("panicked"), "{kibibytes}: {ended:#?}");
    }
    let daemon = serving(&host, "ulimit -v 1600000");
    host.inject("m1", "hello");
    assert_eq!(host.wait_said(1), ["echo: hello"]);
    assert_eq!(daemon.signal(rustix::process::Signal::TERM).end().code, Some(0));
    host.check();
}

/// More than a thousand separate messages at once are more than one collection reads.
#[test]
fn a_flood_of_an_agent_is_a_warning_of_status() {
    let mut host = Host::with_echo();
    host.start();
    assert_eq!(host.status()["daemon"]["floods"], serde_json::json!([]));
    let flood = "!say again\n".repeat(1_100);
    host.done(&["inject", "--json"], event("m1", &flood).to_string().as_bytes());
    let status = wait_for("the flood to be noticed", || {
        Some(host.status()).filter(|status| status["daemon"]["floods"][0]["discarded"].as_u64() > Some(0))
    });
    assert_eq!(status["daemon"]["floods"][0]["session"], "se1", "{status}");
    let warned =
        |text: &str| text.contains("agent main writes messages faster than Hearth accepts them in session se1");
    assert!(warned(&status["warnings"].to_string()), "{status}");
    assert!(warned(&host.done(&["status"], b"")));
}
