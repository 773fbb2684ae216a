//! `hearth net`: what agents reached over the network or were refused, and what people decided about hosts.

use clap::{Args, Subcommand};
use serde::Serialize;

use super::listed::{self, Column, Listed};
use super::{Done, Failure, change, configuration, entity, human_size, human_time, lookup, print, time_args};
use crate::config::Paths;
use crate::model::configure::Change;
use crate::model::connection::Connection;
use crate::model::entity::Folder;
use crate::model::host::{BadHost, DEFAULT_PORT, Endpoint, Host, HostPattern, HostRule};
use crate::model::host_grant::{HostDecision, HostGrant};
use crate::model::id::{ConnectionId, MessageId};
use crate::model::network::NetVerdict;
use crate::state::{self, Read, Reader, Tables};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct NetArgs {
    #[command(subcommand)]
    command: Option<NetCommand>,
    #[command(flatten)]
    which: WhichArgs,
}

#[derive(Debug, Subcommand)]
enum NetCommand {
    /// Let an agent reach a host, until that is revoked
    Allow(HostArgs),
    /// Keep an agent from a host, until that is revoked
    Deny(HostArgs),
    /// Revoke what was decided about a host
    Revoke(HostArgs),
}

#[derive(Debug, Args)]
struct HostArgs {
    /// The agent's folder
    agent: String,
    /// The host, like `api.example.org` or `192.168.1.20:8123`; without a port, port 443
    #[arg(value_name = "HOST[:PORT]", value_parser = endpoint)]
    host: Endpoint,
}

#[derive(Debug, Args)]
struct WhichArgs {
    /// Only those of this agent
    #[arg(long, value_name = "FOLDER")]
    agent: Option<String>,
    /// Only those to this host, or to hosts below it
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Only since then: a time, a date, or an age like 2h or 7d
    #[arg(long, value_name = "TIME", value_parser = time_args::parse)]
    since: Option<time_args::Since>,
    /// Only those that were refused or failed
    #[arg(long)]
    refused: bool,
    /// Show at most this many
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = listed::limit)]
    limit: usize,
}

/// A host and a port, from a rule for exactly one host.
fn endpoint(text: &str) -> Result<Endpoint, String> {
    let rule: HostRule = text.parse().map_err(|error: BadHost| error.to_string())?;
    let HostPattern::Exact(host) = rule.pattern else {
        return Err("decisions are about one host; `hearth agents set AGENT --allow` takes wildcards".to_owned());
    };
    Ok(Endpoint { host, port: rule.port.unwrap_or(DEFAULT_PORT) })
}

/// The answer of `hearth net --json`.
#[derive(Debug, Serialize)]
struct NetJson {
    /// The newest first.
    connections: Vec<ConnectionJson>,
    /// What people decided, by agent and host.
    decisions: Vec<DecisionJson>,
    /// Whether there are more connections.
    cut: bool,
}

/// Connections of one turn to one host, with the same verdict.
#[derive(Debug, Serialize)]
pub(super) struct ConnectionJson {
    id: String,
    agent: String,
    session: String,
    incarnation: u32,
    message: Option<String>,
    /// Null stands for hosts after the first ones of a turn.
    host: Option<String>,
    port: Option<u16>,
    /// `allowed`, `refused` or `asked`.
    verdict: &'static str,
    /// By which rule, or why not.
    words: String,
    method: Option<String>,
    path: Option<String>,
    began: String,
    ended: String,
    count: u64,
    bytes_up: u64,
    bytes_down: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct DecisionJson {
    agent: String,
    host: String,
    port: u16,
    /// `once`, `always` or `never`.
    decision: &'static str,
    /// Sessions in which it holds, and until when, if it does not stand.
    sessions: Vec<PassJson>,
    by: String,
    at: String,
}

#[derive(Debug, Serialize)]
struct PassJson {
    session: String,
    until: String,
}

impl Listed for ConnectionJson {
    const PLURAL: &'static str = "connections";
    const COLUMNS: &'static [Column<Self>] = &[
        ("LAST", |one| human_time::local(&one.ended)),
        ("AGENT", |one| one.agent.clone()),
        ("HOST", Self::place),
        ("COUNT", |one| one.count.to_string()),
        ("SENT", |one| human_size::decimal(one.bytes_up)),
        ("RECEIVED", |one| human_size::decimal(one.bytes_down)),
        ("VERDICT", |one| format!("{}: {}", one.verdict, one.words)),
    ];
}

impl ConnectionJson {
    fn place(&self) -> String {
        match (&self.host, self.port) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            _ => "(other hosts)".to_owned(),
        }
    }

    /// In one sentence.
    pub(super) fn sentence(&self) -> String {
        let times = if self.count == 1 { String::new() } else { format!(", {} times", self.count) };
        let (place, verdict, words) = (self.place(), self.verdict, &self.words);
        format!(
            "connection to {place}{times}: {verdict}, {words}; {} B sent, {} B received",
            self.bytes_up, self.bytes_down
        )
    }

    pub(super) fn of(db: &Tables, txn: &Read<'_>, id: ConnectionId, row: Connection) -> Result<Self, state::Error> {
        let (verdict, words) = match &row.verdict {
            NetVerdict::Allowed(rule) => ("allowed", rule.to_string()),
            NetVerdict::Refused(why) => ("refused", why.to_string()),
            NetVerdict::Asked => ("asked", "a person was asked".to_owned()),
        };
        let (method, path) = row.request.map(|request| (request.method, request.path)).unzip();
        Ok(Self {
            id: id.to_string(),
            agent: lookup::folder(db, txn, row.agent)?,
            session: row.session.to_string(),
            incarnation: row.incarnation,
            message: row.message.map(|message| message.to_string()),
            host: row.to.as_ref().map(|to| to.host.to_string()),
            port: row.to.map(|to| to.port),
            verdict,
            words,
            method,
            path,
            began: row.began.to_string(),
            ended: row.ended.to_string(),
            count: row.count,
            bytes_up: row.up,
            bytes_down: row.down,
        })
    }
}

impl DecisionJson {
    /// The agent's folder and the host.
    pub(super) fn about(&self) -> Option<(&str, Endpoint)> {
        Some((self.agent.as_str(), Endpoint { host: self.host.parse().ok()?, port: self.port }))
    }
}

impl Listed for DecisionJson {
    const PLURAL: &'static str = "decisions";
    const COLUMNS: &'static [Column<Self>] = &[
        ("AGENT", |one| one.agent.clone()),
        ("HOST", |one| format!("{}:{}", one.host, one.port)),
        ("DECISION", |one| one.decision.to_owned()),
        ("BY", |one| one.by.clone()),
        ("AT", |one| human_time::local(&one.at)),
    ];
}

/// Shows connections and decisions, or changes decisions.
pub(super) fn net(paths: &Paths, args: &NetArgs, json: bool) -> Done {
    if let Some(command) = &args.command {
        return change::edit(paths, change_of(command)?, json);
    }
    if let Some(agent) = &args.which.agent {
        entity::known_agent(&configuration::read(paths)?, agent)?;
    }
    let host = args.which.host.as_deref().map(|text| text.parse::<Host>()).transpose();
    let host = host.map_err(|error| Failure::Failed(format!("--host: {error}")))?;
    let answer = Reader::open(paths.data())?.read(|db, txn| collect(db, txn, &args.which, host.as_ref()))?;
    if json {
        return print::json(&answer);
    }
    match answer.connections.as_slice() {
        [] => print::line("no connections")?,
        found => listed::table(found)?,
    }
    if answer.cut {
        print::note("there are more: see --limit and --since");
    }
    if answer.decisions.is_empty() {
        return Ok(());
    }
    print::line("")?;
    listed::table(&answer.decisions)
}

fn change_of(command: &NetCommand) -> Result<Change, Failure> {
    let of = |args: &HostArgs| Ok::<_, Failure>((Folder::new(args.agent.as_str())?, args.host.clone()));
    Ok(match command {
        NetCommand::Allow(args) => of(args).map(|(folder, to)| Change::AllowHost(folder, to))?,
        NetCommand::Deny(args) => of(args).map(|(folder, to)| Change::DenyHost(folder, to))?,
        NetCommand::Revoke(args) => of(args).map(|(folder, to)| Change::RevokeHost(folder, to))?,
    })
}

fn collect(db: &Tables, txn: &Read<'_>, which: &WhichArgs, host: Option<&Host>) -> Result<NetJson, state::Error> {
    let since = which.since.map(time_args::Since::start);
    let is_host = |to: Option<&Endpoint>| host.is_none_or(|host| to.is_some_and(|to| covers(host, &to.host)));
    let (mut connections, mut cut) = (Vec::new(), false);
    let mut next = ConnectionId::new(u64::MAX);
    while let Some((id, row)) = db.connections.last(txn, ..next)? {
        next = id;
        let refused = !which.refused || matches!(row.verdict, NetVerdict::Refused(_));
        if !refused || !is_host(row.to.as_ref()) || since.is_some_and(|since| row.ended < since) {
            continue;
        }
        let one = ConnectionJson::of(db, txn, id, row)?;
        if which.agent.as_ref().is_some_and(|agent| *agent != one.agent) {
            continue;
        }
        if connections.len() == which.limit {
            cut = true;
            break;
        }
        connections.push(one);
    }
    let mut decisions = Vec::new();
    for row in db.host_grants.iter(txn)? {
        let (key, grant) = row?;
        let agent = lookup::folder(db, txn, key.agent)?;
        if which.agent.as_ref().is_none_or(|only| *only == agent) && is_host(Some(&grant.to)) {
            decisions.push(decision(agent, grant));
        }
    }
    Ok(NetJson { connections, decisions, cut })
}

/// Connections and decisions on one page of the console.
const NEWEST_MAX: usize = 100;

/// The newest connections of some agents, and what was decided about hosts, for the console.
pub(super) fn newest(
    db: &Tables,
    txn: &Read<'_>,
    sees: &dyn Fn(&str) -> bool,
) -> Result<(Vec<ConnectionJson>, Vec<DecisionJson>), state::Error> {
    let (mut connections, mut decisions) = (Vec::new(), Vec::new());
    let mut next = ConnectionId::new(u64::MAX);
    while let Some((id, row)) = db.connections.last(txn, ..next)?
        && connections.len() < NEWEST_MAX
    {
        next = id;
        connections.extend(Some(ConnectionJson::of(db, txn, id, row)?).filter(|one| sees(&one.agent)));
    }
    for row in db.host_grants.iter(txn)? {
        let (key, grant) = row?;
        let agent = lookup::folder(db, txn, key.agent)?;
        if sees(&agent) {
            decisions.push(decision(agent, grant));
        }
    }
    Ok((connections, decisions))
}

/// Whether a host is another one, or lies below it.
fn covers(host: &Host, other: &Host) -> bool {
    match (host, other) {
        (Host::Name(name), Host::Name(other)) => name == other || other.is_below(name),
        _ => host == other,
    }
}

/// Commands that make the standing decisions again.
pub(super) fn decisions(db: &Tables, txn: &Read<'_>) -> Result<Vec<String>, state::Error> {
    let mut commands = Vec::new();
    for row in db.host_grants.iter(txn)? {
        let (key, grant) = row?;
        let word = match grant.decision {
            HostDecision::Always => "allow",
            HostDecision::Never => "deny",
            HostDecision::Once(_) => continue,
        };
        let agent = lookup::folder(db, txn, key.agent)?;
        commands.push(format!("hearth net {word} {agent} {}", grant.to));
    }
    commands.sort();
    Ok(commands)
}

fn decision(agent: String, grant: HostGrant) -> DecisionJson {
    let word = grant.decision.as_str();
    let sessions = match grant.decision {
        HostDecision::Once(passes) => passes
            .into_iter()
            .map(|pass| PassJson { session: pass.session.to_string(), until: pass.until.to_string() })
            .collect(),
        HostDecision::Always | HostDecision::Never => Vec::new(),
    };
    let by = match grant.by {
        crate::model::approval::Decider::Person(user) => user.to_string(),
        crate::model::approval::Decider::Operator => "the operator".to_owned(),
    };
    DecisionJson {
        agent,
        host: grant.to.host.to_string(),
        port: grant.to.port,
        decision: word,
        sessions,
        by,
        at: grant.at.to_string(),
    }
}

/// Records of connections that are read for one message.
const OF_MESSAGE_MAX: usize = 1_000;

/// The connections of the turns of a message, the oldest first.
pub(super) fn of_message(db: &Tables, txn: &Read<'_>, id: MessageId) -> Result<Vec<Connection>, state::Error> {
    let mut found = Vec::new();
    for (state::Owned { id, .. }, ()) in db.connections_by_message.collect_prefix(txn, &id, OF_MESSAGE_MAX)? {
        found.push(db.connections.require(txn, &id)?);
    }
    Ok(found)
}

/// A connection in one sentence.
pub(super) fn words(db: &Tables, txn: &Read<'_>, row: Connection) -> Result<String, state::Error> {
    Ok(ConnectionJson::of(db, txn, ConnectionId::new(0), row)?.sentence())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_about_one_host() {
        assert_eq!(endpoint("a.org").map(|to| to.to_string()), Ok("a.org:443".to_owned()));
        assert_eq!(endpoint("192.168.1.20:8123").map(|to| to.to_string()), Ok("192.168.1.20:8123".to_owned()));
        assert!(endpoint("*.a.org").is_err() && endpoint("a b").is_err());
        let host = |text: &str| text.parse::<Host>().unwrap();
        assert!(covers(&host("a.org"), &host("x.a.org")) && covers(&host("a.org"), &host("a.org")));
        assert!(!covers(&host("a.org"), &host("ba.org")) && !covers(&host("x.a.org"), &host("a.org")));
    }
}
