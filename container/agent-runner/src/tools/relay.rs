//! Connects a program that an agent starts as its server of tools with the server in this process.
//!
//! ```text
//!   agent ── stdin ──> `hearth-runner tools DIR` ── DIR/PID.up   ──> Relay ─> Server
//!         <─ stdout ──                           <─ DIR/PID.down ──
//! ```
//!
//! Named pipes, because a confined process may not create Unix sockets. The directory belongs to the agent, which can do
//! nothing with the pipes that its tools do not allow.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};

use rustix::fs::{CWD, Mode, OFlags, fcntl_getfl, fcntl_setfl, mkfifoat};
use serde_json::Value;

use super::Server;
use crate::failure::Failure;
use crate::log;
use crate::report::Report;
use crate::roots::Roots;
use crate::turn::TurnError;

/// The command of this program that connects an agent.
pub(crate) const COMMAND: &str = "tools";
/// Endings of the names of a program's pipes.
const UP: &str = ".up";
const DOWN: &str = ".down";
/// Programs that may be connected at the same time.
const MOST_PROGRAMS: usize = 8;
/// Maximum length of a message.
const MESSAGE_BYTES: u64 = 4 << 20;
/// Messages of a program that may wait here.
const WAITING_MESSAGES: usize = 64;

/// Beginning of a directory's name, before the runner's id and a number.
const DIR: &str = "hearth-tools-";

/// Makes directories' names different.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// The programs of one agent process.
#[derive(Debug)]
pub(crate) struct Relay {
    dir: PathBuf,
    programs: BTreeMap<String, Connected>,
    has_listed: bool,
}

/// A connected program.
#[derive(Debug)]
struct Connected {
    messages: Receiver<String>,
    answers: Sender<String>,
    server: Server,
}

impl Relay {
    /// Creates the directory.
    pub(crate) fn open(roots: &Roots) -> Result<Self, Failure> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let parent = roots.tmp.clone().unwrap_or_else(std::env::temp_dir);
        sweep(&parent);
        let dir = parent.join(format!("{DIR}{}-{number}", std::process::id()));
        let created = DirBuilder::new().mode(0o700).create(&dir);
        created.map_err(|error| Failure::passing(format!("cannot create {}: {error}", dir.display())))?;
        Ok(Self { dir, programs: BTreeMap::new(), has_listed: false })
    }

    /// Program and arguments that connect an agent.
    pub(crate) fn command(&self) -> Vec<String> {
        // A confined agent may run this program, but has no path that leads to it.
        let program = format!("/proc/{}/exe", std::process::id());
        // The daemon's program has a command of its own for this one.
        let own = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
        std::iter::once(program)
            .chain(own)
            .chain([COMMAND.to_owned(), self.dir.to_string_lossy().into_owned()])
            .collect()
    }

    /// Whether a program is connected.
    pub(crate) fn is_used(&self) -> bool {
        !self.programs.is_empty()
    }

    /// Whether a program has ever listed the tools.
    pub(crate) const fn has_listed(&self) -> bool {
        self.has_listed
    }

    /// Connects new programs, and handles what is there. To be called in every pause.
    pub(crate) fn serve(&mut self, report: &mut Report<'_>) -> Result<(), TurnError> {
        self.connect();
        let mut ended = Vec::new();
        for (name, program) in &mut self.programs {
            if !program.serve(report)? {
                ended.push(name.clone());
            }
            self.has_listed |= program.server.has_listed();
        }
        for name in ended {
            self.programs.remove(&name);
            for ending in [UP, DOWN] {
                remove(&self.dir.join(format!("{name}{ending}")));
            }
        }
        Ok(())
    }

    fn connect(&mut self) {
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let file = entry.file_name().to_string_lossy().into_owned();
            let Some(name) = file.strip_suffix(UP) else { continue };
            if self.programs.contains_key(name) || self.programs.len() >= MOST_PROGRAMS {
                continue;
            }
            match Connected::open(&self.dir, name) {
                Ok(program) => {
                    self.programs.insert(name.to_owned(), program);
                }
                Err(error) => {
                    log::note(format_args!("the agent's server of tools cannot be connected: {error}"));
                    remove(&entry.path());
                }
            }
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            log::note(format_args!("cannot remove {}: {error}; left there", self.dir.display()));
        }
    }
}

impl Connected {
    fn open(dir: &Path, name: &str) -> io::Result<Self> {
        let up = pipe(&dir.join(format!("{name}{UP}")), OpenOptions::new().read(true))?;
        let down = pipe(&dir.join(format!("{name}{DOWN}")), OpenOptions::new().write(true))?;
        let (from_program, messages) = sync_channel(WAITING_MESSAGES);
        let (answers, for_program) = channel();
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        thread("tools-up").spawn(move || read(up, &from_program))?;
        thread("tools-down").spawn(move || write(down, &for_program))?;
        Ok(Self { messages, answers, server: Server::new() })
    }

    /// Handles the messages that are there. Returns whether the program is still connected.
    fn serve(&mut self, report: &mut Report<'_>) -> Result<bool, TurnError> {
        for _ in 0..WAITING_MESSAGES {
            match self.messages.try_recv() {
                Ok(message) => match serde_json::from_str(&message) {
                    Ok(message) => {
                        if let Some(answer) = self.server.take(message, report)? {
                            self.tell(&answer);
                        }
                    }
                    Err(_) => log::note(format_args!("{} bytes to the tools are not JSON; ignored", message.len())),
                },
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(false),
            }
        }
        for (_, answer) in self.server.settle(report)? {
            self.tell(&answer);
        }
        Ok(true)
    }

    fn tell(&self, answer: &Value) {
        if self.answers.send(answer.to_string()).is_err() {
            log::note("the agent's server of tools takes no answers any more");
        }
    }
}

/// Opens a named pipe without waiting for its other end, which may never come.
fn pipe(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = options.custom_flags(i32::try_from(flags.bits()).unwrap_or_default()).open(path)?;
    if !file.metadata()?.file_type().is_fifo() {
        return Err(io::Error::other(format!("{} is not a named pipe", path.display())));
    }
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

fn read(up: File, messages: &SyncSender<String>) {
    let mut up = BufReader::new(up);
    loop {
        let mut line = Vec::new();
        match up.by_ref().take(MESSAGE_BYTES).read_until(b'\n', &mut line) {
            Ok(1..) if line.ends_with(b"\n") => {}
            // The end, or a message that is too long.
            _ => return,
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if !line.is_empty() && messages.send(line).is_err() {
            return;
        }
    }
}

fn write(mut down: File, answers: &Receiver<String>) {
    for answer in answers {
        if down.write_all(format!("{answer}\n").as_bytes()).is_err() {
            return;
        }
    }
}

/// Removes directories of runners that were killed.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(DIR).and_then(|rest| rest.split_once('-')).map(|(process, _)| process);
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists())
            && let Err(error) = fs::remove_dir_all(entry.path())
        {
            log::note(format_args!("cannot remove {name}, which is no longer used: {error}; left there"));
        }
    }
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        log::note(format_args!("cannot remove {}: {error}; left there", path.display()));
    }
}

/// `hearth-runner tools DIR`: the program that an agent starts. Ends with its standard input.
pub(crate) fn main(arguments: &[String]) -> ExitCode {
    let [dir] = arguments else {
        log::note("usage: hearth-runner tools DIR: agents start it to reach their tools");
        return ExitCode::from(2);
    };
    match connect(Path::new(dir)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::note(format_args!("the tools cannot be reached through {dir}: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn connect(dir: &Path) -> io::Result<()> {
    let name = std::process::id();
    let (up, down) = (dir.join(format!("{name}{UP}")), dir.join(format!("{name}{DOWN}")));
    let hidden = dir.join(format!("{name}.new"));
    for pipe in [&down, &hidden] {
        mkfifoat(CWD, pipe, Mode::RUSR | Mode::WUSR)?;
    }
    // Open for both, a pipe does not wait for its other end.
    let both = |path: &Path| OpenOptions::new().read(true).write(true).open(path);
    let (mut to_tools, mut from_tools) = (both(&hidden)?, both(&down)?);
    fs::rename(&hidden, &up)?;
    std::thread::Builder::new()
        .name("tools-down".to_owned())
        .spawn(move || pass_on(&mut from_tools, &mut io::stdout().lock()))?;
    pass_on(&mut io::stdin().lock(), &mut to_tools)
}

/// Passes on every part as soon as it is there. The standard library's copy would move it inside of the kernel, which
/// waits for more if the standard input is a socket, as with some agents.
fn pass_on(from: &mut impl io::Read, to: &mut impl io::Write) -> io::Result<()> {
    let mut bytes = [0; 65_536];
    loop {
        let count = from.read(&mut bytes)?;
        if count == 0 {
            return Ok(());
        }
        to.write_all(bytes.get(..count).unwrap_or_default())?;
        to.flush()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_killed_runners_are_removed() {
        let tmp = tempfile::tempdir().unwrap();
        let roots = Roots { tmp: Some(tmp.path().to_owned()), ..Roots::default() };
        let (dead, foreign) = (tmp.path().join("hearth-tools-999999999-0"), tmp.path().join("hearth-toolsmith"));
        fs::create_dir(&dead).unwrap();
        fs::create_dir(&foreign).unwrap();
        let (one, two) = (Relay::open(&roots).unwrap(), Relay::open(&roots).unwrap());
        assert!(!dead.exists() && foreign.exists());
        assert!(one.dir.exists() && two.dir.exists() && one.dir != two.dir);
        let dir = one.dir.clone();
        drop(one);
        assert!(!dir.exists() && two.dir.exists());
    }

    /// Its end may never come, and the agent can create whatever it likes there.
    #[test]
    fn opening_what_an_agent_put_there_never_waits() {
        let tmp = tempfile::tempdir().unwrap();
        let roots = Roots { tmp: Some(tmp.path().to_owned()), ..Roots::default() };
        let mut relay = Relay::open(&roots).unwrap();
        fs::write(relay.dir.join("file.up"), "x").unwrap();
        std::os::unix::fs::symlink("/dev/zero", relay.dir.join("link.up")).unwrap();
        mkfifoat(CWD, relay.dir.join("alone.up"), Mode::RUSR | Mode::WUSR).unwrap();
        relay.connect();
        assert!(!relay.is_used());
        assert_eq!(fs::read_dir(&relay.dir).unwrap().count(), 0);
    }
}
