//! Sample approvals, questions and followed threads.

use super::{AGENT, CHAT, SESSION, ada, address, at, costs, json, telegram};
use crate::held_bytes::{count_held, file_bytes};
use crate::model::approval::{
    Approval, ApprovalState, ApprovalSubject, Digest, Held, HostReply, Question, QuestionState, Waitlist,
};
use crate::model::budget::BudgetRequest;
use crate::model::card::{CardOption, PromptSubject};
use crate::model::channel::{ChannelInstance, ChannelKind, UnknownChats};
use crate::model::entity::Origin;
use crate::model::host_grant::HostRequest;
use crate::model::id::{ApprovalId, BodyId, OutboundId, QuestionId};
use crate::model::spend::Money;
use crate::model::thread::Sticky;
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
    let channel = ChannelInstance {
        name: telegram(),
        kind: ChannelKind::Telegram,
        token: Some("env:TELEGRAM".to_owned()),
        base_url: None,
        secret: None,
        listen: None,
        link_previews: true,
        unknown_chats: UnknownChats::Ignore,
        tell_strangers: true,
        origin: Origin::File,
        created: at(1),
    };
    db.channels.put(txn, &ForeignKey::of(&telegram()), &channel)
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
    let to = "d.org:443".parse().unwrap();
    let host = HostRequest { session: SESSION, agent: AGENT, to, local: false };
    put(db, txn, 6, &Approval { about: ApprovalSubject::Host(host), ..like.clone() })?;
    let packages =
        ApprovalSubject::Packages { session: SESSION, apt: vec!["jq".to_owned()], npm: Vec::new(), reason: None };
    let unsent = ApprovalState::Unsent { failed: 0, why: Some("she has others to decide first".to_owned()) };
    put(db, txn, 4, &Approval { about: packages, state: unsent, due: at(80), ..like })?;
    let digest = Digest { message: OutboundId::new(9), last: OutboundId::new(9), says: 2, at: at(9) };
    db.waitlists.put(txn, &PersonKey::of(&ada()), &Waitlist { user: ada(), waits: 1, digest: Some(digest) })
}
