//! The engine: applies each input as one transaction.
//!
//! [`apply()`] is the system. Every input is one transaction over the store that returns a decision and the effects
//! that follow. Nothing in this folder does I/O, reads a clock or creates random numbers: `now` and entropy come in
//! [`Tx`]. In every file the transaction comes first, then the pure decision it makes, then the tests.
//!
//! The folders are layers: each imports only those above it in this list, and a test enforces that. When something ends
//! that a higher layer has to react to, the lower layer calls [`hooks`].
//!
//! | layer | what it does |
//! |---|---|
//! | `rules` | pure decisions, without a transaction |
//! | `tx` | the transaction of one input: what it is given, its effects, its hooks |
//! | `rows` | reads and writes single records, one file per record |
//! | `recall` | searches over everything that was said, and who finds what |
//! | `workspaces` | sessions of directories, apart from chats |
//! | `delivery` | outgoing queues, attempts, results, notices, prompts |
//! | `lifecycle` | runs of agents: dispatch, budgets, capacity, start, stop, retry, rate limit |
//! | `state_file` | `session-state.json` of agent groups |
//! | `schedule` | tasks and their runs |
//! | `entities` | creates, changes and removes agents, chats, wirings, people, channels, destinations |
//! | `approvals` | what is asked, of whom, and the card |
//! | `skips` | skip summaries |
//! | `requests` | requests of agents: questions, packages, tasks, other agents |
//! | `routing` | offers a message to agents; held messages |
//! | `decisions` | button presses, operator commands, expiry |
//! | `inbound` | an event of a channel: duplicate, answer, routing |
//! | `turns` | what agents wrote: claims, ends, answers |
//! | `configure` | operator commands and configuration files |
//! | `housekeeping` | start, sweep, retention, clock changes, removals in slices |

use hearth_base::{model, search, time};
use hearth_state as state;

use crate::model::approval::ApprovalSubject;
use crate::model::card::PromptSubject;
use crate::model::input::Input;
use crate::model::report::Reply;

pub mod commit;
pub mod recall;
pub mod workspaces;

mod approvals;
mod configure;
mod decisions;
mod delivery;
mod entities;
mod housekeeping;
mod inbound;
mod indexing;
mod lifecycle;
mod requests;
mod routing;
mod rows;
mod rules;
#[cfg(test)]
mod scene;
mod schedule;
mod skips;
mod state_file;
mod turns;
mod tx;

pub use approvals::texts::text as approval_text;
pub use housekeeping::retention;
pub use lifecycle::network::network_policy;
pub use lifecycle::peek::peek;
pub use lifecycle::unattended::waits_for_person;
pub use routing::threads::muted_places;
pub use rows::budgets::{BudgetAccount, budgets};
pub use rules::pattern;
pub use tx::{Applied, Cx, Hook, Tx, counted, entropy};

/// Treats an optional row that cannot be read as absent. The checker reports it.
fn readable<T>(row: Result<Option<T>>) -> Result<Option<T>> {
    match row {
        Err(error) if error.is_damage() => Ok(None),
        row => row,
    }
}

/// Result of all store access. An error is a fault of the store or the machine, never a refusal.
pub type Result<T> = std::result::Result<T, state::Error>;

/// Dispatches the end of something in a lower layer to the layer that reacts to it, at once and in the same
/// transaction. The reaction may change the reported rows.
///
/// # Errors
/// Faults of the store.
pub fn hooks(tx: &mut Tx<'_, '_>, hook: Hook<'_>) -> Result<()> {
    match hook {
        Hook::TaskRunEnded { slot, message, state } => schedule::run_ended::over(tx, slot, message, state),
        Hook::PromptEnded { subject: PromptSubject::Approval(id), prompt, outcome } => {
            approvals::send::card_settled(tx, id, prompt, outcome)
        }
        Hook::PromptEnded { subject: PromptSubject::Question(id), prompt, outcome } => {
            requests::questions::card_settled(tx, id, prompt, outcome)
        }
        // A skip's message reports its end through `OutboundEnded`, no matter whether it is a card or a notice.
        Hook::PromptEnded { subject: PromptSubject::Skip(_), .. } => Ok(()),
        // Without anyone to ask, the messages wait for the next period.
        Hook::BudgetSpent(request) => approvals::ask::ask(tx, ApprovalSubject::Budget(request)).map(drop),
        Hook::MessageEnded { session, message } => decisions::tools::message_ended(tx, session, message),
        Hook::RunAdopted(run) => requests::tool_calls::adopted(tx, run),
        Hook::RunClosed(run) => decisions::tools::run_closed(tx, run),
        Hook::OutboundEnded { id, outbound } => {
            skips::told::settled(tx, id, outbound)?;
            delivery::speech::answer_ended(tx, id, outbound)
        }
    }
}

/// Applies one input.
///
/// # Errors
/// Faults of the store. The transaction must not be committed then.
pub fn apply(tx: &mut Tx<'_, '_>, input: &Input) -> Result<Reply> {
    match input {
        Input::Start => housekeeping::start::start(tx),
        Input::Inbound(event) => match rows::channels::store_cursors(tx, &event.source.channel, &event.cursors)? {
            Reply::Done => inbound::route(tx, event),
            refused => Ok(refused),
        },
        Input::PairingCode(event, used) => {
            match rows::channels::store_cursors(tx, &event.source.channel, &event.cursors)? {
                Reply::Done => inbound::pairing::code(tx, event, *used),
                refused => Ok(refused),
            }
        }
        Input::ChannelState(channel, down) => {
            delivery::notice::channel_state(tx, channel, down.as_deref()).map(|()| Reply::Done)
        }
        Input::LoginCode(event, used) => {
            match rows::channels::store_cursors(tx, &event.source.channel, &event.cursors)? {
                Reply::Done => inbound::login::code(tx, event, used),
                refused => Ok(refused),
            }
        }
        Input::BridgeReady(channel, program, capabilities) => {
            rows::channels::bridge_ready(tx, channel, program, *capabilities)
        }
        Input::BridgeCursors(channel, cursors) => rows::channels::store_cursors(tx, channel, cursors),
        Input::Collected(collection) => turns::ingest(tx, collection.clone()),
        Input::HostWanted(wanted) => requests::hosts::wanted(tx, wanted),
        Input::Connections(seen) => turns::connections::seen(tx, seen),
        Input::ModelCall(call) => turns::calls::ended(tx, call),
        Input::Runtime(event) => lifecycle::runtime_event(tx, event.clone()),
        Input::Built(agent, packages, built) => requests::built::built(tx, *agent, packages, built),
        Input::Delivered(id, attempt, result) => delivery::result::delivered(tx, *id, *attempt, result.clone()),
        Input::Fetched(body, files) => lifecycle::fetch::fetched(tx, *body, files),
        Input::Transcribed(body, results) => lifecycle::fetch::transcribed(tx, *body, results),
        Input::Spoken(spoken) => delivery::speech::spoken(tx, spoken),
        Input::Reachable(channel, address) => housekeeping::reachable::reachable(tx, channel, address.as_ref()),
        Input::Pressed(press) => decisions::press::pressed(tx, press),
        Input::Decide(matter, value) => decisions::decide::decide(tx, *matter, value),
        Input::DecideAs(session, matter, value) => decisions::decide::decide_as(tx, *session, *matter, value),
        Input::CommandAs(session, command) => configure::by_person::command(tx, *session, command),
        Input::Console(input) => entities::console::session(tx, input),
        Input::DirectOpened(user, chat) => approvals::direct::opened(tx, user, chat.clone()),
        Input::Sweep(observations) => housekeeping::sweep::sweep(tx, observations),
        Input::Clock(change) => housekeeping::clock::changed(tx, change),
        Input::Task(command) => configure::task(tx, command.clone()),
        Input::Workspace(input) => workspaces::workspace(tx, input),
        Input::Configure(configure) => configure::configure(tx, configure.clone()),
        Input::Group(agent, happened) => housekeeping::group_files::apply(tx, *agent, happened),
        Input::Continue(rest) => housekeeping::removal::go_on(tx, *rest),
    }
}
