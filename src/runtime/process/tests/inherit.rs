//! What a runner inherits from the daemon, and what it does not.

use super::*;

const DUMP_ENVIRONMENT: &str = r#"
import sys
text = open("/proc/self/environ").read()
open(sys.argv[1] + "/environ", "w").write(text.replace("\0", "\n"))
"#;

const DUMP_DESCRIPTORS: &str = r#"
import os, sys
lines = []
for name in os.listdir("/proc/self/fd"):
    try:
        lines.append(name + " " + os.readlink("/proc/self/fd/" + name) + "\n")
    except FileNotFoundError:
        pass
open(sys.argv[1] + "/descriptors", "w").write("".join(lines))
"#;

#[test]
fn the_environment_is_what_is_given_and_nothing_else() {
    let world = World::python(DUMP_ENVIRONMENT);
    let mut spec = world.spec(1, 9);
    spec.settings.env = vec![
        reference("FROM_CMD", "cmd:echo from command"),
        reference("FROM_ENV", "env:TOKEN"),
        ("HEARTH_INCARNATION".to_owned(), EnvValue::Plain("77".to_owned())),
        ("LANG".to_owned(), EnvValue::Plain("de_DE.UTF-8".to_owned())),
        ("PLAIN".to_owned(), EnvValue::Plain("seen by all".to_owned())),
        ("TZ".to_owned(), EnvValue::Plain("Asia/Tokyo".to_owned())),
    ];
    world.runtime.ensure(spec);
    assert_eq!(world.heard.gone(se(1), 9), (Exit::Code(0), String::new()));
    let text = std::fs::read_to_string(world.path("environ")).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let home = world.path("home").display().to_string();
    let roots = format!(
        r#"HEARTH_ROOTS={{"group":"{}","home":"{home}","session":"{}"}}"#,
        world.path("groups/main").display(),
        world.path("session").display()
    );
    let expected = [
        "FROM_CMD=from command",
        "FROM_ENV=token-of-the-daemon",
        "HEARTH_INCARNATION=9",
        "HEARTH_LIFE_FD=3",
        "HEARTH_LOCK_FD=4",
        &roots,
        &format!("HOME={home}"),
        "LANG=de_DE.UTF-8",
        "NANOCLAW_SESSION_NAME=maintenance",
        "PATH=/usr/local/bin:/usr/bin:/bin",
        "PLAIN=seen by all",
        "TZ=UTC",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn two_descriptors_are_inherited_and_others_are_covered() {
    // Inheritable, as the store's data file is.
    let (_read, write) = std::io::pipe().unwrap();
    rustix::io::fcntl_setfd(&write, rustix::io::FdFlags::empty()).unwrap();
    let world = World::python(DUMP_DESCRIPTORS);
    world.ensure(1, 1);
    assert_eq!(world.heard.gone(se(1), 1), (Exit::Code(0), String::new()));
    let text = std::fs::read_to_string(world.path("descriptors")).unwrap();
    let stray = std::os::fd::AsRawFd::as_raw_fd(&write);
    for line in text.lines() {
        let (number, target) = line.split_once(' ').unwrap();
        match number.parse::<i32>().unwrap() {
            2 | 3 => assert!(target.starts_with("pipe:"), "{line}"),
            4 => assert_eq!(PathBuf::from(target), world.lock(1).canonicalize().unwrap()),
            // Another test may open a store just before the child is made.
            _ => assert!(target == "/dev/null" || target.ends_with(".mdb"), "{line}"),
        }
    }
    let numbers: Vec<i32> = text.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).collect();
    assert!([0, 1, 2, 3, 4, stray].iter().all(|number| numbers.contains(number)), "{text}");
}

#[test]
fn a_setting_that_is_no_variable_is_told() {
    let world = World::sh("");
    for (incarnation, name) in ["", "A=B", "1A", "A B", "A\0"].iter().enumerate() {
        let incarnation = u32::try_from(incarnation).unwrap() + 1;
        let mut spec = world.spec(1, incarnation);
        spec.settings.env = vec![((*name).to_owned(), EnvValue::Plain(String::new()))];
        world.runtime.ensure(spec);
        let reason = world.heard.refused(se(1), incarnation);
        assert!(reason.ends_with("cannot be the name of an environment variable"), "{reason}");
    }
}

#[test]
fn a_reference_without_a_value_is_told_with_its_variable() {
    let world = World::sh("");
    let mut spec = world.spec(1, 1);
    spec.settings.env = vec![reference("KEY", "env:ABSENT")];
    world.runtime.ensure(spec);
    assert_eq!(world.heard.refused(se(1), 1), "environment variable KEY: `env:ABSENT` is not set where hearth runs");
}

#[test]
fn the_last_lines_of_standard_error_are_kept_without_secrets() {
    let world = World::sh("echo first >&2; seq 1 20000 >&2; echo key $KEY >&2; exit 1");
    let mut spec = world.spec(1, 1);
    spec.settings.env = vec![reference("KEY", "env:TOKEN")];
    world.runtime.ensure(spec);
    let (exit, tail) = world.heard.gone(se(1), 1);
    assert_eq!(exit, Exit::Code(1));
    assert!(tail.ends_with("\n20000\nkey [secret]\n"), "{}", &tail[tail.len() - 100..]);
    assert!(tail.len() <= 64 * 1024 && tail.len() > 60 * 1024 && !tail.contains("first"));
}
