//! `hearth-dump`: shows what a store holds, also beside a running daemon, and whether it agrees with itself.
//!
//! It opens the store for reading only, goes on after what it cannot read and says so. It owns no table's name: the list
//! of tables does.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use hearth::state::dump::{Format, Options, dump};
use hearth::state::{Error, Reader, Tables, check};

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

    /// Check that the store agrees with itself, instead of showing it
    #[arg(long, conflicts_with_all = ["table", "bodies"])]
    check: bool,

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
    let reader = Reader::open(&args.dir)?;
    if args.check {
        return report(&reader, args.json, out);
    }
    let format = if args.json { Format::Json } else { Format::Text };
    let options = Options { format, table: args.table.clone(), bodies: args.bodies };
    let summary = dump(&reader, &options, out)?;
    if summary.unreadable > 0 {
        say(&format!("hearth-dump: {} rows cannot be read, see above; restore a backup", summary.unreadable));
    }
    Ok(summary.unreadable == 0)
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
        writeln!(out, "the store agrees with itself").map_err(output)?;
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

/// Says something to people. Nobody can be told when that fails.
fn say(text: &str) {
    drop(writeln!(std::io::stderr(), "{text}"));
}
