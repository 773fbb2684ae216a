//! The way out: sends one mail after the other over SMTP.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hearth_bridge::program::{Delivered, FrameWriter, now};
use hearth_bridge::{Attempted, Deliver, DeliverAct, FromBridge, Outcome, Sent};
use mail_parser::DateTime;

use crate::compose::{self, Draft, File};
use crate::connection::{Trouble, Trust};
use crate::headers::{is_address, is_id};
use crate::imap::Imap;
use crate::message::bare_subject;
use crate::settings::{Copies, Settings};
use crate::smtp::{NotSent, Smtp};
use crate::state::{Side, State, seconds};
use crate::threads::{Thread, Threads};

/// How long a session without mails is kept.
const IDLE: Duration = Duration::from_secs(5);
/// How long a delivery may wait for others.
const PATIENCE: Duration = Duration::from_secs(20);
/// Largest text, in bytes.
const TEXT_BYTES_MAX: usize = 512 * 1024;
/// How long a copy is looked for in vain, because the server may need a moment to file it, and the time between two looks.
const LOOK_WITHIN: Duration = Duration::from_secs(6);
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// Seconds after which a copy is looked for again if the server could not be asked.
const LOOK_PAUSE: u64 = 5;
/// Seconds after which a delivery that waited for others too long is wanted again.
const LATE_AGAIN: u64 = 1;
const HOUR: Duration = Duration::from_secs(3_600);
/// Bytes of a mail besides its files, at most about.
const ENVELOPE: usize = 8 * 1024;

/// A delivery, and when it came.
pub(crate) struct Job {
    pub(crate) deliver: Deliver,
    pub(crate) came: Duration,
}

pub(crate) struct Outbox {
    pub(crate) settings: Settings,
    pub(crate) trust: Trust,
    pub(crate) token: String,
    pub(crate) state: State,
    pub(crate) writer: FrameWriter,
    pub(crate) jobs: Receiver<Job>,
    /// Jobs that have no outcome yet.
    pub(crate) open: Arc<AtomicUsize>,
    pub(crate) delivered: Delivered,
    pub(crate) threads: Arc<Mutex<Threads>>,
    pub(crate) files: PathBuf,
    pub(crate) session: Option<Smtp>,
    /// Deliveries of which certainly nothing was sent.
    pub(crate) unsent: BTreeSet<String>,
    /// When the copies of deliveries were first looked for in vain.
    pub(crate) looked: BTreeMap<String, Duration>,
    /// Jobs whose copies are looked for again, with the time of it. Other jobs go on.
    pub(crate) later: VecDeque<(Duration, Job)>,
    /// When mails went to an address.
    pub(crate) recent: BTreeMap<String, VecDeque<Duration>>,
}

/// How an attempt ended.
struct End {
    result: Sent,
    message: Option<String>,
    why: Option<String>,
    after: Option<u64>,
}

impl End {
    fn delivered(message: String) -> Self {
        Self { result: Sent::Delivered, message: Some(message), why: None, after: None }
    }

    fn not(result: Sent, why: String) -> Self {
        Self { result, message: None, why: Some(why), after: None }
    }
}

impl From<NotSent> for End {
    fn from(not: NotSent) -> Self {
        match not {
            NotSent::Retry(why) => Self::not(Sent::Retry, why),
            NotSent::Rejected(why) => Self::not(Sent::Rejected, why),
            NotSent::Uncertain(why) => Self::not(Sent::Uncertain, why),
        }
    }
}

/// A mail as it will be.
struct Plan {
    to: String,
    subject: String,
    thread: Option<String>,
    answers: Vec<String>,
    text: String,
    message_id: String,
}

impl Outbox {
    /// Sends until the main loop ends.
    pub(crate) fn work(mut self) {
        loop {
            match self.next() {
                // With an error the daemon is gone.
                Ok(job) => match self.carry_out(&job) {
                    Ok(true) => drop(self.open.fetch_sub(1, Ordering::SeqCst)),
                    Ok(false) => self.later.push_back((now() + LOOK_AGAIN, job)),
                    Err(_) => return,
                },
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(session) = self.session.take_if(|_| self.later.is_empty()) {
                        session.quit();
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn next(&mut self) -> Result<Job, RecvTimeoutError> {
        let moment = now();
        match self.later.pop_front_if(|(due, _)| *due <= moment) {
            Some((_, job)) => Ok(job),
            None => {
                let wait = self.later.front().map_or(IDLE, |(due, _)| due.saturating_sub(moment));
                self.jobs.recv_timeout(wait)
            }
        }
    }

    /// Reports the outcome of a delivery; false if it has none yet.
    fn carry_out(&mut self, Job { deliver, came }: &Job) -> io::Result<bool> {
        // The daemon would have given up on it before its outcome.
        let is_late = now().saturating_sub(*came) > PATIENCE && self.delivered.get(&deliver.id).is_none();
        let end = if is_late {
            let why = "the mail server is slow, and earlier mails had to wait for it".to_owned();
            End { after: Some(LATE_AGAIN), ..End::not(Sent::Retry, why) }
        } else {
            let Some(end) = self.deliver(deliver)? else { return Ok(false) };
            self.looked.remove(&deliver.id);
            end
        };
        self.remove_files(deliver);
        if end.result != Sent::Retry {
            self.unsent.remove(&deliver.id);
        }
        let (id, attempt) = (deliver.id.clone(), deliver.attempt);
        let End { result, message, why, after } = end;
        let outcome = Outcome { id, attempt, result, message_id: message, why, after };
        self.writer.send(&FromBridge::Outcome { outcome })?;
        Ok(true)
    }

    /// How an attempt ended, if it did: the copy of a mail that may have been sent is looked for again.
    fn deliver(&mut self, deliver: &Deliver) -> io::Result<Option<End>> {
        if let Some(known) = self.delivered.get(&deliver.id) {
            return Ok(Some(End::delivered(known.to_owned())));
        }
        let plan = match self.plan(deliver) {
            Ok(plan) => plan,
            Err(why) => return Ok(Some(End::not(Sent::Rejected, why))),
        };
        let may_be_sent = (deliver.attempt > 1 || deliver.repeated) && !self.unsent.contains(&deliver.id);
        if may_be_sent && self.settings.copies == Copies::ByServer {
            match self.was_sent(&plan.message_id) {
                Ok(true) => return self.done(deliver, plan).map(Some),
                Ok(false) if self.looks_again(&deliver.id) => return Ok(None),
                Ok(false) => {}
                Err(trouble) => {
                    let why = format!("it cannot be looked up whether this mail was sent: {trouble}");
                    return Ok(Some(End { after: Some(LOOK_PAUSE), ..End::not(Sent::Retry, why) }));
                }
            }
        }
        if let Some(after) = self.pause(&plan.to) {
            let why = format!("{} mails went to this address within an hour", self.settings.per_hour);
            self.is_unsent(deliver);
            return Ok(Some(End { after: Some(after), ..End::not(Sent::Retry, why) }));
        }
        match self.send(deliver, &plan) {
            Ok(()) => {
                self.state.works(Side::Outbox);
                self.recent.entry(plan.to.clone()).or_default().push_back(now());
                self.done(deliver, plan).map(Some)
            }
            Err(not) => {
                self.session = None;
                if matches!(not, NotSent::Retry(_)) {
                    self.is_unsent(deliver);
                }
                Ok(Some(not.into()))
            }
        }
    }

    /// Nothing was sent of this delivery, in this attempt or before.
    fn is_unsent(&mut self, deliver: &Deliver) {
        if self.unsent.len() > 1_000 {
            self.unsent.clear();
        }
        self.unsent.insert(deliver.id.clone());
    }

    /// Whether a copy that is not there yet may still be filed.
    fn looks_again(&mut self, id: &str) -> bool {
        if self.looked.len() > 1_000 {
            self.looked.clear();
        }
        let first = *self.looked.entry(id.to_owned()).or_insert_with(now);
        now().saturating_sub(first) < LOOK_WITHIN
    }

    /// Remembers what was sent, before the daemon hears of it.
    fn done(&mut self, deliver: &Deliver, plan: Plan) -> io::Result<End> {
        self.delivered.add(&deliver.id, &plan.message_id)?;
        let id = plan.thread.unwrap_or_else(|| plan.message_id.clone());
        let subject = bare_subject(&plan.subject).to_owned();
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.learn(&id, Thread { subject, last: plan.message_id.clone() })?;
        Ok(End::delivered(plan.message_id))
    }

    fn plan(&self, deliver: &Deliver) -> Result<Plan, String> {
        let to = deliver.platform_id.to_ascii_lowercase();
        if !is_address(&to) {
            return Err("this chat is no address to which mail can be sent".to_owned());
        }
        if to == self.settings.account.address {
            return Err("this is the bot's own address".to_owned());
        }
        let text = shown(deliver)?;
        let thread = deliver.thread_id.clone().filter(|id| is_id(id));
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let known = thread.as_ref().and_then(|id| threads.get(id));
        let answers = match (&thread, known) {
            (Some(id), Some(known)) if known.last != *id => vec![id.clone(), known.last.clone()],
            (Some(id), _) => vec![id.clone()],
            (None, _) => Vec::new(),
        };
        let own = || deliver.card.as_ref().map_or_else(|| first_line(&deliver.text), |card| first_line(&card.title));
        let subject = match known {
            Some(known) => format!("Re: {}", known.subject),
            None if thread.is_some() => format!("Re: {}", own()),
            None => own(),
        };
        let message_id = self.settings.account.message_id(&deliver.id);
        Ok(Plan { to, subject, thread, answers, text, message_id })
    }

    /// Seconds until another mail may go to an address, if too many went. Two programs that answer each other stop here.
    fn pause(&mut self, to: &str) -> Option<u64> {
        let moment = now();
        self.recent.retain(|_, times| {
            times.retain(|time| moment.saturating_sub(*time) < HOUR);
            !times.is_empty()
        });
        let times = self.recent.get(to).filter(|times| times.len() >= self.settings.per_hour)?;
        Some(times.front().map_or(60, |first| (*first + HOUR).saturating_sub(moment).as_secs() + 1))
    }

    fn send(&mut self, deliver: &Deliver, plan: &Plan) -> Result<(), NotSent> {
        let mut smtp = match self.session.take() {
            Some(session) => session,
            None => Smtp::open(&self.settings, &self.trust, &self.token).inspect_err(|trouble| {
                self.state.fails(Side::Outbox, trouble.to_string());
            })?,
        };
        let mut text = plan.text.clone();
        let files = self.read_files(deliver, smtp.size_max(), &mut text);
        let date = DateTime::from_timestamp(seconds()).to_rfc822();
        let draft = Draft {
            name: deliver.speaker.as_deref().unwrap_or("Hearth"),
            from: &self.settings.account.address,
            to: &plan.to,
            subject: &plan.subject,
            message_id: &plan.message_id,
            answers: &plan.answers,
            date: &date,
            text: &text,
        };
        let mail = compose::write(&draft, &files);
        drop(files);
        let begun = Attempted { id: deliver.id.clone(), attempt: deliver.attempt };
        let begin = || self.writer.send(&FromBridge::Begun { begun });
        smtp.submit(&self.settings.account.address, &plan.to, &mail, begin)?;
        self.session = Some(smtp);
        Ok(())
    }

    /// The files that can be attached; the text names the others.
    fn read_files(&self, deliver: &Deliver, size_max: Option<usize>, text: &mut String) -> Vec<File> {
        let mut room = size_max.map_or(usize::MAX, |size| size.saturating_sub(4 * text.len() + ENVELOPE));
        let mut files = Vec::new();
        for file in &deliver.files {
            let not = match (&file.path, &file.error) {
                (Some(path), _) => match self.read_file(path, room) {
                    Ok(bytes) => {
                        // Base64 in lines.
                        room = room.saturating_sub(bytes.len().div_ceil(3) * 4 * 78 / 76 + 1_024);
                        files.push(File { name: file.name.clone(), bytes });
                        continue;
                    }
                    Err(why) => why,
                },
                (None, why) => why.clone().unwrap_or_else(|| "it is gone".to_owned()),
            };
            text.push_str(&format!("\n\n(file {} not sent: {not})", file.name));
        }
        files
    }

    fn read_file(&self, name: &str, room: usize) -> Result<Vec<u8>, String> {
        let path = inside(&self.files, name).ok_or("it has no usable name")?;
        let size = std::fs::metadata(&path).map_err(|error| error.to_string())?.len();
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size.saturating_mul(3) / 2 > room {
            return Err("the mail would be larger than the mail server accepts".to_owned());
        }
        std::fs::read(&path).map_err(|error| error.to_string())
    }

    fn remove_files(&self, deliver: &Deliver) {
        let paths = deliver.files.iter().filter_map(|file| file.path.as_deref());
        for path in paths.filter_map(|name| inside(&self.files, name)) {
            // It may be gone.
            drop(std::fs::remove_file(path));
        }
    }

    /// Whether the server has filed a copy of a mail.
    fn was_sent(&self, message_id: &str) -> Result<bool, Trouble> {
        let mut imap = Imap::open(&self.settings, &self.trust, &self.token)?;
        let mailbox = match &self.settings.sent {
            Some(mailbox) => mailbox.clone(),
            None => imap.sent_mailbox()?.ok_or_else(|| {
                Trouble::Odd("the server does not say where copies are; set `sent` to the mailbox".to_owned())
            })?,
        };
        imap.examine(&mailbox)?;
        Ok(!imap.search(&format!("HEADER Message-ID \"{message_id}\""))?.is_empty())
    }
}

/// The path of a file in the directory for files. Hearth names files, and never paths.
fn inside(directory: &Path, name: &str) -> Option<PathBuf> {
    (!name.is_empty() && name != "." && name != ".." && !name.contains('/')).then(|| directory.join(name))
}

/// The beginning of a text, for a subject.
fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("Message");
    if line.chars().count() <= 70 {
        return line.to_owned();
    }
    let start: String = line.chars().take(70).collect();
    let end = start.rfind(' ').filter(|end| *end > 30).unwrap_or(start.len());
    format!("{} …", start.get(..end).unwrap_or_default())
}

/// The text of a delivery, or why it cannot be sent.
fn shown(deliver: &Deliver) -> Result<String, String> {
    let text = match (deliver.act, &deliver.card) {
        (DeliverAct::Say, _) => deliver.text.clone(),
        (DeliverAct::Ask, Some(card)) => {
            let mut text = format!("{}\n\n{}\n", card.title, card.body);
            for (number, option) in card.options.iter().enumerate() {
                text.push_str(&format!("\n{}. {}", number + 1, option.label));
            }
            text
        }
        (DeliverAct::Ask, None) => return Err("the card is missing".to_owned()),
        (DeliverAct::Edit | DeliverAct::React, _) => return Err("a sent mail cannot be changed".to_owned()),
    };
    if text.len() > TEXT_BYTES_MAX { Err(format!("it is longer than {TEXT_BYTES_MAX} bytes")) } else { Ok(text) }
}
