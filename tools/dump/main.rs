//! `hearth-dump`: shows what a store holds, also beside a running daemon, and whether it agrees with itself.
//!
//! It opens the store for reading only, in transactions that are over before anything is printed, goes on after what it
//! cannot read and says so. It owns no table's name: the list of tables does.

use std::io::{BufWriter, IsTerminal as _, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use clap::error::ErrorKind;
use hearth::state::backup::{Progress, Step};
use hearth::state::dump::{Changes, Follow, Format, Options, dump};
use hearth::state::{Error, Reader, Tables, check};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Shows what a store holds, one line per row. Texts and names are blacked out unless asked for.
#[derive(Debug, Parser)]
#[command(version, after_help = "Exit code: 0 done, 1 something is wrong, 2 wrong usage.")]
struct Args {
    /// Data directory: the one that contains `store`
    dir: PathBuf,

    /// Only this table
    #[arg(long, value_name = "TABLE", value_parser = table_name)]
    table: Option<String>,

    /// One JSON object per row
    #[arg(long)]
    json: bool,

    /// Check that the store is consistent, instead of showing it
    #[arg(long, conflicts_with_all = ["table", "bodies"])]
    check: bool,

    /// Show rows as they change, until interrupted: `+` came, `~` changed, `-` went
    #[arg(long, conflicts_with = "check")]
    follow: bool,

    /// With what people wrote and what they are called
    #[arg(long)]
    bodies: bool,
}

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let usage = !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            let printed = error.print().is_ok();
            return ExitCode::from(if usage { 2 } else { u8::from(!printed) });
        }
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    let done = run(&args, &mut out).and_then(|fine| out.flush().map(|()| fine).map_err(output));
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("hearth-dump: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Tells whether nothing is wrong.
fn run(args: &Args, out: &mut dyn Write) -> Result<bool, Error> {
    let watched = Watched(std::io::stderr().is_terminal());
    if args.check {
        let reader = Reader::open_proved(&args.dir, &watched)?;
        drop(watched);
        return report(&reader, args.json, out);
    }
    let reader = Reader::open_unless_held(&args.dir, &watched)?;
    drop(watched);
    let format = if args.json { Format::Json } else { Format::Text };
    let options = Options { format, table: args.table.clone(), bodies: args.bodies };
    if args.follow {
        return follow(&args.dir, &reader, options, out);
    }
    let summary = dump(&reader, &options, out)?;
    if summary.unreadable > 0 {
        say(&format!("hearth-dump: {} rows cannot be read, see above; restore a backup", summary.unreadable));
    }
    Ok(summary.unreadable == 0)
}

/// Says on a terminal that the store's pages are looked at, as long as they are.
struct Watched(bool);

impl Progress for Watched {
    fn begin(&self, _step: Step, _total: Option<u64>) {
        if self.0 {
            drop(write!(std::io::stderr(), "checking the pages of the store …\r"));
        }
    }

    fn advance(&self, _by: u64) {}
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.0 {
            drop(write!(std::io::stderr(), "\x1b[2K\r"));
        }
    }
}

/// Between two looks at the store.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };

/// Ends when it is interrupted, when its output is closed, or when another store replaces this one.
fn follow(dir: &Path, reader: &Reader, options: Options, out: &mut dyn Write) -> Result<bool, Error> {
    let (interrupted, _signals) = on_interrupt().map_err(output)?;
    let place = place(dir);
    let mut follow = Follow::start(reader, options)?;
    let mut unreadable = 0;
    while !interrupted.load(Ordering::SeqCst) {
        let changes: Changes = follow.changes(out)?;
        unreadable += changes.unreadable;
        out.flush().map_err(output)?;
        if place != self::place(dir) {
            say("hearth-dump: another store took the place of this one; follow that one by starting again");
            return Ok(false);
        }
        if nobody_reads() {
            break;
        }
    }
    Ok(unreadable == 0)
}

/// Which directory the store is now: a restored or compacted store is another one.
fn place(dir: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(dir.join("store")).ok().map(|dir| (dir.dev(), dir.ino()))
}

/// Waits for the next look; tells whether the output was closed meanwhile.
fn nobody_reads() -> bool {
    let stdout = std::io::stdout();
    let mut outputs = [PollFd::new(&stdout, PollFlags::empty())];
    // An interrupted wait is a short one.
    let _ended = poll(&mut outputs, Some(&LOOK));
    outputs.iter().any(|output| output.revents().intersects(PollFlags::ERR | PollFlags::HUP))
}

/// A flag that Ctrl-C and SIGTERM set, as long as the second value lives.
fn on_interrupt() -> std::io::Result<(Arc<AtomicBool>, tokio::runtime::Runtime)> {
    use tokio::signal::unix::{SignalKind, signal};
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_io().build()?;
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    let (mut interrupt, mut terminate) = {
        let _inside = tokio.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    tokio.spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        set.store(true, Ordering::SeqCst);
    });
    Ok((flag, tokio))
}

fn report(reader: &Reader, json: bool, out: &mut dyn Write) -> Result<bool, Error> {
    let found = check::check_in_parts(reader)?;
    for violation in &found {
        if json {
            let line = serde_json::json!({
                "table": violation.table, "key": violation.key, "what": violation.what,
            });
            writeln!(out, "{line}").map_err(output)?;
        } else {
            writeln!(out, "{violation}").map_err(output)?;
        }
    }
    if found.is_empty() && !json {
        writeln!(out, "the store is consistent").map_err(output)?;
    }
    Ok(found.is_empty())
}

fn table_name(text: &str) -> Result<String, String> {
    let names = || Tables::ABOUT.iter().map(|about| about.name);
    if names().any(|name| name == text) {
        return Ok(text.to_owned());
    }
    let nearest = names().max_by(|a, b| strsim::jaro_winkler(a, text).total_cmp(&strsim::jaro_winkler(b, text)));
    Err(format!("there is no such table, did you mean `{}`?", nearest.unwrap_or_default()))
}

fn output(source: std::io::Error) -> Error {
    Error::Io { path: PathBuf::from("the output"), source }
}

/// Prints a message for people. A failure to print it cannot be reported.
fn say(text: &str) {
    drop(writeln!(std::io::stderr(), "{text}"));
}
