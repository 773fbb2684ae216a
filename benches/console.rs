//! The console: the first page, the memory of open event streams, and whether routing notices open pages.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hearth::socket::protocol::{Request, Response};

use crate::ground::asked::Asked;
use crate::ground::daemon::Daemon;
use crate::ground::part::{Part, middle};
use crate::ground::{Ground, now, place};

/// Name of this part.
pub(crate) const NAME: &str = "console";

/// Event streams that are open at once.
const STREAMS: usize = 1_000;
/// Pages that follow changes while messages are routed.
const PAGES: usize = 20;
/// Messages of one measurement of routing.
const MESSAGES: usize = 2_000;

pub(crate) fn all(asked: &Asked) {
    if !asked.wants(NAME) {
        return;
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let configuration = format!(
        "schema = 1\n[console]\nlisten = \"127.0.0.1:{port}\"\n[[agents]]\nfolder = \"a\"\nprovider = \"echo\"\n\
         [[users]]\nid = \"bench:1\"\nroles = [\"owner\"]\n[[chats]]\nchannel = \"bench\"\nplatform_id = \"c\"\n\
         unknown_senders = \"strict\"\n[[chats.wirings]]\nagent = \"a\"\nengage = \"pattern\"\npattern = \"^never$\"\n\
         ignored = \"accumulate\"\n"
    );
    let dir = tempfile::tempdir_in(place()).unwrap();
    let ground = Ground::new(&configuration, |_| {});
    std::fs::create_dir(dir.path().join("store")).unwrap();
    std::fs::copy(ground.dir.path().join("store/data.mdb"), dir.path().join("store/data.mdb")).unwrap();
    let daemon = Daemon::start(dir.path(), &["--runtime", "process"]);
    let browser = Browser::signed_in(&daemon, port);
    let mut part = Part::of_times(NAME, "the console on loopback");
    let times = asked.size(1_000, 300, 2);
    let (mut took, mut bytes) = (Vec::new(), 0);
    for _ in 0..times {
        let begin = now();
        bytes = ["/", "/style.css", "/console.js"].iter().map(|path| browser.get(path)).sum();
        took.push(now() - begin);
    }
    part.add_times("the first page, with its style and script, a connection each", took);
    let mut fact =
        |what: &str, value: String| part.add(&[what.to_owned(), value, String::new(), String::new(), String::new()]);
    fact("bytes transferred for it", format!("{:.1} kB", bytes as f64 / 1e3));
    let before = memory(daemon.child.id());
    let streams: Vec<TcpStream> = (0..asked.size(STREAMS, STREAMS, 10)).map(|_| browser.stream()).collect();
    std::thread::sleep(Duration::from_secs(1));
    let more = memory(daemon.child.id()).saturating_sub(before);
    fact(&format!("memory of {} open event streams", streams.len()), format!("{:.1} MB", more as f64 / 1e6));
    drop(streams);
    let share = beside(asked, &browser, dir.path());
    fact(&format!("time of {MESSAGES} messages with {PAGES} pages open, beside that with none"), format!("{share:.2}"));
    part.keep(asked);
    daemon.stop();
}

/// Messages are routed with and without pages that follow, in turn.
fn beside(asked: &Asked, browser: &Browser, data: &Path) -> f64 {
    let mut first = 0;
    let ratio = |_| {
        let alone = route(data, &mut first);
        let open = Arc::new(AtomicBool::new(true));
        let pages: Vec<_> = (0..PAGES).map(|_| browser.follow(Arc::clone(&open))).collect();
        let watched = route(data, &mut first);
        open.store(false, Ordering::SeqCst);
        // One more change wakes them.
        route(data, &mut first);
        pages.into_iter().for_each(|page| page.join().unwrap());
        (watched.as_secs_f64() / alone.as_secs_f64() * 1e6) as u64
    };
    middle((0..asked.size(9, 5, 1)).map(ratio).collect::<Vec<_>>()) as f64 / 1e6
}

fn route(data: &Path, first: &mut usize) -> Duration {
    let mut lines = String::new();
    for number in *first..*first + MESSAGES {
        lines.push_str(&format!(
            "{{\"channelType\":\"bench\",\"platformId\":\"c\",\"message\":{{\"id\":\"m{number}\",\"kind\":\"chat\",\"content\":{{\"text\":\"a message of some words\",\"senderId\":\"1\"}}}}}}\n"
        ));
    }
    *first += MESSAGES;
    let mut inject = Command::new(env!("CARGO_BIN_EXE_hearth"))
        .args(["inject", "--data"])
        .arg(data)
        .env_remove("XDG_RUNTIME_DIR")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begin = now();
    inject.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    assert!(inject.wait().unwrap().success());
    now() - begin
}

/// A browser of the owner.
struct Browser {
    port: u16,
    cookie: String,
}

impl Browser {
    fn signed_in(daemon: &Daemon, port: u16) -> Self {
        let mut client = daemon.connect();
        let link = loop {
            match client.ask(&Request::Console { user: Some("bench:1".to_owned()) }).unwrap() {
                Response::Console(link) => break link.link,
                _ => std::thread::sleep(Duration::from_millis(50)),
            }
        };
        let form = format!("code={}", link.rsplit('/').next().unwrap());
        let mut browser = Self { port, cookie: String::new() };
        let answer = browser.ask(&format!(
            "POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\nContent-Type: \
             application/x-www-form-urlencoded\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{form}",
            form.len()
        ));
        let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        cookie.split_once(';').unwrap().0.clone_into(&mut browser.cookie);
        browser
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn head(&self, path: &str, connection: &str) -> String {
        let Self { port, cookie } = self;
        format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\nConnection: {connection}\r\n\r\n")
    }

    /// Fetches something and returns how many bytes came.
    fn get(&self, path: &str) -> usize {
        let answer = self.ask(&self.head(path, "close"));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer.len()
    }

    fn stream(&self) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(self.head("/events", "keep-alive").as_bytes()).unwrap();
        let mut answer = [0; 15];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
        stream
    }

    /// A page that fetches itself after each event, as the script does.
    fn follow(&self, open: Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
        let stream = self.stream();
        let browser = Self { port: self.port, cookie: self.cookie.clone() };
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines() {
                if !open.load(Ordering::SeqCst) {
                    return;
                }
                if line.unwrap().starts_with("event: changed") {
                    browser.get("/");
                }
            }
        })
    }
}

/// Memory of a process that is its own.
fn memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}
