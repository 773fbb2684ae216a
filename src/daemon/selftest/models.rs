//! Attacks on the key of a model. The hostile agent gets a gateway as every agent has one, and the server behind it
//! records what arrives and repeats keys.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use super::scratch::{OTHER, OWN, Scratch};
use super::{Error, Found, note};
use crate::gateway::{Gateway, OpenedRun, Setup};
use crate::model::entity::EnvValue;
use crate::model::gateway::ModelAccess;
use crate::runtime::Spec;
use crate::runtime::process::isolation_check::{self, Attempt, Who};
use crate::runtime::single_run::Place;

const KEY_VARIABLE: &str = "ANTHROPIC_API_KEY";
const MESSAGES: &str = "/anthropic/v1/messages";
const BODY: &str = r#"{"model":"m"}"#;
/// Says what kind of key the agent has. Its name is part of no other text.
const OWN_KEY: &str = r#"case "$ANTHROPIC_API_KEY" in *hearth-*) echo a placeholder;; *) echo something else;; esac"#;

/// What must come of an attempt.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    /// An answer with this status.
    Status(&'static str),
    /// An answer without the key in it. It may break off.
    NoKey,
    /// The program says this.
    Says(&'static str),
    /// It finds nothing.
    Nothing,
}

/// An attempt, and what must come of it.
struct Trial {
    /// The attack; none for what the agent may do.
    name: Option<&'static str>,
    attempt: Attempt,
    wanted: Wanted,
}

/// Tries everything once.
pub(super) fn try_all(scratch: &Scratch<'_>, place: &Place, spec: &Spec, found: &mut Found) -> Result<(), Error> {
    let key = format!("sk-ant-api03-{}", scratch.secret);
    let server = Server::start()?;
    let gateway = gateway(scratch)?;
    let mut spec = spec.clone();
    spec.settings.env = vec![
        (KEY_VARIABLE.to_owned(), EnvValue::Plain(key.clone())),
        ("ANTHROPIC_BASE_URL".to_owned(), EnvValue::Plain(format!("http://{}", server.address))),
    ];
    let reach = scratch.daemon.runtime.reach(&spec.settings, spec.provider);
    let open = |session, agent, incarnation| {
        let run = OpenedRun { session, incarnation, agent, settings: &spec.settings, reach };
        let opened = gateway.open(&run).map_err(|error| Error::Trial(error.to_string()))?;
        opened.ok_or_else(|| Error::Trial("the gateway has no key".to_owned()))
    };
    let ended = open(spec.session, OWN, spec.incarnation)?;
    gateway.close(spec.session, spec.incarnation);
    let other = open(scratch.other.0, OTHER, 1)?;
    spec.incarnation += 1;
    let access = open(spec.session, OWN, spec.incarnation)?;
    let Some(address) = place.gateway(&access) else { return Ok(()) };
    let trials = Requests { address, key: &key }.trials([&access, &ended, &other]);
    spec.model_access = Some(access);
    let attempts: Vec<Attempt> = trials.iter().map(|trial| trial.attempt.clone()).collect();
    let outcomes = isolation_check::attempt(place, spec, &attempts, Who::Itself).map_err(Error::Trial)?;
    for (trial, outcome) in trials.iter().zip(outcomes) {
        let held = match trial.wanted {
            Wanted::Status(status) => outcome.detail.starts_with(&format!("HTTP/1.1 {status} ")),
            Wanted::NoKey => outcome.done && !outcome.detail.contains(&key),
            Wanted::Says(words) => outcome.detail == words,
            Wanted::Nothing => !outcome.done,
        };
        let answer = outcome.detail.lines().next().unwrap_or("the answer broke off").to_owned();
        match (trial.name, held) {
            (Some(name), _) => note(found, name, if held { Ok(answer) } else { Err(answer) }),
            (None, true) => {}
            (None, false) => {
                return Err(Error::Trial(format!("the hostile agent does not reach its model: {answer}")));
            }
        }
    }
    let asked = server.keys();
    if asked.iter().any(|asked| *asked != key) || asked.len() != PASSED {
        note(found, "foreign-key", Err(format!("{} requests were passed on, not {PASSED}", asked.len())));
    }
    Ok(())
}

fn gateway(scratch: &Scratch<'_>) -> Result<Gateway, Error> {
    let run = scratch.paths().run();
    let setup = Setup {
        directory: run.join("gate-test"),
        key: run.join("gateway-test.key"),
        resolve: Arc::new(|_| Err("there are no references".to_owned())),
        finished: Arc::new(drop),
    };
    Gateway::start(setup).map_err(|error| Error::Trial(error.to_string()))
}

/// Requests that reach the server: the one that is allowed, and two whose answers have the key in them.
const PASSED: usize = 3;

/// Makes requests for the gateway at an address.
struct Requests<'a> {
    address: String,
    key: &'a str,
}

impl Requests<'_> {
    /// The placeholders are those of the agent, of its last run, and of another agent.
    fn trials(&self, [own, ended, other]: [&ModelAccess; 3]) -> Vec<Trial> {
        let of = |access: &ModelAccess| header(access.placeholder(KEY_VARIABLE).unwrap_or_default());
        let (ours, ended, other) = (of(own), of(ended), of(other));
        let made_up = header("sk-ant-api03-hearth-00000000000000000000000000000000");
        let refused = |name, path, headers: &str, status| self.trial(Some(name), path, headers, Wanted::Status(status));
        let two_models = r#"{"model":"m","model":"n"}"#;
        vec![
            self.trial(None, MESSAGES, &ours, Wanted::Status("200")),
            Trial {
                name: Some("secret-read"),
                attempt: Attempt::Run(["sh", "-c", OWN_KEY].map(str::to_owned).to_vec()),
                wanted: Wanted::Says("a placeholder"),
            },
            Trial {
                name: Some("secret-read"),
                attempt: Attempt::Environments(self.key.to_owned()),
                wanted: Wanted::Nothing,
            },
            refused("placeholder-replay", MESSAGES, &other, "401"),
            refused("placeholder-replay", MESSAGES, &ended, "401"),
            refused("placeholder-replay", MESSAGES, &made_up, "401"),
            refused("foreign-key", MESSAGES, &header("sk-ant-api03-other"), "401"),
            refused("foreign-key", MESSAGES, &format!("{ours}{ours}"), "400"),
            refused("foreign-key", MESSAGES, &format!("{ours}authorization: Bearer sk-other\r\n"), "403"),
            refused("foreign-key", &format!("{MESSAGES}?key=sk-other"), &ours, "403"),
            refused("secret-path", "/anthropic/v1/files", &ours, "403"),
            refused("secret-path", "/anthropic/v1/files/../messages", &ours, "400"),
            refused("smuggle", MESSAGES, &format!("{ours}transfer-encoding: chunked\r\n"), "400"),
            Trial {
                name: Some("smuggle"),
                attempt: Attempt::Ask(self.address.clone(), request(MESSAGES, &ours, two_models)),
                wanted: Wanted::Status("400"),
            },
            self.trial(Some("secret-echo"), &format!("{MESSAGES}?echo=body"), &ours, Wanted::NoKey),
            self.trial(Some("secret-echo"), &format!("{MESSAGES}?echo=header"), &ours, Wanted::NoKey),
        ]
    }

    fn trial(&self, name: Option<&'static str>, path: &str, headers: &str, wanted: Wanted) -> Trial {
        Trial { name, attempt: Attempt::Ask(self.address.clone(), request(path, headers, BODY)), wanted }
    }
}

fn header(key: &str) -> String {
    format!("x-api-key: {key}\r\n")
}

fn request(path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nhost: a\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}")
}

/// A server of models that repeats keys when it is asked to.
struct Server {
    address: SocketAddr,
    keys: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start() -> Result<Self, Error> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let keys: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&keys);
        // It ends with the process, which does nothing else.
        std::thread::Builder::new().name("models".to_owned()).spawn(move || {
            for stream in listener.incoming().flatten() {
                if let Err(error) = answer(stream, &seen) {
                    tracing::debug!(%error, "a request to the self-test's server of models broke off");
                }
            }
        })?;
        Ok(Self { address, keys })
    }

    /// The keys that arrived, in order.
    fn keys(&self) -> Vec<String> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Answers one request, and closes the connection.
fn answer(mut stream: TcpStream, keys: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?.take(64 << 10));
    let (mut first, mut key, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        match line.trim_end().split_once(": ") {
            Some(("x-api-key", value)) => key = value.to_owned(),
            Some(("content-length", value)) => length = value.parse().unwrap_or(0),
            _ => {}
        }
    }
    reader.read_exact(&mut vec![0; length.min(1 << 10)])?;
    keys.lock().unwrap_or_else(PoisonError::into_inner).push(key.clone());
    let body = if first.contains("echo=body") { key.as_str() } else { "{}" };
    let echo = if first.contains("echo=header") { format!("x-echo: {key}\r\n") } else { String::new() };
    let length = body.len();
    let text = format!("HTTP/1.1 200 OK\r\n{echo}content-length: {length}\r\nconnection: close\r\n\r\n{body}");
    stream.write_all(text.as_bytes())
}
