//! What the model gateway adds to a request, beside the same request to the same server without it. The requests
//! alternate, because what a busy machine adds changes from one second to the next.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hearth::gateway::{Gateway, OpenedRun, Setup};
use hearth::model::agent::{AgentSettings, EnvValue};
use hearth::model::gateway::{GatewayAddress, Reach, SOCKET};
use hearth::model::id::SessionId;

use crate::ground::asked::Asked;
use crate::ground::part::{Part, middle, ms};
use crate::ground::server;

/// Name of this part.
pub(crate) const NAME: &str = "gateway";

const BODY: &str = r#"{"model":"m","max_tokens":16,"messages":[{"role":"user","content":"hello"}]}"#;
const ANSWER: &str = r#"{"type":"message","model":"m","content":[],"usage":{"input_tokens":3,"output_tokens":4}}"#;

pub(crate) fn all(asked: &Asked) {
    if !asked.wants(NAME) {
        return;
    }
    let (direct, through) = requests(asked.size(4_000, 1_000, 3));
    let mut part = Part::of_times(NAME, "a request to a model on this machine");
    let added = ms(middle(through.clone()).saturating_sub(middle(direct.clone())));
    part.add_times("sent to the server itself", direct);
    part.add_times("sent through the gateway", through);
    part.add(&["added in the middle".to_owned(), added, String::new(), String::new(), String::new()]);
    crate::egress::rows(asked).iter().for_each(|row| part.add(row));
    part.keep(asked);
}

/// Times of requests without and with the gateway, on connections that stay open.
fn requests(times: usize) -> (Vec<Duration>, Vec<Duration>) {
    let address = server::start("application/json", ANSWER);
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(Setup {
        directory: dir.path().join("gate"),
        key: dir.path().join("gateway.key"),
        resolve: Arc::new(|_| Err("there are no references".to_owned())),
        finished: Arc::new(drop),
    });
    let gateway = gateway.unwrap();
    let mut settings = AgentSettings::named("bench".to_owned());
    settings.caps.per_minute = Some(u32::MAX);
    settings.env = vec![
        ("ANTHROPIC_API_KEY".to_owned(), EnvValue::Plain("sk-ant-of-the-bench".to_owned())),
        ("ANTHROPIC_BASE_URL".to_owned(), EnvValue::Plain(format!("http://{address}"))),
    ];
    let (session, reach) = (SessionId::new(1), Reach::Socket { owner: None });
    let run = OpenedRun { session, incarnation: 1, agent: "bench", settings: &settings, reach };
    let access = gateway.open(&run).unwrap().unwrap();
    let GatewayAddress::Socket(place) = &access.address else { panic!("{access:?}") };
    let request = |path: &str, key: &str| {
        let length = BODY.len();
        format!(
            "POST {path}/v1/messages HTTP/1.1\r\nhost: a\r\nx-api-key: {key}\r\ncontent-length: {length}\r\n\r\n{BODY}"
        )
    };
    let mut direct = Talk::new(TcpStream::connect(address).unwrap(), request("", "k"));
    let placeholder = access.placeholder("ANTHROPIC_API_KEY").unwrap();
    let mut through = Talk::new(UnixStream::connect(place.join(SOCKET)).unwrap(), request("/anthropic", placeholder));
    // Connections and clients are made with the first request.
    direct.ask();
    through.ask();
    (0..times).map(|_| (direct.ask(), through.ask())).unzip()
}

/// A connection on which the same is asked again and again.
struct Talk<S> {
    stream: BufReader<S>,
    request: String,
}

impl<S: Read + Write> Talk<S> {
    fn new(stream: S, request: String) -> Self {
        Self { stream: BufReader::new(stream), request }
    }

    fn ask(&mut self) -> Duration {
        let began = Instant::now();
        self.stream.get_mut().write_all(self.request.as_bytes()).unwrap();
        let head = server::message(&mut self.stream).unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        began.elapsed()
    }
}
