//! Lets another provider of an agent answer while one takes no work, and the first one again when it does.
//!
//! Each provider of an agent has a pause of its own. The next turn of a session goes to the first provider of the agent's
//! list that takes work, in a run of its own. A run that another provider drives ends when it is idle.

use crate::Result;
use crate::lifecycle;
use crate::lifecycle::mailbox_view::SessionRef;
use crate::lifecycle::rate_limit::{self, AgentProvider, ProviderRefusal};
use crate::lifecycle::recap;
use crate::model::budget::Fallback;
use crate::model::id::{AgentId, MessageId, SessionId};
use crate::model::incarnation::{IncarnationId, StopReason};
use crate::model::journal::Event;
use crate::model::rate_limit::RateLimit;
use crate::model::session_providers::{SessionProviders, StandIn};
use crate::rows::{agents, budgets, journal, session_providers, sessions};
use crate::rules::fallback::{Choice, Health, decide_provider};
use crate::rules::prices;
use crate::tx::Tx;

/// Where the next turn of a session goes.
pub(crate) enum Next {
    /// To one of its agent's providers.
    Provider(ChosenProvider),
    /// To none before the end of this pause.
    Wait(RateLimit),
}

/// The provider of a next turn.
pub(crate) struct ChosenProvider {
    /// Its place in the agent's list.
    pub(crate) place: AgentProvider,
    /// The fallback; none is the agent's own provider.
    pub(crate) fallback: Option<Fallback>,
    /// Why the provider before it takes no work; empty for the agent's own.
    why: String,
}

/// Decides which provider gets the next turn of a session, as far as pauses decide it.
pub(crate) fn next(tx: &Tx<'_, '_>, of: SessionRef<'_>) -> Result<Next> {
    let (agent, fallbacks) = (of.session.agent, &of.agent.settings.fallback);
    let (mut health, mut limits) = (Vec::new(), Vec::new());
    for (place, fallback) in std::iter::once(None).chain(fallbacks.iter().map(Some)).enumerate() {
        let provider = AgentProvider::new(agent, place);
        let limit = rate_limit::of(tx, provider)?;
        health.push(match &limit {
            None => Health::Well,
            Some(limit) if limit.until > tx.now.awake => Health::Paused(limit.until),
            Some(_) => Health::OnTrial { taken: is_taken(tx, of, fallback)? },
        });
        limits.push(limit);
        if health.last() == Some(&Health::Well) {
            break;
        }
    }
    match decide_provider(&health) {
        Some(Choice::Wait(place)) => {
            let limit = limits.into_iter().nth(place).flatten();
            Ok(limit.map_or_else(|| Next::Provider(ChosenProvider::own(agent)), Next::Wait))
        }
        Some(Choice::Use(place)) if place > 0 => {
            let why = limits.into_iter().take(place).flatten().next().map_or_else(String::new, |limit| limit.why);
            let fallback = fallbacks.get(place - 1).cloned();
            Ok(Next::Provider(ChosenProvider { place: AgentProvider::new(agent, place), fallback, why }))
        }
        Some(Choice::Use(_)) | None => Ok(Next::Provider(ChosenProvider::own(agent))),
    }
}

/// The first provider of the list that costs nothing and is not paused, for a turn that a budget has no room for.
pub(crate) fn free(tx: &Tx<'_, '_>, of: SessionRef<'_>, budget: &str) -> Result<Option<ChosenProvider>> {
    for (number, fallback) in of.agent.settings.fallback.iter().enumerate() {
        let place = AgentProvider::new(of.session.agent, number + 1);
        if is_free(tx, of, Some(fallback))? && rate_limit::current(tx, place)?.is_none() {
            let why = format!("the budget {budget} has no room for a turn");
            return Ok(Some(ChosenProvider { place, fallback: Some(fallback.clone()), why }));
        }
    }
    Ok(None)
}

/// Whether the provider that drives a session costs nothing.
pub(crate) fn drives_for_free(tx: &Tx<'_, '_>, of: SessionRef<'_>) -> Result<bool> {
    is_free(tx, of, session_providers::of(tx.db, tx, of.id)?.fallback())
}

/// Whether a provider that takes work costs nothing.
pub(crate) fn has_free(tx: &Tx<'_, '_>, of: SessionRef<'_>) -> Result<bool> {
    Ok(is_free(tx, of, None)? || free(tx, of, "")?.is_some())
}

fn is_free(tx: &Tx<'_, '_>, of: SessionRef<'_>, fallback: Option<&Fallback>) -> Result<bool> {
    let settings = agents::settings_with(tx.db, tx, of.id, of.session, of.agent, fallback)?;
    let price = budgets::settings(tx)?.price_of(settings.model.as_deref());
    Ok(prices::is_free(settings.model.as_deref(), price, settings.has_near_server()))
}

impl ChosenProvider {
    const fn own(agent: AgentId) -> Self {
        Self { place: AgentProvider::own(agent), fallback: None, why: String::new() }
    }

    /// Whether it costs nothing.
    pub(crate) fn is_free(&self, tx: &Tx<'_, '_>, of: SessionRef<'_>) -> Result<bool> {
        is_free(tx, of, self.fallback.as_ref())
    }

    /// Whether it drives the session already.
    pub(crate) fn drives(&self, tx: &Tx<'_, '_>, session: SessionId) -> Result<bool> {
        Ok(session_providers::of(tx.db, tx, session)?.fallback() == self.fallback.as_ref())
    }

    /// Whether its slot for trying it is taken by another session.
    pub(crate) fn is_taken(&self, tx: &Tx<'_, '_>, of: SessionRef<'_>) -> Result<bool> {
        is_taken(tx, of, self.fallback.as_ref())
    }
}

/// Whether a provider works for another session of the agent, or is about to.
fn is_taken(tx: &Tx<'_, '_>, of: SessionRef<'_>, fallback: Option<&Fallback>) -> Result<bool> {
    for IncarnationId { session, .. } in lifecycle::live_of(tx, |agent| agent == of.session.agent)? {
        let works = session != of.id
            && (tx.db.claimed_messages.first_in(tx, &session)?.is_some()
                || tx.db.ready_messages.first_in(tx, &session)?.is_some());
        if works && session_providers::of(tx.db, tx, session)?.fallback() == fallback {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Lets a provider drive a session whose next run is about to start. The one before it misses what follows.
pub(crate) fn switch(tx: &mut Tx<'_, '_>, of: SessionRef<'_>, to: ChosenProvider) -> Result<()> {
    if to.drives(tx, of.id)? {
        return Ok(());
    }
    let mut open = Vec::new();
    for (key, message) in tx.db.messages_by_session.collect_last(tx, &of.id, recap::LINES_MAX)? {
        if tx.db.messages.require(tx, &message)?.state.ended().is_none() {
            open.push(key.seq);
        }
    }
    let since = tx.now.wall;
    let stand_in = to.fallback.map(|fallback| StandIn { fallback, since, why: to.why });
    session_providers::update(tx, of.id, |providers| {
        providers.switch(stand_in, &of.agent.settings.fallback, of.session.last_number, open);
    })
}

/// What becomes of the messages of a turn whose provider took no requests.
pub(crate) enum AfterRefusal {
    /// Another provider gets them.
    Fallback,
    /// They wait for the end of this pause.
    Wait(RateLimit),
}

/// Records that the provider of a session takes no requests.
pub(crate) fn refused(tx: &mut Tx<'_, '_>, of: SessionRef<'_>, refusal: &ProviderRefusal<'_>) -> Result<AfterRefusal> {
    // The pause of a fallback that the agent does not have any more concerns no one.
    if let Some(provider) = driving(tx, of)? {
        rate_limit::hold_off(tx, provider, refusal)?;
    }
    Ok(match next(tx, of)? {
        Next::Provider(_) => AfterRefusal::Fallback,
        Next::Wait(limit) => AfterRefusal::Wait(limit),
    })
}

/// The place of the provider that drives a session; none if its agent does not have it any more.
fn driving(tx: &Tx<'_, '_>, of: SessionRef<'_>) -> Result<Option<AgentProvider>> {
    let providers = session_providers::of(tx.db, tx, of.id)?;
    let Some(fallback) = providers.fallback() else { return Ok(Some(AgentProvider::own(of.session.agent))) };
    let place = of.agent.settings.fallback.iter().position(|listed| listed == fallback);
    Ok(place.map(|place| AgentProvider::new(of.session.agent, place + 1)))
}

/// Records that a turn of a session succeeded: its provider takes requests, and knows the whole conversation.
pub(crate) fn succeeded(tx: &mut Tx<'_, '_>, session: SessionId, agent: AgentId) -> Result<()> {
    if tx.db.session_providers.is_empty(tx)? {
        return rate_limit::turn_succeeded(tx, AgentProvider::own(agent));
    }
    let Some(row) = sessions::load(tx, session)? else { return Ok(()) };
    let agent = tx.db.agents.require(tx, &row.agent)?;
    if let Some(provider) = driving(tx, SessionRef { id: session, session: &row, agent: &agent })? {
        rate_limit::turn_succeeded(tx, provider)?;
    }
    session_providers::update(tx, session, SessionProviders::catch_up)
}

/// Ends the idle runs of an agent that have messages and whose provider takes no work, because they would take the
/// messages in their mailboxes at once.
pub(crate) fn leave_paused(tx: &mut Tx<'_, '_>, agent: AgentId) -> Result<()> {
    for id in lifecycle::live_of(tx, |of| of == agent)? {
        let Some(row) = sessions::load(tx, id.session)? else { continue };
        let agent = tx.db.agents.require(tx, &row.agent)?;
        let of = SessionRef { id: id.session, session: &row, agent: &agent };
        let Some(provider) = driving(tx, of)? else { continue };
        if rate_limit::current(tx, provider)?.is_some() && tx.db.ready_messages.first_in(tx, &id.session)?.is_some() {
            make_way(tx, id)?;
        }
    }
    Ok(())
}

/// Ends a run between turns, because another provider takes over. Returns whether it ends.
pub(crate) fn make_way(tx: &mut Tx<'_, '_>, id: IncarnationId) -> Result<bool> {
    let ends = tx.db.claimed_messages.first_in(tx, &id.session)?.is_none();
    if ends {
        lifecycle::stop(tx, id, StopReason::ProviderChanged)?;
    }
    Ok(ends)
}

/// Records who has a message that was just claimed, unless it is the provider that always has this agent's messages.
pub(crate) fn claimed(tx: &mut Tx<'_, '_>, session: SessionId, message: MessageId) -> Result<()> {
    let providers = session_providers::of(tx.db, tx, session)?;
    if let Some(StandIn { fallback, why, .. }) = providers.stand_in {
        return journal::of_message(tx, message, Event::StoodIn { fallback, why });
    }
    let Some(row) = sessions::load(tx, session)?.filter(|_| providers.gap().is_some()) else { return Ok(()) };
    let agent = tx.db.agents.require(tx, &row.agent)?;
    let settings = agents::settings_in(tx.db, tx, session, &row, &agent)?;
    let event = Event::TookOverAgain { provider: settings.provider, model: settings.model.clone() };
    journal::of_message(tx, message, event)
}
