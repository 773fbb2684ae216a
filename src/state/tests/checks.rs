//! The checker finds nothing in a consistent store, and finds each inconsistency.

use crate::check::{check, check_in_parts};
use crate::model::approval::ApprovalState;
use crate::model::delivery::OutState;
use crate::model::id::{AgentId, ApprovalId, BodyId, ChatId, DropId, MessageId, OutboundId, SessionId};
use crate::model::incarnation::IncarnationId;
use crate::model::message::{Completion, Due, Hop, MessageState};
use crate::model::session::{ChatSession, Session};
use crate::model::time::Day;
use crate::model::{Awake, Timestamp};
use crate::tests::samples::{self, AGENT, CHAT, SESSION, at, message, workspace_key};
use crate::tests::store;
use crate::{
    HeldKey, InboxKey, Number, PromptKey, Result, ScopeKey, SessionKey, SpendTotalKey, Tables, Text, Timed, WiringKey,
    Write,
};

/// The checker's findings after a change to the sample store.
fn after(change: impl FnOnce(&Tables, &mut Write<'_>) -> Result<()>) -> Vec<String> {
    let (_dir, store) = store();
    let found = store
        .write(|db, txn| {
            samples::fill(db, txn)?;
            change(db, txn)?;
            check(db, txn)
        })
        .unwrap();
    assert_eq!(check_in_parts(store.reader()).unwrap(), found, "one transaction or several");
    // The index of what was said has tests of its own.
    found.iter().filter(|one| !one.table.starts_with("recall_")).map(ToString::to_string).collect()
}

fn change_session(db: &Tables, txn: &mut Write<'_>, change: impl FnOnce(&mut ChatSession)) -> Result<()> {
    let key = SessionKey { workspace: workspace_key(), session: SESSION };
    let Session::Chat(mut session) = db.sessions.require(txn, &key)? else { panic!("a session of an agent") };
    change(&mut session);
    db.sessions.put(txn, &key, &Session::Chat(session))
}

#[test]
fn a_world_that_agrees_with_itself() {
    assert_eq!(after(|_, _| Ok(())), Vec::<String>::new());
}

#[test]
fn an_index_row_is_missing_left_over_or_wrong() {
    assert_eq!(
        after(|db, txn| db.ready_messages.remove(txn, &InboxKey { session: SESSION, seq: 4 }).map(drop)),
        ["ready se1/4: missing for messages ms2"]
    );
    assert_eq!(
        after(|db, txn| db.ready_messages.set(txn, &InboxKey { session: SESSION, seq: 2 }, &MessageId::new(1))),
        ["ready se1/2: left over: no row of messages has it"]
    );
    assert_eq!(
        after(|db, txn| db.agents_by_folder.set(txn, &Text::new("main")?, &AgentId::new(2))),
        [
            "agents_by_folder main: says ag2 where agents ag1 says ag1",
            "agents_by_folder main: left over: no row of agents has it",
        ]
    );
    assert_eq!(
        after(|db, txn| db.messages_in_backoff.set(txn, &Timed { at: Awake::new(9, 9), id: MessageId::new(77) }, &())),
        ["retries run9+9ms/ms77: left over: no row of messages has it"]
    );
    assert_eq!(
        after(|db, txn| db.chats_by_address.remove(txn, &db.chats_by_address.first(txn, ..)?.unwrap().0).map(drop)),
        ["chats_by_address telegram/-100: missing for chats mg1"]
    );
}

#[test]
fn a_message_moves_without_its_index() {
    let moved = after(|db, txn| {
        let (id, message) = message(2, MessageState::Pending(Due::At(at(5))), true);
        db.messages.rows().put(txn, &id, &message)
    });
    assert_eq!(
        moved,
        [
            "later 2026-01-01T00:00:00.005Z/ms2: missing for messages ms2",
            "ready se1/4: left over: no row of messages has it",
        ]
    );
}

#[test]
fn what_waits_for_files_is_waited_for() {
    let body = BodyId::new(2);
    assert_eq!(
        after(|db, txn| db.fetches.delete(txn, &body).map(drop)),
        ["messages ms10: waits for files that are not being fetched"]
    );
    let early = |db: &Tables, txn: &mut Write<'_>| {
        db.messages
            .update(txn, &MessageId::new(10), |message| message.state = MessageState::Pending(Due::Now))
            .map(drop)
    };
    assert_eq!(after(early), ["messages ms10: may go to its agent before its files are there"]);
    let fetch = |db: &Tables, txn: &mut Write<'_>| {
        let row = db.fetches.require(txn, &body)?;
        db.fetches.put(txn, &BodyId::new(1), &row)
    };
    assert_eq!(after(fetch), ["fetches mb1: nothing of the body has to be fetched"]);
}

#[test]
fn files_of_ended_messages_are_those_of_their_message() {
    let at = |seq| InboxKey { session: SESSION, seq };
    let moved = |seq| {
        after(move |db, txn| {
            let row = db.session_files.require(txn, &at(2))?;
            db.session_files.delete(txn, &at(2))?;
            db.session_files.put(txn, &at(seq), &row)
        })
    };
    assert_eq!(moved(99), ["session_files se1/99: no message is there"]);
    assert_eq!(moved(4), ["session_files se1/4: its message has not ended"]);
    let expired = |db: &Tables, txn: &mut Write<'_>| {
        db.session_files.update(txn, &at(2), |row| row.files[0].name = "other.pdf".to_owned()).map(drop)
    };
    assert_eq!(after(expired), ["session_files se1/2: its message does not have these files"]);
    let none =
        |db: &Tables, txn: &mut Write<'_>| db.session_files.update(txn, &at(2), |row| row.files.clear()).map(drop);
    assert_eq!(after(none), ["session_files se1/2: its message does not have these files"]);
}

#[test]
fn the_newest_refusal_for_a_backlog_is_found() {
    let key = crate::AgentChatKey { agent: AGENT, chat: CHAT };
    assert_eq!(
        after(|db, txn| db.dropped_for_backlog.delete(txn, &key).map(drop)),
        ["dropped_for_backlog ag1/mg1: missing for dr2"]
    );
    assert_eq!(
        after(|db, txn| db.dropped_for_backlog.put(txn, &key, &DropId::new(1))),
        ["dropped_for_backlog ag1/mg1: dr1 is not the newest refusal"]
    );
}

#[test]
fn counts_and_counters() {
    assert_eq!(after(|db, txn| db.backlog.put(txn, &AGENT, &3)), ["backlog ag1: says 3, counted 5"]);
    assert_eq!(after(|db, txn| db.backlog.delete(txn, &AGENT).map(drop)), ["backlog ag1: missing, counted 5"]);
    assert_eq!(after(|db, txn| db.backlog.put(txn, &AgentId::new(2), &0)), ["backlog ag2: says 0, counted 0"]);
    assert_eq!(
        after(|db, txn| db.counters.put(txn, &Text::new("ms")?, &Number(8))),
        ["counters ms: is 8, but messages has ms11"]
    );
    let twice = |db: &Tables, txn: &mut Write<'_>| {
        let mut meta = db.meta.require(txn, &())?;
        meta.epochs.extend(meta.epochs.clone());
        db.meta.put(txn, &(), &meta)
    };
    let [found] = &after(twice)[..] else { panic!("two epochs begin with the same number") };
    assert!(found.starts_with("meta (): the epochs of outgoing ids do not follow each other"), "{found}");
}

#[test]
fn incarnations() {
    assert_eq!(
        after(|db, txn| change_session(db, txn, |session| session.live = Some(1))),
        [format!("sessions {}/0/se1: says live Some(1), the index says Some(2)", workspace_key().fingerprint)]
    );
    assert_eq!(
        after(|db, txn| change_session(db, txn, |session| session.last_incarnation = 1)),
        ["incarnations se1/2: the session has not allocated it"]
    );
    let two_live = after(|db, txn| {
        let live = db.incarnations.require(txn, &IncarnationId::new(SESSION, 2))?;
        db.incarnations.rows().put(txn, &IncarnationId::new(SESSION, 1), &live)
    });
    assert_eq!(two_live, ["live se1: says 2 where incarnations se1/1 says 1"]);
}

#[test]
fn claims_are_of_the_live_incarnation() {
    let found = after(|db, txn| {
        let (id, message) = message(6, MessageState::Claimed { incarnation: 1, since: Awake::new(1, 1) }, true);
        db.messages.put(txn, &id, &message)
    });
    assert_eq!(found, ["messages ms6: claimed by incarnation 1, which is not live"]);
}

#[test]
fn references_that_lead_nowhere() {
    assert_eq!(
        after(|db, txn| db.wirings.rows().put(
            txn,
            &WiringKey { chat: ChatId::new(5), agent: AGENT },
            &db.wirings.require(txn, &WiringKey { chat: CHAT, agent: AGENT })?
        )),
        [
            "wirings_by_agent ag1/mg5: missing for wirings mg5/ag1",
            "wirings mg5/ag1: refers to chats mg5, which is not there",
        ]
    );
    let bodies = after(|db, txn| db.bodies.delete(txn, &BodyId::new(1)).map(drop));
    let needed = 2 + 6 + 1 + 1;
    assert_eq!(
        bodies.len(),
        needed,
        "only what waits, open messages, readable files and transcripts need bodies: {bodies:?}"
    );
    assert_eq!(
        after(|db, txn| {
            let (key, mut seen) = db.seen_events.first(txn, ..)?.unwrap();
            seen.messages.push(MessageId::new(50));
            db.seen_events.put(txn, &key, &seen)
        }),
        ["seen telegram/-100/9001: refers to messages ms50, which is not there"]
    );
    let stranger = after(|db, txn| {
        let (id, mut lost) = message(9, MessageState::Failed { error: String::new(), at: at(1) }, true);
        lost.session = SessionId::new(40);
        db.messages.put(txn, &id, &lost)
    });
    assert_eq!(stranger, ["messages ms9: refers to sessions_by_id se40, which is not there"]);
}

#[test]
fn lanes_have_one_head_each() {
    assert_eq!(
        after(|db, txn| db
            .queue_heads
            .remove(txn, &Timed { at: Awake::new(1, 900), id: OutboundId::new(4) })
            .map(drop)),
        [
            "lane_heads run1+900ms/mo4: missing for outbound mo4",
            "outbound mo4: first of its queue, and nothing of the queue is in lane_heads",
        ]
    );
    assert_eq!(
        after(|db, txn| {
            db.queue_heads.set(txn, &Timed { at: Awake::new(2, 0), id: OutboundId::new(3) }, &())?;
            db.queue_heads.set(txn, &Timed { at: Awake::new(2, 0), id: OutboundId::new(4) }, &())
        }),
        [
            "lane_heads run2+0ms/mo3: left over: no row of outbound has it",
            "lane_heads run2+0ms/mo4: left over: no row of outbound has it",
            "lane_heads run2+0ms/mo4: the message has a second entry",
            "lanes telegram/-100/-/now/mo3: the queue has a second head",
        ]
    );
    assert_eq!(
        after(|db, txn| db.queue_heads.set(txn, &Timed { at: Awake::new(2, 0), id: OutboundId::new(5) }, &())),
        [
            "lane_heads run2+0ms/mo5: left over: no row of outbound has it",
            "outbound mo5: in lane_heads, but in no queue",
        ]
    );
}

#[test]
fn damage_is_one_finding_and_the_rest_is_still_checked() {
    let found = after(|db, txn| {
        db.bodies.put_bytes(txn, &BodyId::new(1), &[1, 0, 1, 9, 9, 9, 9, 5])?;
        db.scheduled_messages.remove(txn, &Timed { at: at(90), id: MessageId::new(3) })?;
        db.tasks_due.set(txn, &Timed { at: Timestamp::from_millis(-5), id: crate::model::id::TaskId::new(1) }, &())
    });
    assert_eq!(
        found,
        [
            "bodies mb1: unreadable: the checksum is wrong",
            &format!("blobs {}/mb1: left over: no row of bodies has it", "0f".repeat(32)),
            "later 2026-01-01T00:00:00.090Z/ms3: missing for messages ms3",
            "tasks_due 1969-12-31T23:59:59.995Z/ta1: left over: no row of tasks has it",
        ]
    );
}

#[test]
fn an_empty_store_is_fine() {
    let (_dir, store) = store();
    assert_eq!(store.read(check).unwrap(), []);
}

#[test]
fn approvals_with_what_waits_for_them_and_their_cards() {
    let (one, two) = (ApprovalId::new(1), ApprovalId::new(2));
    let decide = |db: &Tables, txn: &mut Write<'_>| {
        let mut approval = db.approvals.require(txn, &one)?;
        approval.state = ApprovalState::Expired { at: at(81) };
        db.approvals.rows().put(txn, &one, &approval)
    };
    assert_eq!(
        after(decide),
        [
            "approvals_due 2026-01-01T00:00:00.080Z/ap1: left over: no row of approvals has it",
            "approvals_open ap1: left over: no row of approvals has it",
            "approvals_by_sender mg1/telegram/42: left over: no row of approvals has it",
            "approvals_by_person telegram/42/ap1: left over: no row of approvals has it",
            "approvals_by_decider telegram/42/now/ap1: left over: no row of approvals has it",
            "held ap1/mb1: waits for a decision that was made",
            "asked telegram/-100/mo1: asks about ap1, whose card is another one",
        ]
    );
    assert_eq!(
        after(|db, txn| db.held_messages.delete(txn, &HeldKey { approval: two, body: BodyId::new(1) }).map(drop)),
        ["held_by_body mb1/ap2: left over: no row of held has it", "approvals ap2: is open, and nothing waits for it",]
    );
    assert_eq!(
        after(|db, txn| db.approvals_by_chat.remove(txn, &CHAT).map(drop)),
        ["approvals_by_chat mg1: missing for approvals ap2"]
    );
    let elsewhere = |db: &Tables, txn: &mut Write<'_>| {
        let (PromptKey { chat, .. }, matter) = db.open_prompts.first(txn, ..)?.unwrap();
        db.open_prompts.delete(txn, &PromptKey { chat: chat.clone(), outbound: OutboundId::new(1) })?;
        db.open_prompts.put(txn, &PromptKey { chat, outbound: OutboundId::new(3) }, &matter)
    };
    assert_eq!(
        after(elsewhere),
        [
            "asked telegram/-100/mo3: asks about ap1, whose card is another one",
            "approvals ap1: its card mo1 cannot be answered",
        ]
    );
    let lost = |db: &Tables, txn: &mut Write<'_>| db.bodies.delete(txn, &BodyId::new(1)).map(drop);
    assert!(after(lost).contains(&"held ap1/mb1: refers to bodies mb1, which is not there".to_owned()));
}

#[test]
fn questions_answers_and_messages_between_agents() {
    let gone = SessionId::new(9);
    let elsewhere = |db: &Tables, txn: &mut Write<'_>| {
        let (id, mut question) = db.questions.first(txn, ..)?.unwrap();
        (question.session, question.card) = (gone, Some(OutboundId::new(99)));
        db.questions.put(txn, &id, &question)
    };
    assert_eq!(
        after(elsewhere),
        [
            "questions qu1: refers to sessions_by_id se9, which is not there",
            "questions_by_agent ag1/qu1: left over: no row of questions has it",
            "questions qu1: refers to outbound mo99, which is not there",
        ]
    );
    let late = |db: &Tables, txn: &mut Write<'_>| {
        let (key, mut reply) = db.replies.first(txn, ..)?.unwrap();
        reply.incarnation = 1;
        db.replies.put(txn, &key, &reply)
    };
    assert_eq!(after(late), ["replies se1/q0: for incarnation 1, which is not live"]);
    let hop = |session, count| {
        move |db: &Tables, txn: &mut Write<'_>| {
            let mut message = db.messages.require(txn, &MessageId::new(8))?;
            message.from = Some(Hop { session, count });
            db.messages.put(txn, &MessageId::new(8), &message)
        }
    };
    assert_eq!(after(hop(gone, 1)), ["messages ms8: refers to sessions_by_id se9, which is not there"]);
    assert_eq!(
        after(hop(SESSION, 0)),
        ["messages ms8: comes from an agent, but its count of messages between agents is 0"]
    );
    let carried = |db: &Tables, txn: &mut Write<'_>| {
        let mut row = db.outbound.require(txn, &OutboundId::new(10))?;
        row.state = OutState::Carried { at: at(8), message: Some(MessageId::new(99)) };
        row.to = Some(samples::address(None));
        db.outbound.put(txn, &OutboundId::new(10), &row)
    };
    assert_eq!(
        after(carried),
        [
            "outbound mo10: was passed to another agent, but has an address on a channel",
            "outbound mo10: refers to messages ms99, which is not there"
        ]
    );
}

#[test]
fn stickiness_and_its_times_agree() {
    let missing = after(|db, txn| {
        db.thread_follows_by_expiry.remove(txn, &db.thread_follows_by_expiry.first(txn, ..)?.unwrap().0).map(drop)
    });
    assert!(matches!(&missing[..], [one] if one.contains("missing for sticky ag1/telegram")), "{missing:?}");
    let left =
        after(|db, txn| db.thread_follows.rows().delete(txn, &db.thread_follows.first(txn, ..)?.unwrap().0).map(drop));
    assert!(matches!(&left[..], [one] if one.contains("left over: no row of sticky has it")), "{left:?}");
    let foreign = after(|db, txn| {
        let (key, mut sticky) = db.thread_follows.first(txn, ..)?.unwrap();
        sticky.address.thread = None;
        db.thread_follows.put(txn, &key, &sticky)
    });
    assert!(matches!(&foreign[..], [one] if one.contains("the key is another thread's")), "{foreign:?}");
}

#[test]
fn a_total_of_costs_is_wrong_or_missing() {
    let key = SpendTotalKey { scope: ScopeKey::Agent(AGENT), day: Day::new(20_563) };
    let found = after(|db, txn| db.spend_totals.update(txn, &key, |total| total.kept.turns = 2).map(drop));
    let [found] = found.as_slice() else { panic!("{found:?}") };
    assert!(found.starts_with("spend_totals agent/ag1/2026-04-20: says Amounts { turns: 2"), "{found}");
    assert_eq!(
        after(|db, txn| db.spend_totals.delete(txn, &key).map(drop)),
        ["spend_totals agent/ag1/2026-04-20: the total of a day with entries is missing"]
    );
}

#[test]
fn something_is_set_aside_for_a_message_that_is_not_under_way() {
    let key = InboxKey { session: SESSION, seq: 12 };
    let ended = after(|db, txn| {
        let done = MessageState::Completed { how: Completion::Answered, at: at(9) };
        db.messages.update(txn, &MessageId::new(6), |message| message.state = done)?;
        db.backlog.put(txn, &AGENT, &4)
    });
    assert_eq!(ended, ["reservations se1/12: ms6 is not under way"]);
    let foreign = after(|db, txn| {
        let mut row = db.reservations.require(txn, &key)?;
        row.message = MessageId::new(2);
        db.reservations.put(txn, &key, &row)
    });
    assert_eq!(foreign, ["reservations se1/12: ms2 is not there"]);
}
