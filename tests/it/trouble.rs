//! Failures around Hearth: sockets, disks, directories, damaged and newer stores. Errors are clear, nothing is lost,
//! and unaffected work continues.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hearth::model::id::OutboundId;
use hearth::socket::protocol::VERSION;
use hearth::state::{self, Options, Reader, Store};
use serde_json::{Value, json};

use crate::host::disk::{Disk, Filler};
use crate::host::raw::Raw;
use crate::host::{Host, PATIENCE, Running, event, wait_for};

#[test]
fn the_socket_wants_the_token() {
    let mut host = Host::with_echo();
    host.start();
    let token = std::fs::read_to_string(host.data().join("run/token")).unwrap();
    let hello = |version: u32, token: &str| json!({"do": "hello", "v": version, "token": token}).to_string();
    for (line, code) in [
        (hello(VERSION, "wrong"), "token"),
        (hello(VERSION, ""), "token"),
        (hello(VERSION, &token[1..]), "token"),
        (hello(VERSION + 1, &token), "version"),
        (json!({"do": "status"}).to_string(), "token"),
        ("GET / HTTP/1.1".to_owned(), "token"),
        ("\u{0}".to_owned(), "token"),
    ] {
        let mut raw = Raw::connect(&host.data());
        raw.send(&line);
        let refused = raw.hear();
        assert_eq!((&refused["is"], &refused["code"]), (&"refused".into(), &code.into()), "{line}: {refused}");
        assert_eq!(raw.hear(), Value::Null, "{line}: the connection stays open");
    }
    let mode = std::fs::metadata(host.data().join("run/token")).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
    assert_eq!(host.inject("m1", "still there")["outcome"], "routed");
}

#[test]
fn whoever_says_nothing_is_shown_out_and_nonsense_is_answered() {
    let mut host = Host::with_echo();
    host.start();
    let mut silent = Raw::connect(&host.data());
    let mut raw = Raw::greet(&host.data());
    for (line, code) in [
        ("nonsense", "invalid"),
        ("{}", "invalid"),
        (r#"{"do":"say","id":"1","text":"not attached"}"#, "invalid"),
        (r#"{"do":"shown","id":"mo1"}"#, "invalid"),
        (r#"{"do":"shown","id":"12345-mo1"}"#, "invalid"),
        (r#"{"do":"hello","v":1,"token":""}"#, "invalid"),
        (r#"{"do":"attach","agent":"nobody"}"#, "attach"),
        (r#"{"do":"apply","toml":"x","dry_run":false}"#, "invalid"),
    ] {
        raw.send(line);
        let heard = raw.hear();
        assert_eq!((&heard["is"], &heard["code"]), (&"refused".into(), &code.into()), "{line}: {heard}");
    }
    // An endless line costs no more than its limit, and ends the connection.
    let flood = vec![b'x'; 65 << 20];
    let flooded = raw.stream().write_all(&flood);
    assert!(flooded.is_err(), "the daemon took a line without an end");
    // Before the token, the limit is that of a greeting.
    let flooded = Raw::connect(&host.data()).stream().write_all(&flood[..5 << 20]);
    assert!(flooded.is_err(), "the daemon took a greeting without an end");
    assert_eq!(silent.hear()["code"], "token", "the greeting has a deadline");
    host.check();
}

#[test]
fn a_terminal_that_never_reads_holds_up_nobody() {
    let mut host = Host::new();
    host.start();
    host.done(&["chat", "set up"], b"");
    let mut stuck = Raw::greet(&host.data());
    stuck.send(&json!({"do": "attach", "agent": null}).to_string());
    assert_eq!(stuck.hear()["is"], "attached");
    // More requests than answers may be pending: the daemon stops reading from the connection, without other effects.
    let asking = json!({"do": "status"}).to_string() + "\n";
    stuck.stream().set_nonblocking(true).unwrap();
    let flood = asking.repeat(100_000);
    let mut sent = 0;
    while let Ok(bytes) = stuck.stream().write(&flood.as_bytes()[sent..]) {
        sent += bytes;
        if sent == flood.len() {
            break;
        }
    }
    assert!(sent < flood.len(), "the daemon took {sent} bytes of requests whose answers nobody reads");
    assert_eq!(host.done(&["chat", "and the others"], b""), "echo: and the others\n");
    assert_eq!(host.stop().code, Some(0));
}

#[test]
fn a_store_of_a_newer_hearth_is_left_alone() {
    let mut host = Host::with_echo();
    let store = Store::open(&host.data(), Options::new(1)).unwrap();
    let newer = |db: &hearth::state::Tables, txn: &mut hearth::state::Write<'_>| {
        let mut meta = db.meta.require(txn, &())?;
        meta.format += 1;
        db.meta.put(txn, &(), &meta)
    };
    store.write::<_, hearth::state::Error>(newer).unwrap();
    drop(store);
    let before = std::fs::read(host.data().join("store/data.mdb")).unwrap();
    let injected = event("m1", "hello").to_string();
    for (arguments, input) in [
        (vec!["run"], ""),
        (vec!["up"], "hello\n"),
        (vec!["chat", "hello"], ""),
        (vec!["inject"], injected.as_str()),
        (vec!["status"], ""),
        (vec!["check"], ""),
    ] {
        let ended = host.run(&arguments, input.as_bytes());
        assert_eq!(ended.code, Some(1), "{arguments:?} {ended:#?}");
        assert!(ended.stderr.contains("install the newer Hearth"), "{arguments:?} {ended:#?}");
    }
    host.launch();
    assert_eq!(host.ended().code, Some(1));
    assert!(std::fs::read(host.data().join("store/data.mdb")).unwrap() == before, "the store was written to");
}

#[test]
fn a_damaged_record_is_named_and_the_rest_works() {
    let mut host = Host::with_echo();
    host.start();
    host.inject("m1", "unmistakable words\n!silence");
    host.wait_settled();
    assert_eq!(host.stop().code, Some(0));
    host.check();
    damage(&host, b"unmistakable words");
    let check = host.run(&["check"], b"");
    assert_eq!(check.code, Some(1), "{check:#?}");
    assert!(check.stdout.contains("bodies") && check.stdout.contains("mb1"), "{check:#?}");
    let dump = host.dump(&["--bodies"]);
    assert_eq!(dump.code, Some(1), "{dump:#?}");
    assert!(dump.stdout.contains("mb1 of table bodies is damaged") && dump.stdout.contains("ms1: "), "{dump:#?}");
    host.start();
    host.inject("m2", "and again");
    wait_for("the next answer", || {
        host.dump(&["--table", "outbound", "--bodies"]).stdout.contains("echo: and again").then_some(())
    });
    assert_eq!(host.stop().code, Some(0));
}

/// An unreadable message blocks no other message.
#[test]
fn a_damaged_message_that_waits_is_alone_with_its_damage() {
    let mut host = Host::with_echo();
    host.apply(&format!("schema = 1\n{}", crate::host::CHAT.replace("123", "456")));
    let other = |id: &str, text: &str| event(id, text).to_string().replace("\"123\"", "\"456\"");
    host.inject("m1", "unmistakable words");
    host.done(&["inject", "--json"], other("m2", "from the other chat").as_bytes());
    damage(&host, b"unmistakable words");
    host.start();
    host.wait_said(1);
    host.done(&["inject", "--json"], other("m3", "and again").as_bytes());
    assert_eq!(host.wait_said(2), ["echo: from the other chat", "echo: and again"]);
    let check = host.run(&["check"], b"");
    assert!(check.code == Some(1) && check.stdout.contains("mb1"), "{check:#?}");
    assert_eq!(host.stop().code, Some(0));
}

/// Changes one character of a text in a closed store.
fn damage(host: &Host, text: &[u8]) {
    crate::world::power::damage(&host.data().join("store/data.mdb"), text);
}

#[test]
fn places_that_cannot_be_used_are_named() {
    let host = Host::on_disk();
    let file = host.path("file");
    std::fs::write(&file, "").unwrap();
    let long = format!("/tmp/{}", "x".repeat(5_000));
    for (data, word) in [
        (file.to_str().unwrap(), "is not a directory"),
        (file.join("below").to_str().unwrap(), "Not a directory"),
        ("/proc/hearth", "/proc/hearth"),
        ("/sys/hearth", "/sys/hearth"),
        (long.as_str(), "File name too long"),
    ] {
        for arguments in [vec!["up"], vec!["run"], vec!["chat", "hello"], vec!["inject"]] {
            let mut command = host.bare(env!("CARGO_BIN_EXE_hearth"));
            command.args(&arguments).args(["--data", data]);
            let ended = Running::start(command, event("m1", "hello").to_string().as_bytes()).end();
            assert_eq!(ended.code, Some(1), "{arguments:?} {data:.80} {ended:#?}");
            assert!(ended.stderr.contains(word), "{arguments:?} {data:.80} {ended:#?}");
        }
    }
    let open = host.path("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let mut command = host.bare(env!("CARGO_BIN_EXE_hearth"));
    command.args(["up", "--data"]).arg(&open);
    let ended = Running::start(command, b"").end();
    assert!(ended.code == Some(1) && ended.stderr.contains("chmod"), "{ended:#?}");
}

/// A socket's path has at most 107 bytes; the directory's may have more.
#[test]
fn a_long_data_directory_works() {
    let mut host = Host::new();
    let data = host.path(&"long/".repeat(60));
    for runtime in [host.path("runtime"), host.path(&"nowhere/".repeat(20))] {
        let mut command = host.bare(env!("CARGO_BIN_EXE_hearth"));
        command.args(["up", "--data"]).arg(&data).env("XDG_RUNTIME_DIR", runtime);
        let ended = Running::start(command, b"hello\n").end();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "echo: hello\n"), "{ended:#?}");
    }
    host.env.clear();
}

/// A store file that may not grow, which simulates a broken disk.
#[test]
fn a_store_that_fails_stops_the_daemon_with_the_reason() {
    for command in ["run", "up"] {
        let host = Host::with_echo();
        host.done(&["chat", "set up"], b"");
        let blocks = std::fs::metadata(host.data().join("store/data.mdb")).unwrap().len() / 512 + 16;
        let mut shell = host.bare("sh");
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" {command} --data \"$1\"");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_hearth")]).arg(host.data());
        let mut daemon = Running::start_open(shell);
        wait_for("the daemon to serve", || host.data().join("run/socket").exists().then_some(()));
        let mut refused = None;
        for number in 0..200 {
            let event = event(&format!("m{number}"), &"much to say ".repeat(2_000)).to_string();
            let ended = host.run(&["inject", "--json"], event.as_bytes());
            if ended.code != Some(0) {
                refused = Some(ended);
                break;
            }
        }
        let refused = refused.expect("the store could grow");
        assert!(refused.code == Some(1), "{refused:#?}");
        wait_for("the daemon to stop by itself", || daemon.try_end());
        let ended = daemon.end();
        assert_eq!(ended.code, Some(1), "{command} {ended:#?}");
        assert!(ended.stderr.contains("cannot continue: the store failed"), "{command} {ended:#?}");
        host.check();
        assert!(host.done(&["chat", "back again"], b"").contains("back again"));
    }
}

/// A disk that is full for a while: new work is refused, work in progress ends, and nothing is lost, even if the daemon
/// dies meanwhile. Everything continues when there is space.
#[test]
fn a_full_disk_is_waited_out() {
    let mut host = Host::new();
    let Some(_disk) = Disk::mount(host.data()) else { return };
    host.apply(&format!("schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"echo\"\n{}", crate::host::CHAT));
    host.apply(&format!("schema = 1\n{}", crate::host::CHAT.replace("123", "456")));
    host.start();
    host.inject("m1", "!until full\nbefore");
    let open = event("m0", "!until go\nopen").to_string().replace("\"123\"", "\"456\"");
    host.done(&["inject", "--json"], open.as_bytes());
    wait_for("the turns to begin", || host.states().iter().all(|state| state.get("Claimed").is_some()).then_some(()));
    let filler = Filler::fill(&host.data());
    let refused = host.run(&["inject", "--json"], event("m2", "while it is full").to_string().as_bytes());
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    assert!(refused.stdout.contains("store_full"), "{refused:#?}");
    let mut with_file = event("m3", "a file while it is full");
    with_file["message"]["content"]["attachments"] = serde_json::json!([{"name": "a", "data": "eA=="}]);
    let refused = host.run(&["inject", "--json"], with_file.to_string().as_bytes());
    assert!(refused.stdout.contains("store_full"), "{refused:#?}");
    let shards = std::fs::read_dir(host.data().join("files")).unwrap();
    assert_eq!(shards.map(|shard| std::fs::read_dir(shard.unwrap().path()).unwrap().count()).sum::<usize>(), 0);
    // Work in progress ends: the reserve exists for that.
    std::fs::write(host.data().join("groups/main/full"), b"").unwrap();
    wait_for("an end while the disk is full", || host.states()[0].get("Completed").map(|_| ()));
    assert_eq!(host.said(), ["echo: before"]);
    let refused = host.run(&["inject", "--json"], event("m2", "while it is full").to_string().as_bytes());
    assert!(refused.stdout.contains("store_full"), "there is room again: {refused:#?}");
    host.kill();
    host.start();
    filler.make_room();
    host.go();
    wait_for("the answer from before", || host.said().contains(&"echo: open".to_owned()).then_some(()));
    let routed = host.inject("m2", "while it is full");
    assert_eq!(routed["outcome"], "routed", "what was refused for want of room may come again: {routed}");
    // Before the next message, or both could go into one turn and get one answer.
    wait_for("the answer from after", || host.said().contains(&"echo: while it is full".to_owned()).then_some(()));
    let routed = host.done(&["inject", "--json"], with_file.to_string().as_bytes());
    assert!(routed.contains("routed"), "{routed}");
    host.wait_settled();
    host.check();
    assert_eq!(host.said().len(), 4);
    host.stop();
}

/// The reserve is released for work that ends. A daemon that dies before that leaves it to the next one.
#[test]
fn a_death_before_the_reserve_goes_is_survived() {
    for point in ["reserve-share", "reserve-release"] {
        let mut host = Host::new();
        let Some(_disk) = Disk::mount(host.data()) else { return };
        let agent = "[[agents]]\nfolder = \"main\"\nprovider = \"echo\"\n";
        host.apply(&format!("schema = 1\n{agent}{}", crate::host::CHAT));
        host.env.push(("HEARTH_TEST_CRASH_AT".to_owned(), point.to_owned()));
        host.start();
        host.env.clear();
        host.inject("m1", "!until go\nbefore");
        wait_for("the turn to begin", || host.states()[0].get("Claimed").map(|_| ()));
        let mut filler = Filler::fill(&host.data());
        let (data, over) = (host.data(), AtomicBool::new(false));
        let looking = || (0..12_000).take_while(|_| !over.load(Ordering::SeqCst));
        std::thread::scope(|scope| {
            // While a reader is open, each recorded heartbeat needs new pages.
            scope.spawn(|| {
                let read = Reader::open(&data).unwrap().read(|_, _| {
                    looking().for_each(|_| std::thread::sleep(Duration::from_millis(10)));
                    Ok::<_, state::Error>(())
                });
                read.unwrap();
            });
            wait_for(point, || {
                // The program that fills the disk takes released space at once.
                filler.take(&[1; 4_096]);
                host.daemon()?.try_end()
            });
            over.store(true, Ordering::SeqCst);
        });
        assert_eq!(host.ended().signal, Some(9), "{point}");
        host.check();
        host.start();
        filler.make_room();
        host.go();
        wait_for("the answer from before", || host.said().contains(&"echo: before".to_owned()).then_some(()));
        wait_for("room", || {
            let ended = host.run(&["inject", "--json"], event("m3", "after it").to_string().as_bytes());
            ended.stdout.contains("routed").then_some(())
        });
        host.wait_settled();
        host.check();
        host.stop();
    }
}

/// Time without a heartbeat after which a runner counts as dead here: shorter than usual, and longer than two heartbeat
/// intervals.
const SILENT: Duration = Duration::from_secs(12);

/// A runner that waits for space longer than a silent runner may live is not dead, and its turn is not repeated.
/// Another program also takes the part of the reserve that was meant for it.
#[test]
fn a_runner_that_waits_for_room_is_alive() {
    let mut host = Host::new();
    host.env.push(("HEARTH_TEST_HEARTBEAT_MS".to_owned(), SILENT.as_millis().to_string()));
    let Some(_disk) = Disk::mount(host.data()) else { return };
    host.apply(&format!("schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"echo\"\n{}", crate::host::CHAT));
    host.start();
    host.inject("m1", "!until go\nit took long");
    wait_for("the turn to begin", || host.states()[0].get("Claimed").map(|_| ()));
    let mut filler = Filler::fill(&host.data());
    let beat = || std::fs::metadata(host.data().join("sessions/se1/agent/heartbeat")).unwrap().modified().unwrap();
    let before = beat();
    // Longer than a runner may be silent, plus the time until the daemon's next look.
    let began = Instant::now();
    while beat() <= before + SILENT || began.elapsed() < SILENT + Duration::from_secs(6) {
        assert!(began.elapsed() < PATIENCE, "it beats no more");
        std::thread::sleep(Duration::from_secs(1));
        filler.take(&[1; 65_536]);
        filler.take(&[1]);
    }
    assert!(std::fs::write(host.data().join("other"), [1; 8_192]).is_err(), "there was no room");
    filler.make_room();
    host.go();
    wait_for("the answer", || host.said().contains(&"echo: it took long".to_owned()).then_some(()));
    host.wait_settled();
    assert_eq!(host.rows("messages")[0]["value"]["tries"], 0);
    host.check();
    host.stop();
}

/// An agent that lost its mailbox is replaced by one that has one.
#[test]
fn a_removed_directory_of_sessions_needs_no_restart() {
    let mut host = Host::with_echo();
    host.env.push(("HEARTH_TEST_HEARTBEAT_MS".to_owned(), SILENT.as_millis().to_string()));
    host.start();
    host.inject("m1", "before");
    host.wait_settled();
    std::fs::rename(host.data().join("sessions"), host.path("gone")).unwrap();
    host.inject("m2", "after");
    host.wait_settled();
    assert_eq!(host.said(), ["echo: before", "echo: after"]);
    host.check();
}

/// A message whose answer is on a damaged page does not count as unanswered.
#[test]
fn why_says_that_a_missing_row_is_damage() {
    let mut host = Host::with_echo();
    host.start();
    host.inject("m1", "hello");
    host.wait_settled();
    assert_eq!(host.stop().code, Some(0));
    let options = Options { map_bytes: Some(64 << 20), reserve_bytes: 0, ..Options::new(7) };
    let store = Store::open(&host.data(), options).unwrap();
    store.write(|db, txn| db.outbound.rows().delete(txn, &OutboundId::new(1)).map(drop)).unwrap();
    drop(store);
    for arguments in [&["why", "m1"][..], &["why", "m1", "--json"]] {
        let ended = host.run(arguments, b"");
        assert_eq!(ended.code, Some(1), "{ended:#?}");
        for words in ["the store is damaged", "`hearth check`", "`hearth restore BACKUP --replace`"] {
            assert!(ended.stderr.contains(words), "{words}: {ended:#?}");
        }
    }
}
