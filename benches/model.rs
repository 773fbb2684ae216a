//! Time from a message to the first words of an agent of the provider `openai`, and the memory of its runner when it has
//! nothing to do. The real program with the real runner; the model is a server that answers at once.

use std::fmt::Write as _;
use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use hearth::socket::client::Client;
use hearth::socket::protocol::{Request, Response};

use crate::ground::asked::Asked;
use crate::ground::daemon::{self, Daemon, family};
use crate::ground::part::Part;
use crate::ground::{Ground, now, server};

/// Name of this part.
pub(crate) const NAME: &str = "model";

/// Agents that are started: no more than have a place at once.
const STARTS: usize = 15;
const ANSWER: &str = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"Hello\"}}]}\n\n\
    data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\
    \"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1,\"total_tokens\":4}}\n\ndata: [DONE]\n\n";

pub(crate) fn all(asked: &Asked) {
    if !asked.wants(NAME) {
        return;
    }
    let model = server::start("text/event-stream", ANSWER);
    let mut part = Part::of_times(NAME, "an agent `openai`, whose model answers at once");
    part.add_times("the request alone: sent to the server → its first word", floor(model, asked.size(400, 200, 3)));
    let starts = asked.size(STARTS, STARTS, 2);
    let ground = ground(model, starts);
    let daemon = Daemon::start(ground.dir.path(), &["--runtime", "process"]);
    let mut first = daemon.attached(Some("a0"));
    let cold = (1..starts).map(|agent| say(&mut daemon.attached(Some(&format!("a{agent}"))), 0));
    let cold = std::iter::once(say(&mut first, 0)).chain(cold).collect();
    let warm = (1..=asked.size(400, 200, 3)).map(|number| say(&mut first, number)).collect();
    part.add_times("message stored → its first word, agent runs", warm);
    part.add_times("message stored → its first word, agent has to be started", cold);
    let memory = format!("{} kB", memory(daemon.child.id()) / starts as u64);
    let what = "RssAnon + RssShmem of an agent that has answered and waits, all its processes".to_owned();
    part.add(&[what, memory, String::new(), String::new(), starts.to_string()]);
    daemon.stop();
    part.keep(asked);
}

/// The same request without Hearth, on a connection that stays open.
fn floor(model: SocketAddr, times: usize) -> Vec<Duration> {
    let mut stream = BufReader::new(TcpStream::connect(model).unwrap());
    let body = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}"#;
    let length = body.len();
    let request = format!("POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n{body}");
    let mut ask = |_| {
        let begin = now();
        stream.get_mut().write_all(request.as_bytes()).unwrap();
        assert!(server::message(&mut stream).unwrap().starts_with("HTTP/1.1 200"));
        begin.elapsed()
    };
    (0..times).map(&mut ask).collect()
}

fn ground(model: SocketAddr, agents: usize) -> Ground {
    let mut file = "schema = 1\n".to_owned();
    for agent in 0..agents {
        let head =
            format!("[[agents]]\nfolder = \"a{agent}\"\nprovider = \"openai\"\nnetwork = \"open\"\nmodel = \"m\"\n");
        writeln!(file, "{head}env = {{ OPENAI_BASE_URL = \"http://{model}/v1\" }}").unwrap();
    }
    Ground::new(&file, |_| {})
}

/// From the moment when the message is stored.
fn say(client: &mut Client, number: usize) -> Duration {
    client.send(&Request::Say { id: format!("b{number}"), text: format!("number {number}") }).unwrap();
    let (mut stored, mut first) = (None, None::<Instant>);
    loop {
        match client.next().unwrap() {
            Response::Accepted { .. } => stored = Some(now()),
            Response::Writing { text, .. } if !text.is_empty() => drop(first.get_or_insert_with(now)),
            Response::Said { id, text, .. } => {
                assert_eq!(text, "Hello");
                first.get_or_insert_with(now);
                client.send(&Request::Shown { id }).unwrap();
            }
            Response::Settled { .. } => return first.unwrap().duration_since(stored.unwrap()),
            other => assert!(!matches!(other, Response::Refused { .. }), "{other:?}"),
        }
    }
}

/// Memory in kB of all that the daemon started.
fn memory(daemon: u32) -> u64 {
    family(daemon).into_iter().filter(|process| *process != daemon).filter_map(daemon::memory).sum()
}
