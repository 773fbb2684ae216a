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

/// The host.
const HOST: &str = "bound.example";
/// The secret, and the agent's variable for it.
const SECRET: &str = "trial";
const VARIABLE: &str = "TRIAL_TOKEN";
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
const NO_PROGRAM: &str = "no curl";

/// An attempt, and what must come of it.
struct Trial {
    /// The attack; none for what the agent may do.
    name: Option<&'static str>,
    attempt: Attempt,
    wanted: &'static str,
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
    let opening = Opening { egress: &egress, owner, secret: secret().map_err(|error| failed(&error))? };
    let ended = opening.open(spec.session, spec.incarnation)?;
    egress.close(spec.session, spec.incarnation);
    spec.incarnation += 1;
    let other = opening.open(scratch.other.0, 1)?;
    let own = opening.open(spec.session, spec.incarnation)?;
    let trials = Requests { value: &value }.trials([&own, &ended, &other].map(placeholder));
    spec.network_access = Some(own);
    let attempts: Vec<Attempt> = trials.iter().map(|trial| trial.attempt.clone()).collect();
    let outcomes = isolation_check::attempt(place, spec, &attempts, Who::Itself).map_err(Error::Trial)?;
    if outcomes.iter().any(|outcome| outcome.detail == NO_PROGRAM) {
        return Ok(());
    }
    for (trial, outcome) in trials.iter().zip(outcomes) {
        let held = outcome.done && outcome.detail == trial.wanted;
        match (trial.name, held) {
            (Some(name), _) => note(found, name, if held { Ok(outcome.detail) } else { Err(outcome.detail) }),
            (None, true) => {}
            (None, false) => {
                let detail = outcome.detail;
                return Err(Error::Trial(format!("the hostile agent does not reach the bound host: {detail}")));
            }
        }
    }
    let (arrived, answered) = (host.arrived(), trials.iter().filter(|trial| trial.wanted == ANSWERED).count());
    if arrived.len() != answered || arrived.iter().any(|head| credential(head) != value) {
        let detail = format!("{} requests arrived, not {answered}, or with another credential", arrived.len());
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

fn secret() -> Result<BoundSecret, BadSecret> {
    Ok(BoundSecret {
        name: SECRET.to_owned(),
        value: "env:TRIAL".to_owned(),
        hosts: vec![HOST.parse()?],
        header: "Authorization: Bearer {}".parse()?,
        requests: vec!["GET /open/**".parse()?],
    })
}

/// Gives runs a way out with the secret.
struct Opening<'a> {
    egress: &'a Egress,
    owner: Option<u32>,
    secret: BoundSecret,
}

impl Opening<'_> {
    fn open(&self, session: SessionId, incarnation: u32) -> Result<NetworkAccess, Error> {
        let policy = NetworkPolicy::new(Unlisted::Refuse);
        let opened = self.egress.open(session, incarnation, policy, self.owner);
        opened.map_err(|error| Error::Trial(error.to_string()))?;
        let uses = [AgentSecret { variable: VARIABLE.to_owned(), secret: SECRET.to_owned() }];
        let secrets = std::slice::from_ref(&self.secret);
        self.egress.bind(&Binding { session, incarnation, uses: &uses, secrets }).map_err(Error::Trial)
    }
}

fn placeholder(access: &NetworkAccess) -> String {
    let secrets = access.secrets.as_ref().and_then(|secrets| secrets.variables.first());
    secrets.map(|(_, placeholder)| placeholder.clone()).unwrap_or_default()
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
        Trial { name, attempt: Attempt::Run(words), wanted }
    }
}
