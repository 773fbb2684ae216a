//! Routing and ingest, each beside its floor: raw LMDB making the same writes with the same commits.

use criterion::Criterion;
use hearth::engine::commit::Submission;
use hearth::model::address::ChannelName;
use hearth::model::card::PromptSubject;
use hearth::model::content::RawJson;
use hearth::model::id::{ApprovalId, SessionId};
use hearth::model::input::{Input, RuntimeEvent};
use hearth::model::mailbox::{Answer, CollectedRecord, Collection, Recipient, Record, Said};
use hearth::model::request::RequestedAction;
use hearth::model::spend::{Money, ReportedUse, Tokens};

use crate::ground::asked::commits;
use crate::ground::compare::compare as beside_floor;
use crate::ground::{Ground, event, moment, submission, threaded};

/// Pairs of Hearth and its floor.
const PAIRS: usize = 21;
/// Inputs of one commit when many are in flight.
const IN_FLIGHT: usize = 64;
/// Sessions of the round robin.
const SESSIONS: usize = 1_000;

/// A configuration with so many agents that listen in one chat.
pub(crate) fn configuration(wirings: usize, wiring: impl Fn(usize) -> String) -> String {
    let mut text = String::from("schema = 1\nmax_containers = 1000\n");
    for number in 0..wirings {
        text.push_str(&format!("[[agents]]\nfolder = \"a{number}\"\nmax_parallel = 1000\n"));
    }
    text.push_str("[[users]]\nid = \"bench:1\"\nroles = [\"owner\"]\n");
    text.push_str("[[chats]]\nchannel = \"bench\"\nplatform_id = \"c\"\nunknown_senders = \"strict\"\n");
    for number in 0..wirings {
        text.push_str(&format!("[[chats.wirings]]\nagent = \"a{number}\"\n{}\n", wiring(number)));
    }
    text
}

/// A listener that every message concerns.
pub(crate) fn always(_: usize) -> String {
    "engage = \"pattern\"\npattern = \".\"".to_owned()
}

/// Ten listeners: four that always engage, three that keep what does not address them, three that drop it.
fn mixed(number: usize) -> String {
    match number {
        0..4 => always(number),
        4..7 => "engage = \"mention\"\nignored = \"accumulate\"".to_owned(),
        _ => "engage = \"pattern\"\npattern = \"^nothing of the kind$\"".to_owned(),
    }
}

fn per_thread(_: usize) -> String {
    "engage = \"pattern\"\npattern = \".\"\nsession = \"per-thread\"".to_owned()
}

pub(crate) fn one_by_one(make: impl FnMut(usize) -> Submission) -> Vec<Vec<Submission>> {
    (0..commits()).map(make).map(|one| vec![one]).collect()
}

/// A budget of each kind that counts for these messages; none is ever spent.
pub(crate) fn budgets() -> String {
    let budget = |scope| format!("[[budgets]]\nscope = \"{scope}\"\nper = \"month\"\ntokens = 1_000_000_000\n");
    ["all", "agent:a0", "person:bench:1", "chat:bench/c"].map(budget).concat()
}

/// The answers of one session: a claim and its end with an answer, as one look into the mailbox finds them. With what
/// the agent reports to have used before the end.
pub(crate) fn turn(number: usize, text: &str, used: Vec<ReportedUse>) -> Submission {
    let seq = 2 * (u64::try_from(number).unwrap() + 1);
    let said = Said {
        wire_id: format!("1-{seq}"),
        incarnation: 1,
        number: 10_001 + seq,
        in_reply_to: Some(seq),
        to: Recipient::Reply,
        text: text.to_owned(),
        content: RawJson::trusted(format!("{{\"text\":\"{text}\"}}")),
        files: Vec::new(),
        deliver_after: None,
        action: RequestedAction::Say,
        request: None,
    };
    let claim = CollectedRecord { record: Record::Claim { seq, incarnation: 1 }, files: vec![format!("ack/{seq}")] };
    let answers = vec![Answer::Read(Box::new(said))];
    let end = Record::End { seq, also: Vec::new(), incarnation: 1, failure: None, gated: None, answers };
    let end = CollectedRecord { record: end, files: vec![format!("ack/{seq}.end")] };
    let used = (!used.is_empty()).then_some(Record::Used { seq, incarnation: 1, used });
    let used = used.map(|record| CollectedRecord { record, files: Vec::new() });
    let found = std::iter::once(claim).chain(used).chain([end]).collect();
    let collection = Collection { session: SessionId::new(1), found, closes: None };
    submission(Input::Collected(collection))
}

/// Messages, one in each commit.
pub(crate) fn one_at_a_time() -> Vec<Vec<Submission>> {
    one_by_one(|n| event("bench", "c", &format!("m{n}"), "1"))
}

/// Messages, many in each commit.
pub(crate) fn in_flight() -> Vec<Vec<Submission>> {
    (0..commits().div_ceil(5))
        .map(|group| (0..IN_FLIGHT).map(|n| event("bench", "c", &format!("m{group}-{n}"), "1")).collect())
        .collect()
}

/// A session whose agent has messages to answer.
pub(crate) fn waiting(configuration: &str) -> Ground {
    Ground::new(configuration, |engine| {
        let mut all: Vec<Submission> = one_at_a_time().into_iter().flatten().collect();
        all.push(submission(Input::Runtime(RuntimeEvent::Running(SessionId::new(1), 1))));
        // Messages are not delivered: the first one of the queue waits, the others stay behind it.
        all.push(submission(Input::Reachable(ChannelName::new("bench").unwrap(), None)));
        engine.commit(&all, moment(0), 7).unwrap();
    })
}

/// Its answers, one in each commit, with or without what each turn used.
pub(crate) fn answers(with_use: bool) -> Vec<Vec<Submission>> {
    let tokens = Tokens { input: 900, output: 90, cache_read: 8_000, ..Tokens::default() };
    let used = ReportedUse { model: Some("a-model".into()), tokens, cost: Some(Money::micros(4_200)) };
    let used = if with_use { vec![used] } else { Vec::new() };
    one_by_one(|n| turn(n, &"an answer".repeat(20), used.clone()))
}

fn compare(c: &mut Criterion, name: &str, ground: &Ground, groups: &[Vec<Submission>]) {
    beside_floor(c, name, ground, groups, (groups.iter().map(Vec::len).sum(), PAIRS));
}

fn routing(c: &mut Criterion) {
    let one = Ground::new(&configuration(1, always), |_| {});
    compare(c, "route, one agent, one at a time", &one, &one_at_a_time());
    compare(c, "route, one agent, 64 in flight", &one, &in_flight());

    let ten = Ground::new(&configuration(10, mixed), |_| {});
    compare(c, "route, fan-out to ten", &ten, &one_at_a_time());

    let strangers = one_by_one(|n| event("bench", "c", &format!("m{n}"), &format!("stranger{n}")));
    compare(c, "route, strangers dropped", &one, &strangers);

    let threads = Ground::new(&configuration(1, per_thread), |_| {});
    compare(c, "route, a new session each", &threads, &one_by_one(|n| threaded(n, &format!("m{n}"))));

    let many = Ground::new(&configuration(1, per_thread), |engine| {
        let all: Vec<Submission> = (0..SESSIONS).map(|n| threaded(n, &format!("first{n}"))).collect();
        engine.commit(&all, moment(0), 7).unwrap();
    });
    let round_robin = one_by_one(|n| threaded(n * 7 % SESSIONS, &format!("m{n}")));
    compare(c, "route, 1,000 sessions in turn", &many, &round_robin);
}

/// Strangers of one chat; more people than may wait there would be dropped.
const STRANGERS: usize = 20;

/// Chats that ask about strangers, enough for one stranger per commit. The owner is asked at the terminal.
fn asking() -> String {
    let mut text = "schema = 1\nmax_containers = 1000\n[[agents]]\nfolder = \"a0\"\nmax_parallel = 1000\n".to_owned();
    text.push_str("[[users]]\nid = \"terminal:1\"\nroles = [\"owner\"]\n");
    for chat in 0..=commits() / STRANGERS {
        text.push_str(&format!("[[chats]]\nchannel = \"bench\"\nplatform_id = \"c{chat}\"\n"));
        text.push_str(&format!("[[chats.wirings]]\nagent = \"a0\"\n{}\n", always(0)));
    }
    text
}

fn strange(number: usize) -> Submission {
    let (chat, id) = (format!("c{}", number / STRANGERS), format!("m{number}"));
    event("bench", &chat, &id, &format!("stranger{number}"))
}

fn approvals(c: &mut Criterion) {
    let asked = Ground::new(&asking(), |_| {});
    compare(c, "hold, the first message of a stranger each", &asked, &one_by_one(strange));

    let waiting = Ground::new(&asking(), |engine| {
        let all: Vec<Submission> = (0..commits()).map(strange).collect();
        engine.commit(&all, moment(0), 7).unwrap();
    });
    let approve = |number: usize| {
        let id = ApprovalId::new(u64::try_from(number).unwrap() + 1);
        submission(Input::Decide(PromptSubject::Approval(id), "approve".to_owned()))
    };
    compare(c, "approve a stranger and replay one message", &waiting, &one_by_one(approve));
}

fn ingest(c: &mut Criterion) {
    let plain = waiting(&configuration(1, always));
    compare(c, "ingest, a claim and an answer", &plain, &answers(false));

    let counted = waiting(&(configuration(1, always) + &budgets()));
    compare(c, "ingest, a claim and an answer, its use, four budgets", &counted, &answers(true));
}

pub(crate) fn all(c: &mut Criterion) {
    routing(c);
    approvals(c);
    ingest(c);
}
