//! Tells people about budgets: that their messages wait or pass, that most or all of a budget is spent, and asks for more.

use crate::Result;
use crate::delivery::notice;
use crate::lifecycle::halt;
use crate::model::address::{Address, UserId};
use crate::model::budget::{BudgetRequest, PassReason, Reservation};
use crate::model::id::MessageId;
use crate::model::journal::Event;
use crate::model::message::{Due, Message, MessageState};
use crate::model::spend::Money;
use crate::rows::budgets::BudgetAccount;
use crate::rows::{budgets, journal, messages, settings, spend};
use crate::state::Text;
use crate::time::local;
use crate::tx::{Hook, Tx};

/// Waiting messages of a session that are searched for one of the same sender.
const COMPARED_MAX: usize = 20;

/// That a message passes although a budget has no room for it.
pub(super) struct Passed {
    pub(super) over: BudgetAccount,
    pub(super) why: PassReason,
    /// Where its sender is.
    pub(super) reply: Option<Address>,
}

/// Lets a message wait for a budget, asks a person if `ask` says so, and tells the sender.
pub(super) fn wait(
    tx: &mut Tx<'_, '_>,
    id: MessageId,
    message: &Message,
    over: &BudgetAccount,
    ask: bool,
) -> Result<()> {
    let is_told = message.told_to_wait || is_sender_told(tx, message)?;
    messages::update(tx, id, |message| {
        message.state = MessageState::Pending(Due::Budget(over.until));
        message.told_to_wait = true;
    })?;
    let budget = over.budget.name();
    if !message.told_to_wait {
        journal::of_message(tx, id, Event::OverBudget { budget: budget.clone(), until: over.until })?;
    }
    let end = end_in_words(tx, over)?;
    let asked = if ask { ask_for_more(tx, message, over)? } else { None };
    if asked.is_none() {
        tell_of_spent(tx, over, &format!("Messages wait until {end}."))?;
    }
    let Some(to) = message.reply.clone().filter(|_| !is_told) else { return Ok(()) };
    let next = match &asked {
        Some(person) => format!("{person} was asked whether it may go on. Otherwise it goes on at {end}."),
        None => format!("It goes on at {end}."),
    };
    let what = if notice::shows_details(tx, &to)? {
        format!("the budget {budget} is spent ({})", over.used())
    } else {
        "what may be spent on models is used up".to_owned()
    };
    notice::say_to(tx, to, Some(id), format!("Your message waits: {what}. {next}")).map(drop)
}

/// Whether an earlier message of the same sender waits in the same place.
fn is_sender_told(tx: &Tx<'_, '_>, message: &Message) -> Result<bool> {
    let sender = |message: &Message| -> Result<Option<UserId>> {
        Ok(tx.db.bodies.get(tx, &message.body)?.and_then(|body| body.sender))
    };
    let own = sender(message)?;
    for (_, id) in tx.db.budget_waits.collect_prefix(tx, &message.session, COMPARED_MAX)? {
        let other = tx.db.messages.require(tx, &id)?;
        if other.told_to_wait && other.reply == message.reply && sender(&other)? == own {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Asks a person for more, unless one was asked already. Returns the name of who was asked.
fn ask_for_more(tx: &mut Tx<'_, '_>, message: &Message, over: &BudgetAccount) -> Result<Option<String>> {
    let name = Text::new(over.budget.name())?;
    if tx.db.approvals_by_budget.get(tx, &name)?.is_none() {
        let part = |limit: u64| (limit / 4).max(1);
        let request = BudgetRequest {
            budget: over.budget.clone(),
            agent: message.agent,
            money: over.budget.money.map_or(Money::ZERO, |money| Money::micros(part(money.as_micros()).max(100_000))),
            tokens: over.budget.tokens.map_or(0, |tokens| part(tokens).max(10_000)),
            until: over.until,
        };
        tx.call(Hook::BudgetSpent(request))?;
    }
    let Some(id) = tx.db.approvals_by_budget.get(tx, &name)? else { return Ok(None) };
    let approver = tx.db.approvals.require(tx, &id)?.approver;
    approver.map(|approver| halt::name(tx, Some(&approver))).transpose()
}

/// When the period of a budget ends, for people.
fn end_in_words(tx: &Tx<'_, '_>, over: &BudgetAccount) -> Result<String> {
    let zone = settings::zone_of(tx, &*budgets::settings(tx)?);
    Ok(local::clock(over.until, tx.now.wall, &zone))
}

/// Tells the owner that a budget is spent, once in each period.
fn tell_of_spent(tx: &mut Tx<'_, '_>, over: &BudgetAccount, what: &str) -> Result<()> {
    if !budgets::begin_telling_spent(tx, over)? {
        return Ok(());
    }
    let text = format!("The budget {} is spent: {}.{} {what}", over.budget.name(), over.used(), unpriced(over));
    notice::tell_owner(tx, &text).map(drop)
}

/// What a budget counts for models without a price, as a sentence.
fn unpriced(account: &BudgetAccount) -> String {
    match account.spent.unpriced {
        Money::ZERO => String::new(),
        part => format!(" {part} of it is for models without a price, at the highest price of the list."),
    }
}

/// Records that a message passes although a budget has no room for it.
pub(super) fn passed(tx: &mut Tx<'_, '_>, reservation: &Reservation, passed: &Passed) -> Result<()> {
    let Passed { over, why, reply } = passed;
    let budget = over.budget.name();
    let known = journal::last_of_message(tx, reservation.message)?;
    if known.iter().any(|event| matches!(event, Event::PassedBudget { .. })) {
        return Ok(());
    }
    journal::of_message(tx, reservation.message, Event::PassedBudget { budget: budget.clone(), why: *why })?;
    match why {
        PassReason::Warn => tell_of_spent(tx, over, "Messages pass, because the agent has `on_limit = \"warn\"`."),
        PassReason::Owner => {
            let Some(to) = reply.clone() else { return Ok(()) };
            if !budgets::begin_telling_spent(tx, over)? {
                return Ok(());
            }
            let text = format!(
                "The budget {budget} is spent: {}.{} Your messages pass, because you are an owner.",
                over.used(),
                unpriced(over)
            );
            notice::say_to(tx, to, Some(reservation.message), text).map(drop)
        }
        PassReason::Grace => {
            let settings = budgets::settings(tx)?;
            let today = settings::today(tx, &settings);
            if let Some(person) = &reservation.party.person {
                budgets::use_grace(tx, person, today.day)?;
            }
            tell_of_spent(tx, over, "The first messages of each person and day still pass.")
        }
    }
}

/// Tells the owner, once in each period, when most of a budget is spent.
pub(crate) fn watch(tx: &mut Tx<'_, '_>, message: &Message) -> Result<()> {
    let settings = budgets::settings(tx)?;
    if settings.budgets.is_empty() {
        return Ok(());
    }
    let party = spend::party(tx, message)?;
    for account in budgets::of_party(tx, &settings, message.session, &party)? {
        if account.state.told_most || !account.is_mostly_spent() {
            continue;
        }
        budgets::change_state(tx, &account, |state| state.told_most = true)?;
        let (name, per, used) = (account.budget.scope.to_string(), account.budget.per.as_str(), account.used());
        let text = format!(
            "More than 80 % of the budget {name} of this {per} is spent: {used}.{} It begins anew at {}.",
            unpriced(&account),
            end_in_words(tx, &account)?
        );
        notice::tell_owner(tx, &text)?;
    }
    Ok(())
}
