//! Commands in chats that Hearth carries out itself, without a turn of the agent.

use crate::Result;
use crate::delivery::notice;
use crate::lifecycle::halt::{self, Halt, Halted, Whose};
use crate::model::address::Address;
use crate::model::entity::{Agent, Wiring};
use crate::model::id::{AgentId, SessionId};
use crate::model::report::Decision;
use crate::routing::FanOut;
use crate::rows::{agents, people, sessions};
use crate::rules::commands::{self, CommandReply, OwnCommand};
use crate::time::local;
use crate::tx::Tx;

/// Messages that are searched for the end of the last turn.
const SEARCHED: usize = 20;

impl FanOut<'_> {
    /// Carries out the command of this event for one agent.
    pub(super) fn carry_out(&mut self, tx: &mut Tx<'_, '_>, id: AgentId, agent: &Agent, wiring: &Wiring) -> Result<()> {
        let decides = people::standing(tx, self.sender, id)?.decides();
        let reply = match commands::own(&self.event.content.text) {
            Some(OwnCommand::Stop) => self.stop(tx, id, agent, wiring, decides)?,
            Some(OwnCommand::StopAll) if decides => self.stop_all(tx, id, agent)?,
            Some(OwnCommand::StopAll) => CommandReply::Not(commands::denial("/stop all")),
            None => return Ok(()),
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
        match said.is_empty() {
            true => Ok(()),
            false => notice::say_to(tx, self.reply(), None, said.join("\n")).map(drop),
        }
    }

    fn stop(
        &self,
        tx: &mut Tx<'_, '_>,
        id: AgentId,
        agent: &Agent,
        wiring: &Wiring,
        decides: bool,
    ) -> Result<CommandReply> {
        let name = &agent.settings.name;
        let Some(session) = sessions::find(tx, id, &self.route(wiring))? else {
            return Ok(CommandReply::Not(format!("There is nothing to stop: {name} was not asked anything here.")));
        };
        let reply = self.reply();
        let whose = if decides { Whose::Turn } else { Whose::Own };
        Ok(match halt::turn(tx, session, self.halt(&reply, whose))? {
            Halted::Stopped => CommandReply::Done,
            Halted::Withdrawn => CommandReply::Said(format!("Stopped. {name} had not begun.")),
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
