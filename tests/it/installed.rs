//! Hearth as a system service. The programs of the system are stand-ins that record their arguments.

use std::io::Write as _;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use rustix::process::{Signal, kill_process};

use crate::host::installed::{INSTALL, System};
use crate::host::{Host, Running, wait_for};

#[test]
fn it_is_installed_once_and_removed_and_the_data_stays() {
    let system = System::new();
    system.host.apply("schema = 1\n");
    let rehearsed = system.json(&["install", "--dry-run"]);
    let file = PathBuf::from(rehearsed["file"].as_str().unwrap());
    assert!(file.starts_with(system.host.path(".config/systemd/user")) && !file.exists(), "{rehearsed}");
    let text = rehearsed["text"].as_str().unwrap();
    let data = system.host.data();
    assert!(
        text.contains(&format!("run --data \"{}\" --installation ", data.canonicalize().unwrap().display())),
        "{text}"
    );
    assert!(text.contains("TimeoutStopSec=75\n") && text.contains("/hearth-") && text.contains(".env\n"), "{text}");
    assert_eq!(system.told(), Vec::<String>::new());

    let installed = system.json(INSTALL);
    assert_eq!((&installed["written"], &installed["started"]), (&"new".into(), &true.into()), "{installed}");
    assert!(installed["warnings"][0].as_str().unwrap().contains("cargo"), "{installed}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    let start = ["systemctl --user daemon-reload", "systemctl --user enable UNIT", "systemctl --user start UNIT"];
    assert_eq!(system.told(), start);

    assert_eq!(system.json(INSTALL)["written"], "unchanged");
    assert_eq!(system.told(), start);
    std::fs::write(&file, format!("{text}# another\n")).unwrap();
    system.state("LoadState=loaded\nActiveState=active\nMainPID=1\n");
    assert_eq!(system.json(INSTALL)["written"], "changed");
    assert_eq!(system.told().last().unwrap(), "systemctl --user restart UNIT");

    let removed = system.json(&["uninstall"]);
    assert_eq!(removed["removed"], true, "{removed}");
    let stop =
        ["disable --now UNIT", "daemon-reload", "reset-failed UNIT"].map(|one| format!("systemctl --user {one}"));
    assert_eq!(system.told(), stop);
    assert!(!file.exists() && data.join("store").exists());
    std::fs::remove_file(system.dir.join("state")).unwrap();
    assert!(system.done(&["uninstall"]).stdout.contains("is not installed"));
    assert_eq!(system.told(), Vec::<String>::new());
}

/// The service runs the installation whose store exists, and its unit file does not change while that store is missing.
#[test]
fn the_service_is_of_one_installation() {
    let system = System::new();
    let id = format!("{:016x}", hearth::state::installation(&system.host.data()).unwrap());
    let file = PathBuf::from(system.json(INSTALL)["file"].as_str().unwrap());
    let text = std::fs::read_to_string(&file).unwrap();
    let data = system.host.data().canonicalize().unwrap();
    assert!(text.contains(&format!("--installation {id}\n")), "{text}");
    assert!(text.contains(&format!("RequiresMountsFor=\"{}\"\n", data.display())), "{text}");
    let plist = system.json(&with(&["install", "--dry-run"]));
    assert!(plist["text"].as_str().unwrap().contains(&format!("<string>--installation</string><string>{id}</string>")));
    // The disk is not mounted.
    std::fs::rename(system.host.data(), system.host.path("mounted")).unwrap();
    let status = system.json(&["status"]);
    assert!(!status["problems"].to_string().contains("not what this program would write"), "{status}");
    let refused = system.run(INSTALL);
    assert!(refused.code == Some(1) && refused.stderr.contains("there is no store in"), "{refused:#?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    assert!(!system.host.data().exists());
    // Another installation is another service.
    system.host.apply("schema = 1\n");
    assert!(system.json(&["status"])["problems"].to_string().contains("installation"), "{status}");
    assert_eq!(system.json(INSTALL)["written"], "changed");
}

/// The packages' unit differs only in what it cannot know: the store, its installation, and its user's programs.
#[test]
fn the_packaged_unit_has_the_settings_of_the_installed_one() {
    let system = System::new();
    system.host.apply("schema = 1\n");
    let installed = system.json(&["install", "--dry-run"])["text"].as_str().unwrap().to_owned();
    let packaged = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/hearth.service")).unwrap();
    let settings = |text: &str| -> Vec<String> {
        let own = ["ExecStart=", "ConditionPathExists=", "RequiresMountsFor=", "EnvironmentFile=", "Environment=", "#"];
        let lines = text.lines().filter(|line| !line.is_empty() && !own.iter().any(|start| line.starts_with(start)));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(settings(&packaged), settings(&installed));
    // A disk that is not mounted must not look like a fresh directory.
    assert!(packaged.contains("ConditionPathExists=%h/.local/share/hearth/store\n"), "{packaged}");
}

#[test]
fn the_files_for_the_image_of_the_host_name_this_version() {
    let image = format!("localhost/hearth:{}", env!("CARGO_PKG_VERSION"));
    for file in ["container/host/compose.yaml", "container/host/hearth.container", "docs/install.md"] {
        let text = std::fs::read_to_string(format!("{}/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        assert!(text.contains(&image), "{file} does not name {image}");
    }
}

/// An installed unit file is started, even if an earlier command was interrupted before that.
#[test]
fn a_restart_that_failed_is_made_up_for() {
    let system = System::new();
    system.host.apply("schema = 1\n");
    let file = PathBuf::from(system.json(INSTALL)["file"].as_str().unwrap());
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}# another\n")).unwrap();
    system.state("LoadState=loaded\nActiveState=active\nMainPID=1\n");
    std::fs::write(system.dir.join("stuck"), "").unwrap();
    let stuck = system.run(INSTALL);
    assert!(stuck.code == Some(1) && stuck.stderr.contains("hearth service logs"), "{stuck:#?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    std::fs::remove_file(system.dir.join("stuck")).unwrap();
    system.told();
    for (written, verb) in [("changed", "restart"), ("unchanged", "start")] {
        assert_eq!(system.json(INSTALL)["written"], written);
        assert_eq!(*system.told().last().unwrap(), format!("systemctl --user {verb} UNIT"));
    }
}

/// A newline in a path would begin a new setting.
#[test]
fn a_path_that_is_not_one_line_is_refused() {
    let system = System::new();
    for data in ["data\nExecStartPre=evil", "data\r", "data\u{1b}"] {
        for arguments in [&["install", "--dry-run"][..], INSTALL] {
            let mut command = system.host.bare(env!("CARGO_BIN_EXE_hearth"));
            command.arg("service").args(arguments).arg("--data").arg(system.host.path(data));
            let refused = Running::start(command, b"").end();
            assert_eq!(refused.code, Some(1), "{data:?}: {refused:#?}");
            assert!(refused.stderr.contains("is not one line of text"), "{data:?}: {refused:#?}");
        }
    }
    assert!(!system.host.path(".config").exists());
}

#[test]
fn what_hearth_did_not_make_is_left_alone() {
    let system = System::new();
    let file = PathBuf::from(system.json(&["install", "--dry-run"])["file"].as_str().unwrap());
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "[Service]\n").unwrap();
    for arguments in [INSTALL, &["uninstall"]] {
        let refused = system.run(arguments);
        assert_eq!(refused.code, Some(1), "{refused:#?}");
        assert!(refused.stderr.contains("not made by Hearth"), "{refused:#?}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "[Service]\n");
    }
    let replaced = system.json(&["install", "--as-root", "--replace", "--no-start"]);
    assert_eq!((&replaced["written"], &replaced["started"]), (&"changed".into(), &false.into()));
    let know = ["systemctl --user daemon-reload", "systemctl --user enable UNIT"];
    assert_eq!(system.told(), know);
    // It is no change any more, although something else started it.
    assert_eq!(system.json(&["install", "--as-root", "--no-start"])["written"], "unchanged");
    assert_eq!(system.told(), know);
    system.state("LoadState=loaded\nActiveState=active\nMainPID=1\n");
    assert_eq!(system.json(INSTALL)["written"], "unchanged");
    assert_eq!(system.told().last().unwrap(), "systemctl --user start UNIT");
    // A new version that is not started automatically is started by the user.
    std::fs::write(&file, std::fs::read_to_string(&file).unwrap() + "# another\n").unwrap();
    assert_eq!(system.json(&["install", "--as-root", "--no-start"])["written"], "changed");
    assert_eq!(system.json(INSTALL)["written"], "changed");
    assert_eq!(system.told().last().unwrap(), "systemctl --user restart UNIT");
}

#[test]
fn without_a_manager_it_says_what_to_do() {
    let mut system = System::new();
    std::fs::write(system.dir.join("down"), "").unwrap();
    let down = system.run(INSTALL);
    assert_eq!(down.code, Some(1), "{down:#?}");
    assert!(down.stderr.contains("Failed to connect to bus; log in as this user"), "{down:#?}");
    let nothing = system.host.path("nothing");
    std::fs::create_dir(&nothing).unwrap();
    system.host.env.push(("PATH".into(), nothing.display().to_string()));
    for arguments in [INSTALL, &["status"]] {
        let missing = system.run(arguments);
        assert_eq!(missing.code, Some(1), "{missing:#?}");
        assert!(missing.stderr.contains("ctl` not found: `hearth service` needs systemd"), "{missing:#?}");
    }
    if rustix::process::geteuid().is_root() {
        let root = system.run(&["install"]);
        assert!(root.code == Some(1) && root.stderr.contains("--as-root"), "{root:#?}");
    }
}

#[test]
fn what_system_and_hearth_say_is_compared() {
    let mut system = System::new();
    system.host.apply("schema = 1\n");
    let absent = system.run(&["status"]);
    assert!(absent.code == Some(1) && absent.stderr.contains("not installed"), "{absent:#?}");
    system.done(&["install", "--as-root", "--no-start"]);
    system.host.start();
    let pid = system.host.daemon().unwrap().pid().as_raw_nonzero().get().cast_unsigned();
    let state = |pid: u32| {
        format!(
            "LoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\nMainPID={pid}\nStatusText=serving\n"
        )
    };
    system.state(&state(pid));
    let agreed = system.done(&["status"]);
    assert!(agreed.stdout.contains("active (running)") && agreed.stdout.contains("serving"), "{agreed:#?}");
    system.state(&state(1));
    let other = system.json(&["status"]);
    assert!(other["problems"][0].as_str().unwrap().contains("process 1"), "{other}");
    // Another daemon uses the data directory, so the system's would fail.
    system.state("LoadState=loaded\nActiveState=inactive\nMainPID=0\n");
    let beside = system.json(INSTALL);
    assert_eq!(beside["started"], false, "{beside}");
    assert!(beside["warnings"].to_string().contains("is already running"), "{beside}");
}

#[test]
fn logs_are_those_of_the_unit() {
    let system = System::new();
    system.done(&["install", "--as-root", "--no-start"]);
    system.told();
    system.done(&["logs", "-f", "-n", "5", "--since", "1 hour ago"]);
    assert_eq!(system.told(), ["journalctl --user-unit=UNIT --lines=5 --since=1 hour ago --follow"]);
    system.done(&["logs", "--json"]);
    assert_eq!(system.told(), ["journalctl --user-unit=UNIT --lines=100 --output=json"]);
    let short = |arguments: &[&str]| assert_eq!(system.host.run(arguments, b"").code, Some(0), "{arguments:?}");
    short(&["logs"]);
    short(&["logs", "-f"]);
    assert_eq!(system.told(), ["", " --follow"].map(|more| format!("journalctl --user-unit=UNIT --lines=100{more}")));
}

/// Where nothing runs, the journal would only say that it has no entries.
#[test]
fn logs_of_what_never_ran_say_so_and_how_to_start() {
    let system = System::new();
    for arguments in [&["logs"][..], &["logs", "-f"], &["service", "logs"]] {
        let refused = system.host.run(arguments, b"");
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{refused:#?}");
        for words in ["there is no log: Hearth is not running", "`hearth service install`", "`hearth run`"] {
            assert!(refused.stderr.contains(words), "{words}: {refused:#?}");
        }
    }
    assert_eq!(system.told(), Vec::<String>::new());
}

/// The unit of a package has no file in the user's directory, but systemd knows it.
#[test]
fn the_unit_of_a_package_is_a_service() {
    let system = System::new();
    system.state("LoadState=loaded\nActiveState=active\nMainPID=1\n");
    for arguments in [["logs"], ["stop"]] {
        let done = system.host.run(&arguments, b"");
        assert_eq!(done.code, Some(0), "{done:#?}");
    }
    assert_eq!(system.told(), ["journalctl --user-unit=UNIT --lines=100", "systemctl --user stop UNIT"]);
}

#[test]
fn start_stop_and_restart_are_passed_to_the_unit() {
    let system = System::new();
    for command in ["start", "stop", "restart"] {
        let refused = system.host.run(&[command], b"");
        assert!(refused.code == Some(1) && refused.stderr.contains("no service is installed"), "{refused:#?}");
    }
    assert_eq!(system.told(), Vec::<String>::new());
    system.done(&["install", "--as-root", "--no-start"]);
    system.told();
    for (command, said) in
        [("start", "started\n"), ("stop", "stopped; it starts again at the next login\n"), ("restart", "restarted\n")]
    {
        let done = system.host.run(&[command], b"");
        assert_eq!((done.code, done.stdout.as_str()), (Some(0), said), "{done:#?}");
        assert_eq!(system.told(), [format!("systemctl --user {command} UNIT")]);
    }
    std::fs::write(system.dir.join("stuck"), "").unwrap();
    let stuck = system.host.run(&["restart"], b"");
    assert!(stuck.code == Some(1) && stuck.stderr.contains("Job failed; see `hearth service logs`"), "{stuck:#?}");
}

#[test]
fn logs_without_a_service_are_followed_in_a_file_or_their_place_is_named() {
    let mut host = Host::with_echo();
    host.start();
    for arguments in [&["logs"][..], &["logs", "-f"]] {
        let piped = host.run(arguments, b"");
        assert!(piped.code == Some(1) && piped.stderr.contains("outside of a service"), "{piped:#?}");
        #[cfg(target_os = "linux")]
        assert!(piped.stderr.contains("with the program that started it"), "{piped:#?}");
    }
    host.stop();
    if cfg!(not(target_os = "linux")) {
        return;
    }
    let log = host.path("hearth.log");
    let mut command = host.bare("sh");
    command.env("HEARTH_DATA", host.data()).env("HEARTH", env!("CARGO_BIN_EXE_hearth")).env("LOG", &log);
    let daemon = Running::start(
        {
            command.args(["-c", "exec \"$HEARTH\" run --runtime process 2>>\"$LOG\""]);
            command
        },
        b"",
    );
    wait_for("the log", || std::fs::read_to_string(&log).ok().filter(|text| !text.is_empty()));
    let shown = wait_for("the daemon", || {
        let shown = host.run(&["logs", "-n", "1000"], b"");
        (shown.code == Some(0)).then_some(shown)
    });
    assert!(
        !shown.stdout.is_empty() && std::fs::read_to_string(&log).unwrap().starts_with(&shown.stdout),
        "{shown:#?}"
    );
    let mut following = Running::start(host.command(&["logs", "-f", "-n", "0"]), b"");
    // `tail` may begin at any later end of the file.
    wait_for("a new line", || {
        let mut file = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
        writeln!(file, "a line that is new").unwrap();
        following.stdout().contains("a line that is new").then_some(())
    });
    assert!(following.try_end().is_none(), "it ended by itself");
    let since = host.run(&["logs", "--since", "yesterday"], b"");
    assert!(since.code == Some(1) && since.stderr.contains("plain file"), "{since:#?}");
    assert_eq!(daemon.signal(Signal::TERM).end().code, Some(0));
    following.signal(Signal::INT);
}

fn with<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [arguments, &["--manager", "launchd"]].concat()
}

#[test]
fn launchd_is_told_the_same() {
    let system = System::new();
    let installed = system.json(&with(INSTALL));
    let file = PathBuf::from(installed["file"].as_str().unwrap());
    assert!(file.starts_with(system.host.path("Library/LaunchAgents")), "{installed}");
    assert!(std::fs::read_to_string(&file).unwrap().contains("<key>ExitTimeOut</key><integer>75</integer>"));
    let told = std::fs::read_to_string(system.dir.join("told")).unwrap();
    let verbs: Vec<&str> = told.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(verbs, ["print", "bootout", "enable", "bootstrap"], "{told}");
    system.done(&with(&["logs", "-n", "3"]));
    let since = system.run(&with(&["logs", "--since", "yesterday"]));
    assert!(since.code == Some(1) && since.stderr.contains("journal"), "{since:#?}");
    system.done(&with(&["uninstall"]));
    assert!(!file.exists());
}

/// The system is notified when the daemon serves, and when it stops.
#[test]
fn the_system_is_told_how_the_daemon_is() {
    let mut host = Host::with_echo();
    let path = host.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_nonblocking(true).unwrap();
    host.env.push(("NOTIFY_SOCKET".into(), path.display().to_string()));
    let heard = std::cell::RefCell::new(String::new());
    let wait = |wanted: &str| {
        wait_for(wanted, || {
            let mut text = [0; 200];
            while let Ok(length) = socket.recv(&mut text) {
                heard.borrow_mut().push_str(&String::from_utf8_lossy(&text[..length]));
            }
            heard.borrow().contains(wanted).then_some(())
        });
    };
    host.launch();
    wait("READY=1");
    wait("WATCHDOG=1");
    kill_process(host.daemon().unwrap().pid(), Signal::TERM).unwrap();
    wait("STOPPING=1");
    assert_eq!(host.ended().code, Some(0));
}

/// A daemon can be stopped cleanly from the first moment at which its socket exists.
#[test]
fn a_daemon_that_was_just_found_ends_in_order() {
    let mut host = Host::with_echo();
    let socket = host.data().join("run/socket");
    for _ in 0..20 {
        host.launch();
        while !socket.exists() {
            std::thread::yield_now();
        }
        kill_process(host.daemon().unwrap().pid(), Signal::TERM).unwrap();
        let ended = host.ended();
        assert_eq!((ended.code, ended.signal), (Some(0), None), "{ended:#?}");
        assert!(!socket.exists());
    }
}
