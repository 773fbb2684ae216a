//! What somebody has to decide or answer, and where agents go on listening.

use super::{AGENT, CHAT, SESSION, ada, address, at, foreign, json, telegram};
use crate::model::approval::{Approval, ApprovalState, Held, HostReply, Matters, Question, QuestionState};
use crate::model::card::{CardOption, Matter};
use crate::model::channel::{ChannelInstance, ChannelKind};
use crate::model::entity::Origin;
use crate::model::id::{ApprovalId, BodyId, OutboundId, QuestionId};
use crate::model::thread::Sticky;
use crate::state::{ForeignKey, Result, Tables, Text, Write};

/// Fills the tables.
pub(super) fn fill(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    let option = CardOption { label: "Allow".to_owned(), chosen: "Allowed".to_owned(), value: "approve".to_owned() };
    let (channel, handle) = ForeignKey::user(&ada());
    let approval = Approval {
        about: Matters::Sender { chat: CHAT, sender: ada(), name: Some("Ada".to_owned()), agents: vec![AGENT] },
        state: ApprovalState::Pending,
        approver: Some(ada()),
        nonce: 77,
        options: vec![option.clone()],
        card: Some(OutboundId::new(1)),
        due: at(80),
        expires: at(80),
        created: at(5),
    };
    db.approvals.put(txn, &ApprovalId::new(1), &approval)?;
    db.approvals_due.put(txn, &(at(80), ApprovalId::new(1)), &())?;
    db.approvals_by_sender.put(txn, &(CHAT, channel.clone(), handle.clone()), &ApprovalId::new(1))?;
    let chat = Matters::Channel { chat: CHAT, sender: None, name: None };
    let chat = Approval { about: chat, due: at(79), card: None, ..approval };
    db.approvals.put(txn, &ApprovalId::new(2), &chat)?;
    db.approvals_due.put(txn, &(at(79), ApprovalId::new(2)), &())?;
    db.approvals_by_chat.put(txn, &CHAT, &ApprovalId::new(2))?;
    let held = Held {
        agents: vec![AGENT],
        heard: false,
        mention: true,
        group: true,
        threads: None,
        reply_to: None,
        stored: at(5),
    };
    db.held.put(txn, &(ApprovalId::new(1), BodyId::new(1)), &held)?;
    db.held.put(txn, &(ApprovalId::new(2), BodyId::new(1)), &Held { agents: Vec::new(), ..held })?;
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
    db.questions_due.put(txn, &(at(81), QuestionId::new(1)), &())?;
    let (channel, chat) = ForeignKey::chat(&telegram(), &foreign("-100"));
    db.asked.put(txn, &(channel, chat, OutboundId::new(1)), &Matter::Approval(ApprovalId::new(1)))?;
    let reply = HostReply { incarnation: 2, number: 19, question: None, answer: Ok(json("true")) };
    db.replies.put(txn, &(SESSION, Text::new("q0")?), &reply)?;
    let sticky = Sticky { address: address(Some("7")), since: at(5), until: at(90) };
    let (channel, chat, thread) = ForeignKey::place(&sticky.address);
    let key = (AGENT, channel, chat, thread);
    db.sticky_by_time.put(txn, &(sticky.until, key.clone()), &())?;
    db.sticky.put(txn, &key, &sticky)?;
    let channel = ChannelInstance {
        name: telegram(),
        kind: ChannelKind::Telegram,
        token: Some("env:TELEGRAM".to_owned()),
        base_url: None,
        secret: None,
        listen: None,
        origin: Origin::File,
        created: at(1),
    };
    db.channels.put(txn, &ForeignKey::of(&telegram()), &channel)
}
