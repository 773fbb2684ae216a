//! Attacks on secrets that are bound to hosts. The hostile agent gets a placeholder and a way out as every agent has
//! them, and the host behind it repeats what it gets.

use std::sync::Arc;

use super::scratch::Scratch;
use super::{Error, Found, note};
use crate::egress::{Egress, Hooks, Reach as Outside, Setup};
use crate::gateway::opened::repeating::{RepeatingHost, credential, encoded};
use crate::gateway::opened::{Binding, Opener, OpenerSetup};
use crate::model::bound_secret::{AgentSecret, BadSecret, BoundSecret};
use crate::model::entity::Network;
use crate::model::gateway::Reach;
use crate::model::id::SessionId;
use crate::model::network::{Endpoint, NetworkAccess, NetworkPolicy, Unlisted};
use crate::runtime::Spec;
use crate::runtime::process::isolation_check::{self, Attempt, Who};
use crate::runtime::single_run::Place;

const HOST: &str = "bound.example";
/// The secret, and the agent's variable for it.
const SECRET: &str = "trial";
const VARIABLE: &str = "TRIAL_TOKEN";
/// A second secret for the same host at another port, which the agent reaches by base URL. Requests are sent there byte by
/// byte, without a program that would form them.
const BY_URL: &str = "plain";
const BY_URL_VARIABLE: &str = "PLAIN_TOKEN";
const BY_URL_PORT: u16 = 8443;
/// The proxy of the agent's network, where base URLs are.
const PROXY: &str = "127.0.0.1:3128";
/// Says how a request ended. The first two arguments are the halves of the value, and then come its other forms, so
/// that no argument is the value itself; the rest, after `--`, is for curl.
const REQUEST: &str = r#"
command -v curl > /dev/null || { echo "no curl"; exit 0; }
value="$1$2"; shift 2
forms=""
while [ "$1" != "--" ]; do forms="$forms $1"; shift; done
shift
out=$(curl -sS -i --path-as-is --max-time 30 "$@" 2>&1)
for form in "$value" $forms; do
    case "$out" in *"$form"*) echo leaked; exit 0;; esac
done
case "$out" in
    *"x-hearth-gate: refused"*) echo refused;;
    "HTTP/1.1 200"*|"HTTP/1.1 302"*) echo answered;;
    *) echo failed;;
esac
"#;
const ANSWERED: &str = "answered";
const REFUSED: &str = "refused";
const LEAKED: &str = "leaked";
const FAILED: &str = "failed";
const NO_PROGRAM: &str = "no curl";
/// In every refusal.
const MARK: &str = "x-hearth-gate: refused";

/// An attempt, and what must come of it.
struct Trial {
    /// The attack; none for what the agent may do.
    name: Option<&'static str>,
    attempt: Attempt,
    wanted: &'static str,
    /// How many requests arrive at the host.
    arrive: usize,
}

impl Trial {
    /// How it ended. The program says so itself; of requests without one, the answer is known.
    fn ended<'a>(&self, detail: &'a str) -> &'a str {
        match (&self.attempt, self.arrive) {
            (Attempt::Ask(..), 0) if detail.starts_with("HTTP/1.1 4") && detail.contains(MARK) => REFUSED,
            // The refusal is that of the second request.
            (Attempt::Ask(..), 1..) if detail.starts_with("HTTP/1.1 200") && detail.contains(MARK) => REFUSED,
            (Attempt::Ask(..), 1..) if detail.starts_with("HTTP/1.1 200") => ANSWERED,
            (Attempt::Ask(..), _) => FAILED,
            _ => detail,
        }
    }
}

/// Tries everything once.
pub(super) fn try_all(scratch: &Scratch<'_>, place: &Place, spec: &Spec, found: &mut Found) -> Result<(), Error> {
    let mut spec = spec.clone();
    spec.settings.network = Network::Listed;
    let Reach::Socket { owner } = scratch.daemon.runtime.reach(&spec.settings, spec.provider) else { return Ok(()) };
    let value = format!("tok-{}", scratch.secret);
    let run = scratch.paths().run();
    let failed = |error: &dyn std::fmt::Display| Error::Trial(error.to_string());
    let host = RepeatingHost::start(HOST, &run.join("host-test")).map_err(|error| failed(&error))?;
    let egress = egress(scratch, &host, &value)?;
    let opening = Opening { egress: &egress, owner, secrets: secrets().map_err(|error| failed(&error))? };
    let ended = opening.open(spec.session, spec.incarnation)?;
    egress.close(spec.session, spec.incarnation);
    spec.incarnation += 1;
    let other = opening.open(scratch.other.0, 1)?;
    let own = opening.open(spec.session, spec.incarnation)?;
    let of = |access| placeholder(access, VARIABLE);
    let mut trials = Requests { value: &value }.trials([&own, &ended, &other].map(of));
    trials.extend(raw(&placeholder(&own, BY_URL_VARIABLE)));
    spec.network_access = Some(own);
    let attempts: Vec<Attempt> = trials.iter().map(|trial| trial.attempt.clone()).collect();
    let outcomes = isolation_check::attempt(place, spec, &attempts, Who::Itself).map_err(Error::Trial)?;
    let forms = encoded(&value);
    let mut answered = 0_usize;
    // Where there is no program, only requests that need none were made.
    let made = trials.iter().zip(outcomes).filter(|(_, outcome)| outcome.detail != NO_PROGRAM);
    for (trial, outcome) in made {
        let leaked = std::iter::once(&value).chain(&forms).any(|form| outcome.detail.contains(form.as_str()));
        let ended = if leaked { LEAKED } else { trial.ended(&outcome.detail) };
        let held = outcome.done && ended == trial.wanted;
        answered = answered.saturating_add(trial.arrive);
        match (trial.name, held) {
            (Some(name), _) => note(found, name, if held { Ok(ended.to_owned()) } else { Err(ended.to_owned()) }),
            (None, true) => {}
            (None, false) => {
                return Err(Error::Trial(format!("the hostile agent does not reach the bound host: {ended}")));
            }
        }
    }
    let arrived = host.arrived();
    if arrived.len() != answered || arrived.iter().any(|head| credential(head) != value) {
        let detail = format!(
            "expected {answered} requests with the bound credential; got {}, or another credential",
            arrived.len()
        );
        note(found, "opened-foreign", Err(detail));
    }
    Ok(())
}

fn egress(scratch: &Scratch<'_>, host: &RepeatingHost, value: &str) -> Result<Egress, Error> {
    let run = scratch.paths().run();
    let resolved = value.to_owned();
    let opener = Opener::open(OpenerSetup {
        directory: &run.join("opened-test"),
        key: &run.join("gateway-test.key"),
        more: Some(&host.roots),
        resolve: Arc::new(move |_| Ok(resolved.clone().into_bytes())),
    });
    let opener = opener.map_err(|error| Error::Trial(error.to_string()))?;
    let address = host.address;
    let placed = move |to: &Endpoint| (to.host.to_string() == HOST).then_some(address);
    let reach = Outside { placed: Arc::new(placed), ..Outside::default() };
    let hooks = Hooks { ask: Box::new(|_| Box::pin(async { Ok(()) })), seen: Box::new(drop) };
    let egress = Egress::start(Setup { directory: run.join("bound-test"), reach, hooks });
    Ok(egress.map_err(|error| Error::Trial(error.to_string()))?.with_secrets(Arc::new(opener)))
}

fn secrets() -> Result<[BoundSecret; 2], BadSecret> {
    let secret = |name: &str, host: &str, requests: &str| {
        Ok(BoundSecret {
            name: name.to_owned(),
            value: "env:TRIAL".to_owned(),
            hosts: vec![host.parse()?],
            header: "Authorization: Bearer {}".parse()?,
            requests: vec![requests.parse()?],
        })
    };
    let by_url = format!("{HOST}:{BY_URL_PORT}");
    Ok([secret(SECRET, HOST, "GET /open/**")?, secret(BY_URL, &by_url, "* /open/**")?])
}

/// Gives runs a way out with the secrets.
struct Opening<'a> {
    egress: &'a Egress,
    owner: Option<u32>,
    secrets: [BoundSecret; 2],
}

impl Opening<'_> {
    fn open(&self, session: SessionId, incarnation: u32) -> Result<NetworkAccess, Error> {
        let policy = NetworkPolicy::new(Unlisted::Refuse);
        let opened = self.egress.open(session, incarnation, policy, self.owner);
        opened.map_err(|error| Error::Trial(error.to_string()))?;
        let by_url = format!("{BY_URL}.url");
        let uses = [(VARIABLE, SECRET), (BY_URL_VARIABLE, BY_URL), ("PLAIN_URL", &by_url)]
            .map(|(variable, secret)| AgentSecret { variable: variable.to_owned(), secret: secret.to_owned() });
        let binding = Binding { session, incarnation, uses: &uses, secrets: &self.secrets };
        self.egress.bind(&binding).map_err(Error::Trial)
    }
}

fn placeholder(access: &NetworkAccess, variable: &str) -> String {
    let mut variables = access.secrets.iter().flat_map(|secrets| &secrets.variables);
    variables.find(|(name, _)| name == variable).map(|(_, placeholder)| placeholder.clone()).unwrap_or_default()
}

/// Requests that a program would not send, by base URL.
fn raw(placeholder: &str) -> Vec<Trial> {
    let begin = format!("Host: {PROXY}\r\nAuthorization: Bearer {placeholder}\r\n");
    let request = |method: &str, path: &str, rest: &str| format!("{method} /{BY_URL}{path} HTTP/1.1\r\n{begin}{rest}");
    let get = |rest: &str| request("GET", "/open/hello", rest);
    let post = |rest: &str| request("POST", "/open/hello", rest);
    let trial = |name, wanted, (arrive, text)| {
        let attempt = Attempt::Ask(PROXY.to_owned(), text);
        Trial { name, attempt, wanted, arrive }
    };
    let smuggled = |text: String| trial(Some("opened-smuggle"), REFUSED, (0, text));
    let chunked = "Transfer-Encoding: chunked\r\n";
    let last = "Connection: close\r\n\r\n";
    vec![
        trial(None, ANSWERED, (1, get(last))),
        smuggled(post(&format!("{chunked}Content-Length: 4\r\n{last}0\r\n\r\n"))),
        smuggled(post(&format!("Content-Length: 1\r\nContent-Length: 2\r\n{last}ab"))),
        smuggled(post(&format!("{chunked}Trailer: X-A\r\n{last}1\r\na\r\n0\r\nX-Api-Key: other\r\n\r\n"))),
        smuggled(get(&format!("X-A: b\nX-Api-Key: other\r\n{last}"))),
        smuggled(get("X-A: b\n\nGET /closed HTTP/1.1\r\n\r\n")),
        smuggled(get(&format!("X-A: b\r\n X-Api-Key: other\r\n{last}"))),
        trial(Some("opened-smuggle"), REFUSED, (1, format!("{}{}", get("\r\n"), request("GET", "/closed", last)))),
        trial(Some("opened-foreign"), REFUSED, (0, get(&format!("authorization: Bearer other\r\n{last}")))),
    ]
}

/// Makes requests to the host.
struct Requests<'a> {
    value: &'a str,
}

impl Requests<'_> {
    /// The placeholders are those of the agent, of its last run, and of another agent.
    fn trials(&self, [own, ended, other]: [String; 3]) -> Vec<Trial> {
        let bearer = |credential: &str| format!("Authorization: Bearer {credential}");
        let ours = bearer(&own);
        let answered = |name, path: &str| self.trial(name, path, &[&ours], ANSWERED);
        let refused = |name, path: &str, headers: &[&str]| self.trial(Some(name), path, headers, REFUSED);
        let [base64, hexadecimal, percent] = encoded(self.value);
        let note = |text: &str| format!("X-Note: {text}");
        let mut trials = vec![
            answered(None, "/open/hello"),
            refused("opened-replay", "/open/hello", &[&bearer(&other)]),
            refused("opened-replay", "/open/hello", &[&bearer(&ended)]),
            refused("opened-replay", "/open/hello", &[&bearer("hearth-trial-00000000000000000000000000000000")]),
            refused("opened-foreign", "/open/hello", &[&bearer("of-another-account")]),
            refused("opened-foreign", "/open/hello", &[&ours, &bearer("of-another-account")]),
            refused("opened-foreign", "/open/hello", &[&ours, "X-Api-Key: of-another-account"]),
            refused("opened-foreign", "/open/hello", &[&ours, "Cookie: session=of-another-account"]),
            refused("opened-foreign", "/open/hello?access_token=other", &[&ours]),
            refused("opened-path", "/closed", &[&ours]),
            refused("opened-path", "/open/../closed", &[&ours]),
            refused("opened-path", "/open/%2e%2e/closed", &[&ours]),
            refused("opened-path", "/open/hello", &[&ours, "X-HTTP-Method-Override: DELETE"]),
            refused("opened-leak", &format!("/open/{}", self.value), &[&ours]),
            refused("opened-leak", &format!("/open/hello?t={percent}"), &[&ours]),
        ];
        trials.extend(
            [self.value, &base64, &hexadecimal]
                .map(|text| refused("opened-leak", "/open/hello", &[&ours, &note(text)])),
        );
        let echoes = ["body", "header", "address", "encoded"];
        trials.extend(echoes.map(|echo| answered(Some("opened-echo"), &format!("/open/{echo}"))));
        trials
    }

    fn trial(&self, name: Option<&'static str>, path: &str, headers: &[&str], wanted: &'static str) -> Trial {
        let (front, back) = self.value.split_at(self.value.len() / 2);
        let mut words = vec!["sh", "-c", REQUEST, "sh", front, back].into_iter().map(str::to_owned).collect::<Vec<_>>();
        words.extend(encoded(self.value));
        words.push("--".to_owned());
        words.extend(headers.iter().flat_map(|header| ["-H".to_owned(), (*header).to_owned()]));
        words.push(format!("https://{HOST}{path}"));
        let arrive = usize::from(wanted == ANSWERED);
        Trial { name, attempt: Attempt::Run(words), wanted, arrive }
    }
}
