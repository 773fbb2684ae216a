//! Carries out what people ask for in the console, by the same inputs as commands and channels.

use std::sync::{Arc, Weak};

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::{people, words};
use crate::console::lookup_view::MemoryEdit;
use crate::console::{ChatLogin, Host, NewLogin, NewMessage, Rank, Seen, Trouble, Visitor, chat};
use crate::contracts::memory_files::{Correction, MemoryOf};
use crate::daemon::Daemon;
use crate::daemon::logins::{LoginState, NoCode};
use crate::model::address::{Address, UserId};
use crate::model::card::{Button, PromptSubject};
use crate::model::configure::{Change, ChatSpec, Configure, WiringSpec};
use crate::model::console::{ConsoleInput, Login, TokenDigest};
use crate::model::console_command::ConsoleCommand;
use crate::model::entity::{Engage, Folder, Ignored, Origin, SenderScope, SessionMode, Trust, UnknownSenders};
use crate::model::id::ConsoleSessionId;
use crate::model::input::{Input, Press};
use crate::model::message::Reason;
use crate::model::report::{Outcome, Reply};
use crate::state::{ChatKey, Text, WiringKey};

/// Longest message, in bytes.
const TEXT_MAX: usize = 256 * 1024;

/// What a browser is told that gets no code, because others have all.
const NO_CODE: &str = "Too many codes to sign in with wait for a message, so there is none for you now. Try again in three minutes, \
                       or run `hearth console` on the machine that runs Hearth.";

/// The daemon, as the console sees it.
pub(super) struct ConsoleHost {
    daemon: Weak<Daemon>,
    tokio: Handle,
}

impl ConsoleHost {
    pub(super) fn new(daemon: &Arc<Daemon>, tokio: &Handle) -> Self {
        Self { daemon: Arc::downgrade(daemon), tokio: tokio.clone() }
    }

    fn daemon(&self) -> Seen<Arc<Daemon>> {
        self.daemon.upgrade().ok_or_else(|| Trouble::Failed("Hearth is stopping.".to_owned()))
    }

    fn submit(&self, input: Input) -> Seen<Reply> {
        let daemon = self.daemon()?;
        let reply = self.tokio.block_on(daemon.submit(input, false)).map_err(Trouble::Failed)?;
        match reply {
            Reply::Refused(refusal) if refusal.code == "forbidden" => Err(Trouble::Forbidden(refusal.message)),
            Reply::Refused(refusal) => Err(Trouble::Refused(refusal.message)),
            reply => Ok(reply),
        }
    }

    /// The address of a person's chat with an agent. Creates the chat if it does not exist.
    fn chat(&self, who: &Visitor, agent: &str) -> Seen<Address> {
        let none = || Trouble::NotFound("There is no such agent, or you may not talk to it.".to_owned());
        let folder = Folder::new(agent).map_err(|_| none())?;
        if !who.rank.talks_to(folder.as_str()) {
            return Err(none());
        }
        let address = chat::address(agent, &who.user).map_err(|error| Trouble::Refused(error.to_string()))?;
        let daemon = self.daemon()?;
        let known = daemon.store().read(|db, txn| {
            let Some(agent) = db.agents_by_folder.get(txn, &Text::from(&folder))? else { return Ok(None) };
            let chat = db.chats_by_address.get(txn, &ChatKey::of(&address.channel, &address.platform_id))?;
            let wired = match chat {
                Some(chat) => db.wirings.contains(txn, &WiringKey { chat, agent })?,
                None => false,
            };
            Ok::<_, crate::state::Error>(Some(wired))
        });
        match known.map_err(|error| Trouble::Failed(error.to_string()))? {
            None => return Err(none()),
            Some(true) => return Ok(address),
            Some(false) => {}
        }
        self.submit(Input::Configure(Configure::new(vec![new_chat(&address, folder, who)], Origin::Runtime)))?;
        Ok(address)
    }
}

/// The chat of a person with an agent. No other person can write to it.
fn new_chat(address: &Address, agent: Folder, who: &Visitor) -> Change {
    let wiring = WiringSpec {
        agent,
        engage: Engage::Pattern(".".to_owned()),
        senders: SenderScope::All,
        ignored: Ignored::Drop,
        session: SessionMode::Shared,
        priority: 0,
        context_from: None,
    };
    Change::PutChat(ChatSpec {
        channel: address.channel.clone(),
        platform_id: address.platform_id.clone(),
        name: Some(format!("console of {}", who.name.as_deref().unwrap_or(who.user.handle().as_str()))),
        group: false,
        unknown_senders: UnknownSenders::Strict,
        wirings: vec![wiring],
    })
}

/// The text of a reply to a decision.
fn decided(reply: Reply) -> Seen<String> {
    match reply {
        Reply::Answered { decided: true, text } => Ok(text),
        Reply::Answered { decided: false, text } => Err(Trouble::Refused(text)),
        other => Err(Trouble::Failed(other.unexpected())),
    }
}

impl Host for ConsoleHost {
    fn has_chat_login(&self) -> bool {
        self.daemon.upgrade().is_some_and(|daemon| daemon.channels.logins().is_enabled())
    }

    fn begin_login(&self, new: NewLogin<'_>) -> Seen<bool> {
        match self.daemon()?.channels.logins().begin(new) {
            Ok(()) => Ok(true),
            Err(NoCode::Off) => Ok(false),
            Err(NoCode::Full) => Err(Trouble::TooMany(NO_CODE.to_owned())),
            Err(NoCode::NoEntropy(error)) => Err(Trouble::Failed(error.to_string())),
        }
    }

    fn login(&self, browser: TokenDigest) -> Option<ChatLogin> {
        match self.daemon.upgrade()?.channels.logins().state(browser)? {
            LoginState::Waiting { code } => Some(ChatLogin::Waiting { code }),
            LoginState::Proved(user) => Some(ChatLogin::Proved(user)),
            LoginState::Void => Some(ChatLogin::Void),
        }
    }

    fn end_login(&self, browser: TokenDigest, token: TokenDigest, name: &str) -> Seen<()> {
        let user = self.daemon()?.channels.logins().take(browser);
        let user = user.ok_or_else(|| Trouble::NotFound("The code was not sent, or it no longer works.".to_owned()))?;
        let browser = name.to_owned();
        self.submit(Input::Console(ConsoleInput::SignIn { user, token, browser, login: Login::Chat })).map(drop)
    }

    fn of_link(&self, code: &str) -> Option<UserId> {
        self.daemon.upgrade()?.console.links.user(code)
    }

    fn sign_in(&self, code: &str, token: TokenDigest, browser: &str) -> Seen<()> {
        let user = self.daemon()?.console.links.take(code);
        let user = user.ok_or_else(|| Trouble::NotFound("This link no longer works.".to_owned()))?;
        self.submit(Input::Console(ConsoleInput::SignIn {
            user,
            token,
            browser: browser.to_owned(),
            login: Login::Link,
        }))
        .map(drop)
    }

    fn visitor(&self, token: TokenDigest) -> Seen<Option<Visitor>> {
        let found = self.daemon()?.store().read(|db, txn| people::visitor(db, txn, token));
        found.map_err(|error| Trouble::Failed(error.to_string()))
    }

    fn rotate(&self, session: ConsoleSessionId, from: TokenDigest, to: TokenDigest) -> Seen<bool> {
        match self.submit(Input::Console(ConsoleInput::Rotate { session, from, to })) {
            Ok(_) => Ok(true),
            Err(Trouble::Refused(_)) => Ok(false),
            Err(trouble) => Err(trouble),
        }
    }

    fn confirm(&self, session: ConsoleSessionId) -> Seen<()> {
        self.submit(Input::Console(ConsoleInput::Confirm(session))).map(drop)
    }

    fn sign_out(&self, session: ConsoleSessionId) -> Seen<()> {
        self.submit(Input::Console(ConsoleInput::SignOut(session))).map(drop)
    }

    fn decide(&self, who: &Visitor, matter: PromptSubject, value: &str) -> Seen<String> {
        decided(self.submit(Input::DecideAs(who.session, matter, value.to_owned()))?)
    }

    fn say(&self, who: &Visitor, message: NewMessage) -> Seen<Option<String>> {
        let at = self.chat(who, &message.agent)?;
        if message.text.len() > TEXT_MAX {
            let why = format!("The message has {} bytes, at most {TEXT_MAX} are accepted.", message.text.len());
            return Err(Trouble::Refused(why));
        }
        let arrived = chat::event(&at, who, &message).map_err(Trouble::Refused)?;
        drop(message);
        let daemon = self.daemon()?;
        let event = daemon.keep_files(arrived).map_err(Trouble::Failed)?;
        match self.submit(daemon.channels.unproved(event))? {
            Reply::Routed(report) if report.outcome == Outcome::Consumed => Ok(match report.reason {
                Some(code @ Reason::PairingCode) => Some(format!("This was not sent: {}.", code.explanation())),
                _ => report.answer.map(|_| "Hearth has answered.".to_owned()),
            }),
            Reply::Routed(report) => match report.wirings.iter().find_map(|wiring| wiring.message) {
                Some(_) => Ok(None),
                None if report.outcome == Outcome::Duplicate => Ok(None),
                None => {
                    let reason = report.reason.map_or("no agent listens here", Reason::explanation);
                    Err(Trouble::Refused(format!("The message was not accepted: {reason}.")))
                }
            },
            other => Err(Trouble::Failed(other.unexpected())),
        }
    }

    fn command(&self, who: &Visitor, command: ConsoleCommand) -> Seen<String> {
        let done = words::before(&command);
        let reply = self.submit(Input::CommandAs(who.session, Box::new(command)))?;
        words::after(done, reply).map_err(Trouble::Failed)
    }

    fn press(&self, who: &Visitor, agent: &str, button: Button) -> Seen<String> {
        let at = self.chat(who, agent)?;
        decided(self.submit(Input::Pressed(Press { by: who.user.clone(), at, button }))?)
    }

    fn correct_memory(&self, who: &Visitor, edit: &MemoryEdit) -> Seen<()> {
        let none = || Trouble::NotFound("There is no such file, or you may not change it.".to_owned());
        if !who.rank.sees(&edit.agent) {
            return Err(none());
        }
        if who.login == Login::Chat {
            let why = "You signed in from a chat. To change what agents remember, sign in with a link from \
                       `hearth console`.";
            return Err(Trouble::Forbidden(why.to_owned()));
        }
        let folder = Folder::new(edit.agent.as_str()).map_err(|_| none())?;
        let daemon = self.daemon()?;
        let known = daemon.store().read(|db, txn| {
            let Some(id) = db.agents_by_folder.get(txn, &Text::from(&folder))? else { return Ok(None) };
            db.agents.get(txn, &id)
        });
        let agent = known.map_err(|error: crate::state::Error| Trouble::Failed(error.to_string()))?.ok_or_else(none)?;
        let shared = agent.settings.trust != Trust::Untrusted && who.rank == Rank::Everything;
        let memory = MemoryOf { paths: daemon.paths(), folder: &folder, shared };
        let failed = |error: crate::contracts::Error| Trouble::Failed(error.to_string());
        let file = memory.file(&edit.file).map_err(failed)?.ok_or_else(none)?;
        let how = Correction { line: edit.line, was: Some(edit.was.clone()), now: edit.now.clone() };
        let done = memory.correct(&file, &how).map_err(failed)?;
        done.map(drop).map_err(|why| Trouble::Refused(format!("Nothing was changed: {why}.")))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        match self.daemon.upgrade() {
            Some(daemon) => daemon.console.changes.subscribe(),
            None => watch::channel(0).1,
        }
    }
}
