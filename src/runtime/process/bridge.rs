//! Starts bridges: programs that connect Hearth with networks. They are confined like agents, have one socket to the
//! daemon, and end with it.

use std::ffi::OsString;
use std::io::{self, PipeReader};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent_runner::confine::{Bounds, CONFINE_VARIABLE, Calls, Rules};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal};

use super::child::{group, signal, wait_unreaped};
use super::confine::{DEVICES, FILE_BYTES, IN_MEMORY, RUNNER, system};
use super::jail::{Jail, View, Visible, accounts, options};
use super::sandbox::Sandbox;
use super::spawn::{Gate, Jailed, LIFE_FD, Launch, bridge};
use super::wait::follow;
use super::{Setup, programs};
use crate::runtime::owner::give;
use crate::runtime::redact::Secrets;
use crate::runtime::{MEMORY, PIDS, directory};

/// Arguments that make this program confine itself and become another one.
const ENTER: [&str; 3] = ["bridge", "enter", "--"];
/// How the names of programs begin that Hearth comes with.
const OWN: &str = "hearth-";
/// Bytes that the files of a bridge may take, and their number.
pub const SPACE_BYTES: u64 = 1 << 30;
const ENTRIES_MAX: usize = 100_000;
/// Bytes of a block, as systems count the space that a file takes.
const BLOCK_BYTES: u64 = 512;
/// Bytes of a line of a bridge's output; the rest is another line.
const LINE_BYTES: usize = 4096;
/// How long an earlier process of the same bridge may take to end, in steps of the pause.
const LOCK_STEPS: u32 = 150;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// How long other processes that it started may take to end, in steps of the pause.
const END_STEPS: u32 = 200;
const END_PAUSE: Duration = Duration::from_millis(10);

/// Whether a bridge may see more than its own files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// It is confined, or not started.
    Confined,
    /// It runs with all rights of the user who runs Hearth.
    Unconfined,
}

/// A bridge to start.
pub struct Program {
    /// The program and its arguments. The program is an absolute path, or is found on the search path.
    pub command: Vec<String>,
    /// Its own directory: `state` and `files` in it are created.
    pub directory: PathBuf,
    /// How it is confined.
    pub hold: Hold,
    /// Values that are removed from its output.
    pub secrets: Vec<String>,
}

#[derive(Debug)]
pub struct StartedBridge {
    /// The daemon's end of its socket.
    pub socket: UnixStream,
    /// Ends it.
    pub kill: Kill,
}

/// Ends a bridge with everything that it started.
#[derive(Debug, Clone)]
pub struct Kill(Arc<Mutex<Option<Pid>>>);

impl Kill {
    /// Kills the processes. Returns at once.
    pub fn kill(&self) {
        // The group exists until its leader is reaped, and it is forgotten before.
        if let Some(group) = *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            signal(group, Signal::KILL);
        }
    }

    /// The process that was started, while it lives.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        let group = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        group.and_then(|group| u32::try_from(group.as_raw_nonzero().get()).ok())
    }

    fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// What a bridge's process reports.
pub struct Reports {
    /// Receives each line of its output, without secrets.
    pub line: Box<dyn FnMut(String) + Send>,
    /// Receives how it ended, for people, when nothing of it is left.
    pub ended: Box<dyn FnOnce(String) + Send>,
}

/// Starts a bridge. Blocks until it runs, and until an earlier process in the same directory has ended.
///
/// # Errors
/// Why it cannot be started, for people.
pub fn start(setup: &Setup, program: &Program, reports: Reports) -> Result<StartedBridge, String> {
    directory::make(&program.directory).map_err(|error| error.to_string())?;
    let lock = lock(&program.directory)?;
    let launch = prepare(setup, program)?;
    let (socket, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
    let mut secrets = Secrets::default();
    program.secrets.iter().for_each(|value| secrets.add(value.as_bytes()));
    let (told, started) = channel();
    let process = Process { launch, socket: theirs, secrets, reports, lock };
    // The kernel ends the bridge when the thread that started it ends: the thread waits for it.
    let thread = std::thread::Builder::new().name("bridge".to_owned());
    thread.spawn(move || process.run(&told)).map_err(|error| format!("there is no thread for it: {error}"))?;
    let kill = started.recv().map_err(|_| "its thread ended".to_owned())??;
    Ok(StartedBridge { socket, kill })
}

struct Process {
    launch: Launch,
    socket: UnixStream,
    secrets: Secrets,
    reports: Reports,
    /// Held until nothing of it is left.
    lock: std::fs::File,
}

impl Process {
    fn run(self, told: &Sender<Result<Kill, String>>) {
        let Self { launch, socket, secrets, reports, lock } = self;
        let program = launch.jailed.as_ref().map_or(&launch.program, |jailed| &jailed.program);
        let begun = bridge(&launch, socket.into(), &Gate::enter());
        let begun = begun.and_then(|(child, output)| Ok((io::pipe()?, group(&child), child, output)));
        let ((stopped, stop), group, mut child, output) = match begun {
            Ok((pipe, Some(group), child, output)) => (pipe, group, child, output),
            Ok((_, None, mut child, _)) => {
                // No real system has such ids.
                drop(child.kill());
                drop(child.wait());
                drop(told.send(Err("it has no process id".to_owned())));
                return;
            }
            Err(error) => {
                drop(told.send(Err(format!("{} cannot be started: {error}", program.display()))));
                return;
            }
        };
        let kill = Kill(Arc::new(Mutex::new(Some(group))));
        let Reports { mut line, ended } = reports;
        let reader = move || read(output, &stopped, &secrets, &mut *line);
        let reader = std::thread::Builder::new().name("bridge output".to_owned()).spawn(reader);
        // The caller waits for this.
        drop(told.send(Ok(kill.clone())));
        wait_unreaped(group);
        signal(group, Signal::KILL);
        kill.forget();
        let status = child.wait();
        // In a mount view its processes end right after their first one, and then nothing can write any more.
        for _ in 0..END_STEPS {
            if reader.as_ref().is_ok_and(std::thread::JoinHandle::is_finished) {
                break;
            }
            std::thread::sleep(END_PAUSE);
        }
        drop(stop);
        let last = reader.ok().and_then(|reader| reader.join().ok()).unwrap_or_default();
        drop(lock);
        let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        ended(if last.is_empty() { how } else { format!("{how}: {last}") });
    }
}

/// Passes on lines, and returns the last one.
fn read(mut output: PipeReader, stopped: &PipeReader, secrets: &Secrets, line: &mut dyn FnMut(String)) -> String {
    let (mut bytes, mut last) = (Vec::new(), String::new());
    let mut end = |bytes: &mut Vec<u8>| {
        let text = String::from_utf8_lossy(&secrets.redact(bytes)).trim_end().to_owned();
        bytes.clear();
        if !text.is_empty() {
            last = text.chars().filter(|c| !c.is_control()).take(200).collect();
            line(text);
        }
    };
    let followed = follow(&mut output, stopped, |read| {
        for byte in read {
            bytes.push(*byte);
            if *byte == b'\n' || bytes.len() >= LINE_BYTES {
                end(&mut bytes);
            }
        }
        true
    });
    if let Err(error) = followed {
        tracing::debug!(%error, "a bridge's output cannot be read to its end");
    }
    end(&mut bytes);
    last
}

/// Waits until no other process of this bridge is left, and keeps it so.
fn lock(directory: &Path) -> Result<std::fs::File, String> {
    let failed = |error: io::Error| format!("cannot lock {}: {error}", directory.display());
    let file = std::fs::File::options().create(true).truncate(false).write(true).open(directory.join("lock"));
    let file = file.map_err(failed)?;
    for _ in 0..LOCK_STEPS {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(LOCK_PAUSE),
            Err(error) => return Err(failed(error.into())),
        }
    }
    Err("another process of this bridge does not end".to_owned())
}

fn prepare(setup: &Setup, program: &Program) -> Result<Launch, String> {
    let Some((name, arguments)) = program.command.split_first() else {
        return Err("its command is empty".to_owned());
    };
    let root = std::path::absolute(&program.directory).map_err(|error| error.to_string())?;
    let (state, files) = (root.join("state"), root.join("files"));
    for path in [&root, &state, &files] {
        directory::make(path).map_err(|error| error.to_string())?;
    }
    empty(&files).map_err(|error| format!("cannot empty {}: {error}", files.display()))?;
    space(&root)?;
    let rules = match (setup.sandbox(), program.hold) {
        (_, Hold::Unconfined) => None,
        (Sandbox::Missing { why, mend, .. }, Hold::Confined) => {
            return Err(format!(
                "bridges cannot be confined here, because {why}; {mend}, or set `unconfined = true` for the channel"
            ));
        }
        (Sandbox::Jail(_) | Sandbox::Limited { .. }, Hold::Confined) => Some(rules(setup, program, [&state, &files])),
    };
    if rules.as_ref().is_some_and(|rules| rules.user.is_some()) {
        for path in [&state, &files] {
            give(path).map_err(|error| format!("cannot hand over {}: {error}", path.display()))?;
        }
    }
    let found = file_of(setup, program).ok_or_else(|| missing(name))?;
    let path = rules.as_ref().map_or_else(|| setup.path.clone(), |rules| programs::reachable(&setup.path, &rules.read));
    let mut variables: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), path.clone()),
        ("LANG".into(), "C.UTF-8".into()),
        ("HOME".into(), state.clone().into()),
        ("HEARTH_BRIDGE_FD".into(), LIFE_FD.to_string().into()),
        ("HEARTH_BRIDGE_PROTOCOL".into(), "1".into()),
    ];
    if let Some(rules) = &rules {
        let rules = serde_json::to_string(rules).map_err(|_| "a path of its files is not UTF-8".to_owned())?;
        variables.push((CONFINE_VARIABLE.into(), rules.into()));
    }
    let enter = ENTER.iter().map(OsString::from).chain([found.clone().into()]);
    let enter = enter.chain(arguments.iter().map(OsString::from)).collect();
    let program_file = setup.program.clone();
    let mut launch = Launch { program: program_file, arguments: enter, directory: state, variables, jailed: None };
    if let (Some(rules), Sandbox::Jail(jail)) = (&rules, setup.sandbox()) {
        let mut visible = Visible::of(rules, &setup.guarded);
        let words = arguments.iter().map(PathBuf::from).filter(|word| word.is_absolute());
        let all = std::iter::once(found).chain(words).chain(std::env::split_paths(&path));
        all.for_each(|path| visible.add_links(&path, &setup.guarded));
        launch.jailed = Some(jailed(jail, &visible, rules, &launch));
    }
    Ok(launch)
}

/// Removes files that an earlier process left: what was not stored comes again.
fn empty(files: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(files)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())?;
        } else {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Looks at the space that the files of a bridge take. Blocks.
///
/// # Errors
/// Why it is too much, for people.
pub fn space(directory: &Path) -> Result<(), String> {
    bounded(&["state", "files"].map(|name| directory.join(name)), SPACE_BYTES, ENTRIES_MAX)
}

fn bounded(directories: &[PathBuf], bytes_max: u64, entries_max: usize) -> Result<(), String> {
    let shown = directories.first().map(|directory| directory.display().to_string()).unwrap_or_default();
    let too_much = |what: &str| Err(format!("its files in {shown} are more than {what}; remove some of them"));
    let (mut bytes, mut entries, mut open) = (0_u64, 0, directories.to_vec());
    while let Some(directory) = open.pop() {
        let listed = match std::fs::read_dir(&directory) {
            Ok(listed) => listed,
            // It may remove what it has made.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(format!("cannot look at its files in {shown}: {error}")),
        };
        for entry in listed.flatten() {
            // Links are not followed.
            let Ok(about) = entry.metadata() else { continue };
            entries += 1;
            bytes = bytes.saturating_add(about.blocks().saturating_mul(BLOCK_BYTES));
            if entries > entries_max {
                return too_much(&format!("{entries_max} files"));
            }
            if bytes > bytes_max {
                return too_much(&format!("{} MiB", bytes_max >> 20));
            }
            if about.is_dir() {
                open.push(entry.path());
            }
        }
    }
    Ok(())
}

fn missing(name: &str) -> String {
    let advice = if name.starts_with(OWN) {
        "; the package hearth-bridges has it, and so does `./install.sh --bridges`"
    } else {
        ""
    };
    format!("its program `{name}` was not found{advice}")
}

/// The file of its program. A name without a directory is looked for on the search path, and then where packages put the
/// bridges that Hearth comes with.
fn file_of(setup: &Setup, program: &Program) -> Option<PathBuf> {
    let name = program.command.first()?;
    let named = programs::find(name, &program.directory, &setup.path);
    let here = std::env::current_exe().unwrap_or_default();
    let own = here.parent().filter(|_| name.starts_with(OWN)).into_iter();
    let own =
        own.flat_map(|beside| [beside.with_file_name("lib/hearth"), beside.to_owned()]).map(|place| place.join(name));
    named.into_iter().chain(own).find(|file| file.is_file())
}

fn rules(setup: &Setup, program: &Program, own: [&PathBuf; 2]) -> Rules {
    let guarded = &setup.guarded;
    let mut read = system(guarded);
    read.push(RUNNER.into());
    read.extend(file_of(setup, program).into_iter().flat_map(|found| programs::places(&found, guarded)));
    let named = program.command.iter().skip(1).filter_map(|word| programs::named_file(word, guarded));
    read.extend(named.flat_map(|file| programs::places(&file, guarded)));
    let mut rules = Rules {
        read,
        write: own.map(Clone::clone).to_vec(),
        devices: DEVICES.map(PathBuf::from).to_vec(),
        ..Rules::default()
    };
    let view = match setup.sandbox() {
        Sandbox::Jail(jail) => {
            let free = |place: &&str| !rules.paths().any(|path| path.starts_with(place));
            let free: Vec<PathBuf> = IN_MEMORY.into_iter().filter(free).map(PathBuf::from).collect();
            rules.write.extend(free);
            rules.user = jail.user;
            true
        }
        Sandbox::Limited { .. } | Sandbox::Missing { .. } => false,
    };
    rules.calls = Some(Calls { view, network: true });
    rules.bounds = Bounds { processes: view.then_some(PIDS.into()), memory: Some(MEMORY), file_size: Some(FILE_BYTES) };
    rules
}

fn jailed(jail: &Jail, visible: &Visible, rules: &Rules, launch: &Launch) -> Jailed {
    let view = View {
        rules,
        visible,
        directory: &launch.directory,
        own_network: false,
        way_out: None,
        becomes_user: jail.user.is_some(),
        variables: &launch.variables,
    };
    let own = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let (uid, gid) = jail.user.map_or(own, |user| (user, user));
    let (passwd, group) = accounts(uid, gid, &launch.directory);
    Jailed { program: jail.program.clone(), options: options(&view), passwd, group, user: jail.user }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_space_of_a_bridge_is_bounded_and_no_link_leads_out() {
        let root = tempfile::tempdir().unwrap();
        let (state, files) = (root.path().join("state"), root.path().join("files"));
        std::fs::create_dir_all(state.join("deep/er")).unwrap();
        std::fs::write(root.path().join("other"), vec![7; 4 << 20]).unwrap();
        std::os::unix::fs::symlink(root.path(), state.join("out")).unwrap();
        let look = |bytes, entries| bounded(&[state.clone(), files.clone()], bytes, entries);
        assert_eq!(look(1 << 20, 3), Ok(()), "`files` may be missing, and links count as links");
        assert!(look(1 << 20, 2).unwrap_err().contains("more than 2 files"));
        std::fs::write(state.join("deep/er/large"), vec![7; 2 << 20]).unwrap();
        assert!(look(1 << 20, 9).unwrap_err().contains("more than 1 MiB; remove"));
        assert_eq!(look(3 << 20, 9), Ok(()));
        std::fs::create_dir_all(files.join("deep")).unwrap();
        std::fs::write(files.join("deep/large"), vec![7; 2 << 20]).unwrap();
        assert!(look(3 << 20, 9).is_err());
        empty(&files).unwrap();
        assert_eq!(look(3 << 20, 9), Ok(()));
        assert!(space(root.path()).is_ok());
    }
}
