//! Commands in chats that Hearth carries out itself, without a turn of the agent.

mod answers;

use self::answers::Asked;
use crate::Result;
use crate::delivery::notice;
use crate::entities::change::ChangedAgents;
use crate::entities::restart;
use crate::lifecycle::halt::{self, Halt, Halted, Whose};
use crate::model::address::Address;
use crate::model::entity::{Agent, Wiring};
use crate::model::id::{AgentId, SessionId};
use crate::model::report::Decision;
use crate::model::session::{Route, SessionChoice};
use crate::routing::FanOut;
use crate::rows::{agents, people, sessions};
use crate::rules::commands::{self, Authority, CommandReply, OwnCommand};
use crate::time::local;
use crate::tx::Tx;

/// Messages that are searched for the end of the last turn.
const SEARCHED: usize = 20;

impl FanOut<'_> {
    /// Carries out the command of this event for one agent.
    pub(super) fn carry_out(&mut self, tx: &mut Tx<'_, '_>, id: AgentId, agent: &Agent, wiring: &Wiring) -> Result<()> {
        let Some(command) = commands::own(&self.event.content.text) else { return Ok(()) };
        let route = self.route(wiring);
        let authority = if people::standing(tx, self.sender, id)?.decides() {
            Authority::Decides
        } else if self.chat.group || route == Route::AgentShared {
            Authority::Talks
        } else {
            Authority::Alone
        };
        let asked = Asked { id, agent, session: sessions::find(tx, id, &route)? };
        let reply = match command {
            _ if authority < command.needs() => CommandReply::Not(commands::denial(command.word())),
            OwnCommand::Help => CommandReply::Said(commands::help(authority)),
            OwnCommand::Status => CommandReply::Said(asked.status(tx)?),
            OwnCommand::Usage => CommandReply::Said(asked.usage(tx, &self.event.source)?),
            OwnCommand::Tasks => CommandReply::Said(asked.tasks(tx, &self.event.source)?),
            OwnCommand::Approvals => CommandReply::Said(self.approvals(tx)?),
            OwnCommand::Stop => self.stop(tx, asked, authority)?,
            OwnCommand::StopAll => self.stop_all(tx, id, agent)?,
            OwnCommand::New => self.begin_anew(tx, asked)?,
            OwnCommand::Model(None) => CommandReply::Said(format!(
                "Model of {}: {}. `/model NAME` chooses another one.",
                agent.settings.name,
                asked.model(tx)?
            )),
            OwnCommand::Think(None) => CommandReply::Said(format!(
                "Effort of {}: {}. `/think LEVEL` chooses another one.",
                agent.settings.name,
                asked.effort(tx)?
            )),
            OwnCommand::Model(Some(name)) => {
                self.choose(tx, asked, route, SessionChoice::named(SessionChoice::Model, name))?
            }
            OwnCommand::Think(Some(level)) => {
                self.choose(tx, asked, route, SessionChoice::named(SessionChoice::Effort, level))?
            }
            OwnCommand::Misused(usage) => CommandReply::Not(usage.to_owned()),
        };
        self.replies.push(reply);
        Ok(())
    }

    /// Tells the sender what the command did.
    pub(super) fn reply_to_command(&mut self, tx: &mut Tx<'_, '_>) -> Result<()> {
        let replies = std::mem::take(&mut self.replies);
        let did = replies.iter().any(|reply| !matches!(reply, CommandReply::Not(_)));
        let (mut said, mut not): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        for reply in replies {
            match reply {
                CommandReply::Done => {}
                CommandReply::Said(text) => said.push(text),
                CommandReply::Not(text) => not.push(text),
            }
        }
        said.extend(not.into_iter().take(usize::from(!did)));
        // Several agents may say the same.
        said.dedup();
        if !said.is_empty() {
            self.answer = Some(notice::say_to(tx, self.reply(), None, said.join("\n"))?);
        }
        Ok(())
    }

    fn approvals(&self, tx: &Tx<'_, '_>) -> Result<String> {
        match self.sender {
            Some(sender) => answers::approvals(tx, sender, &self.event.source, self.chat.group),
            None => Ok(String::new()),
        }
    }

    /// Chooses the model or the effort of this conversation.
    fn choose(
        &self,
        tx: &mut Tx<'_, '_>,
        asked: Asked<'_>,
        route: Route,
        choice: SessionChoice,
    ) -> Result<CommandReply> {
        let (session, _) = sessions::open(tx, asked.id, route, &self.event.source)?;
        let asked = Asked { session: Some(session), ..asked };
        if let Err(problem) = restart::choose(tx, session, choice.clone(), &mut ChangedAgents::default())? {
            return Ok(CommandReply::Not(format!("This was not changed: {problem}.")));
        }
        let (what, now) = match choice {
            SessionChoice::Model(_) => ("Model", asked.model(tx)?),
            SessionChoice::Effort(_) => ("Effort", asked.effort(tx)?),
            SessionChoice::Verbosity(verbosity) => {
                ("Verbosity", verbosity.unwrap_or(asked.agent.settings.verbosity).as_str().to_owned())
            }
        };
        let name = &asked.agent.settings.name;
        Ok(CommandReply::Said(format!("{what} of {name} from its next turn on: {now}.")))
    }

    /// Begins a new conversation, without waiting for the running turn.
    fn begin_anew(&self, tx: &mut Tx<'_, '_>, asked: Asked<'_>) -> Result<CommandReply> {
        let name = &asked.agent.settings.name;
        let Some(session) = asked.session else {
            return Ok(CommandReply::Not(format!("{name} was not asked anything here, so the conversation is new.")));
        };
        let reply = self.reply();
        halt::turn(tx, session, self.halt(&reply, Whose::Running))?;
        Ok(match restart::session(tx, session, &mut ChangedAgents::default())? {
            Ok(_) => CommandReply::Said(format!("{name} begins a new conversation with your next message.")),
            Err(problem) => CommandReply::Not(format!("The conversation goes on: {problem}.")),
        })
    }

    fn stop(&self, tx: &mut Tx<'_, '_>, asked: Asked<'_>, authority: Authority) -> Result<CommandReply> {
        let Asked { id, agent, session } = asked;
        let name = &agent.settings.name;
        let Some(session) = session else {
            return Ok(CommandReply::Not(format!("There is nothing to stop: {name} was not asked anything here.")));
        };
        let reply = self.reply();
        let whose = if authority == Authority::Decides { Whose::Turn } else { Whose::Own };
        Ok(match halt::turn(tx, session, self.halt(&reply, whose))? {
            Halted::Stopped => CommandReply::Done,
            Halted::Withdrawn => CommandReply::Said(format!("Stopped. {name} had not begun.")),
            Halted::Silenced => CommandReply::Said("Stopped. The answer is not read aloud.".to_owned()),
            Halted::OthersOnly => CommandReply::Not(format!(
                "{name} is working for someone else. Only its administrators and owners can stop that."
            )),
            Halted::Nothing => CommandReply::Not(nothing(tx, id, name, session)?),
        })
    }

    fn stop_all(&self, tx: &mut Tx<'_, '_>, id: AgentId, agent: &Agent) -> Result<CommandReply> {
        let reply = self.reply();
        let (name, folder) = (&agent.settings.name, &agent.folder);
        let thaw = format!("Messages wait until `hearth agents unfreeze {folder}`.");
        Ok(CommandReply::Said(match halt::freeze(tx, id, self.halt(&reply, Whose::Turn))? {
            true => format!("{name} is stopped and frozen. {thaw}"),
            false => format!("{name} was already frozen. {thaw}"),
        }))
    }

    /// Ends the running turn of a session before a command that does not wait for it. What waits is answered first.
    pub(super) fn interrupt(
        &self,
        tx: &mut Tx<'_, '_>,
        id: AgentId,
        wiring: &Wiring,
        decision: Decision,
    ) -> Result<()> {
        if decision != Decision::Engaged || !commands::interrupts(&self.event.content.text) {
            return Ok(());
        }
        let Some(session) = sessions::find(tx, id, &self.route(wiring))? else { return Ok(()) };
        let reply = self.reply();
        halt::turn(tx, session, self.halt(&reply, Whose::Running)).map(drop)
    }

    const fn halt<'a>(&'a self, reply: &'a Address, whose: Whose) -> Halt<'a> {
        Halt { by: self.sender, reply: Some(reply), whose }
    }
}

/// Says that there is nothing to stop, and when the last turn ended.
fn nothing(tx: &Tx<'_, '_>, agent: AgentId, name: &str, session: SessionId) -> Result<String> {
    let mut ended = None;
    for (_, id) in tx.db.messages_by_session.collect_last(tx, &session, SEARCHED)? {
        let message = tx.db.messages.require(tx, &id)?;
        ended = ended.max(message.state.ended().filter(|_| message.trigger));
    }
    let Some(ended) = ended else { return Ok(format!("There is nothing to stop: {name} is not working here.")) };
    let at = local::clock(ended, tx.now.wall, &agents::zone_of(tx, agent)?);
    Ok(format!("There is nothing to stop: the last turn of {name} ended at {at}."))
}
