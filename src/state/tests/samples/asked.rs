//! Sample approvals, questions and followed threads.

use super::{AGENT, CHAT, SESSION, ada, address, at, costs, json, telegram};
use crate::held_bytes::{count_held, file_bytes};
use crate::model::approval::{
    Approval, ApprovalState, ApprovalSubject, Decider, Digest, Held, HostReply, Question, QuestionState, Waitlist,
};
use crate::model::budget::BudgetRequest;
use crate::model::card::{CardOption, PromptSubject};
use crate::model::channel::{
    BridgeProgram, BridgeSetting, BridgeState, ChannelInstance, ChannelKind, Cursor, UnknownChats,
};
use crate::model::entity::Origin;
use crate::model::host_grant::{HostRequest, HostsRequest};
use crate::model::id::{ApprovalId, BodyId, JournalId, MessageId, OutboundId, QuestionId, TaskId, ToolGrantId};
use crate::model::journal::{Event, JournalEntry};
use crate::model::spend::Money;
use crate::model::thread::Sticky;
use crate::model::time::Millis;
use crate::model::tool::{
    GrantScope, ToolAsker, ToolBasis, ToolCall, ToolField, ToolGrant, ToolOutcome, ToolPreset, ToolRequest, ToolRule,
    ToolSettings, ToolUsed, ToolValue, ToolVerdict,
};
use crate::{
    AgentThreadKey, ForeignKey, HeldKey, Owned, PersonKey, PromptKey, ReplyKey, Result, Tables, Text, ThreadKey, Write,
};

/// Fills the tables.
pub(super) fn fill(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    let option = CardOption { label: "Allow".to_owned(), chosen: "Allowed".to_owned(), value: "approve".to_owned() };
    let approval = Approval {
        about: ApprovalSubject::Sender { chat: CHAT, sender: ada(), name: Some("Ada".to_owned()), agents: vec![AGENT] },
        state: ApprovalState::Pending,
        approver: Some(ada()),
        nonce: 77,
        options: vec![option.clone()],
        card: Some(OutboundId::new(1)),
        due: at(80),
        expires: at(80),
        created: at(5),
    };
    put(db, txn, 1, &approval)?;
    let chat = ApprovalSubject::Channel { chat: CHAT, sender: None, name: None };
    let chat = Approval { about: chat, due: at(79), card: None, ..approval };
    put(db, txn, 2, &chat)?;
    waiting(db, txn, chat)?;
    let held = Held {
        agents: vec![AGENT],
        heard: false,
        mention: true,
        group: true,
        threads: None,
        reply_to: None,
        stored: at(5),
    };
    db.held_messages.put(txn, &HeldKey { approval: ApprovalId::new(1), body: BodyId::new(1) }, &held)?;
    db.held_messages.put(
        txn,
        &HeldKey { approval: ApprovalId::new(2), body: BodyId::new(1) },
        &Held { agents: Vec::new(), ..held },
    )?;
    for id in [1, 2] {
        let body = db.bodies.require(txn, &BodyId::new(1))?;
        let bytes = file_bytes(&body);
        db.held_messages_by_body.put(txn, &Owned { owner: BodyId::new(1), id: ApprovalId::new(id) }, &bytes)?;
        count_held(db, txn, &body, |held| held + bytes)?;
    }
    question(db, txn, option)?;
    let prompt = PromptKey::of(&address(None), OutboundId::new(1));
    db.open_prompts.put(txn, &prompt, &PromptSubject::Approval(ApprovalId::new(1)))?;
    let reply = HostReply { incarnation: 2, number: 19, question: None, answer: Ok(json("true")) };
    db.replies.put(txn, &ReplyKey { session: SESSION, request: Text::new("q0")? }, &reply)?;
    let sticky = Sticky { address: address(Some("7")), since: at(5), until: at(90) };
    let key = AgentThreadKey { agent: AGENT, thread: ThreadKey::of(&sticky.address) };
    db.thread_follows.put(txn, &key, &sticky)?;
    channel(db, txn)
}

/// A channel with a bridge.
fn channel(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    let channel = ChannelInstance {
        name: telegram(),
        kind: ChannelKind::Telegram,
        token: Some("env:TELEGRAM".to_owned()),
        base_url: None,
        secret: None,
        listen: None,
        program: Some(BridgeProgram {
            command: vec!["/opt/bridge".to_owned()],
            settings: vec![BridgeSetting { name: "server".to_owned(), value: "localhost".to_owned() }],
            unconfined: true,
        }),
        link_previews: true,
        unknown_chats: UnknownChats::Ignore,
        tell_strangers: true,
        origin: Origin::File,
        created: at(1),
    };
    db.channels.put(txn, &ForeignKey::of(&telegram()), &channel)?;
    let bridge = BridgeState {
        channel: telegram(),
        program: Some("bridge 1".to_owned()),
        capabilities: Some(ChannelKind::Bridge.capabilities()),
        cursors: vec![Cursor { name: "since".to_owned(), value: "s1".to_owned() }],
    };
    db.bridges.put(txn, &ForeignKey::of(&telegram()), &bridge)
}

fn question(db: &Tables, txn: &mut Write<'_>, option: CardOption) -> Result<()> {
    let question = Question {
        session: SESSION,
        incarnation: 2,
        number: 17,
        request: "q1".to_owned(),
        to: address(None),
        title: "Pizza?".to_owned(),
        body: "For dinner".to_owned(),
        options: vec![option],
        nonce: 78,
        card: None,
        state: QuestionState::Open,
        expires: at(81),
        created: at(5),
    };
    db.questions.put(txn, &QuestionId::new(1), &question)?;
    db.questions_by_agent.put(txn, &Owned { owner: AGENT, id: QuestionId::new(1) }, &())
}

fn put(db: &Tables, txn: &mut Write<'_>, id: u64, approval: &Approval) -> Result<()> {
    let id = ApprovalId::new(id);
    db.approvals.put(txn, &id, approval)
}

/// An agent's request for which the approver still has to give a name, and one that waits for earlier decisions.
fn waiting(db: &Tables, txn: &mut Write<'_>, like: Approval) -> Result<()> {
    let named = ApprovalSubject::CreateAgent { session: SESSION, name: "Bob".to_owned(), instructions: None };
    let naming = ApprovalState::Naming { by: ada(), at: address(None), until: at(70) };
    put(db, txn, 3, &Approval { about: named, state: naming, due: at(70), ..like.clone() })?;
    let budget = costs::budgets().remove(1);
    let request = BudgetRequest { budget, agent: AGENT, money: Money::ZERO, tokens: 250_000, until: at(95) };
    put(db, txn, 5, &Approval { about: ApprovalSubject::Budget(request), ..like.clone() })?;
    let host = |to: &str, local| HostRequest { session: SESSION, agent: AGENT, to: to.parse().unwrap(), local };
    let hosts = HostsRequest { agent: AGENT, hosts: vec![host("e.org:443", false), host("hub.local:8123", true)] };
    put(db, txn, 6, &Approval { about: ApprovalSubject::Host(host("d.org:443", false)), ..like.clone() })?;
    put(db, txn, 8, &Approval { about: ApprovalSubject::Hosts(hosts), ..like.clone() })?;
    let tool = ToolRequest {
        session: SESSION,
        message: Some(MessageId::new(1)),
        tool: "Bash".to_owned(),
        folder: "/workspace/agent".to_owned(),
        fields: vec![
            ToolField { name: "command".to_owned(), value: ToolValue::Text("git push".to_owned()) },
            ToolField { name: "timeout".to_owned(), value: ToolValue::Json("5000".to_owned()) },
        ],
        digest: "00ff".to_owned(),
        pattern: Some("Bash(command:git push)".to_owned()),
        earlier: Some(ToolOutcome::Unknown),
        asker: ToolAsker { incarnation: 2, number: 7, request: "2-7-4".to_owned() },
        used: Some(ToolUsed { incarnation: 2, at: at(8), outcome: None }),
        reason: Some("not today".to_owned()),
    };
    let state = ApprovalState::Approved { by: Decider::Operator, at: at(8) };
    put(db, txn, 7, &Approval { about: ApprovalSubject::Tool(Box::new(tool)), state, ..like.clone() })?;
    for (id, scope) in
        [(1, GrantScope::Agent), (2, GrantScope::Session(SESSION)), (3, GrantScope::Task(TaskId::new(1)))]
    {
        let (pattern, by) = (format!("mcp__x{id}__*"), Decider::Person(ada()));
        let grant = ToolGrant { agent: AGENT, scope, pattern, by, at: at(9) };
        db.tool_grants.put(txn, &ToolGrantId::new(id), &grant)?;
    }
    let packages =
        ApprovalSubject::Packages { session: SESSION, apt: vec!["jq".to_owned()], npm: Vec::new(), reason: None };
    let unsent = ApprovalState::Unsent { failed: 0, why: Some("she has others to decide first".to_owned()) };
    put(db, txn, 4, &Approval { about: packages, state: unsent, due: at(80), ..like })?;
    let digest = Digest { message: OutboundId::new(9), last: OutboundId::new(9), says: 2, at: at(9) };
    db.waitlists.put(txn, &PersonKey::of(&ada()), &Waitlist { user: ada(), waits: 1, digest: Some(digest) })
}

/// A message that was claimed, and a tool call that a person allowed.
pub(super) fn journal(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    let entry =
        JournalEntry { at: at(6), message: Some(MessageId::new(1)), session: Some(SESSION), event: Event::Claimed(1) };
    db.journal.put(txn, &JournalId::new(1), &entry)?;
    let call = ToolCall {
        tool: "Bash".to_owned(),
        digest: "00ff".to_owned(),
        excerpt: "{\"command\":\"git push\"}".to_owned(),
        basis: ToolBasis::Asked { approval: ApprovalId::new(7), by: Some(Decider::Operator) },
        outcome: ToolOutcome::Ran,
        took: Millis::new(1_200),
    };
    let event = Event::ToolCalled(Box::new(call));
    let entry = JournalEntry { at: at(7), message: Some(MessageId::new(1)), session: None, event };
    db.journal.put(txn, &JournalId::new(2), &entry)
}

/// Rules of an agent.
pub(super) fn tools() -> ToolSettings {
    let rules = vec![ToolRule { verdict: ToolVerdict::Deny, pattern: "WebFetch".to_owned() }];
    ToolSettings { preset: ToolPreset::Careful, rules, approval_wait: Some(5) }
}
