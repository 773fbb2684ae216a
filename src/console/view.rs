//! What pages show: plain data that was read and checked already. All texts may come from strangers.

use super::Rank;
use crate::model::card::Button;
use crate::model::console_command::ConsoleCommand;
use crate::model::time::Timestamp;

/// What matters now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Home {
    /// What needs a decision.
    pub asked: Asked,
    /// Runs of agents, and sessions whose messages wait for one.
    pub runs: Vec<Run>,
    /// What is wrong, with what to do about it.
    pub problems: Vec<String>,
    /// What was spent today, in words; none if the person does not see it.
    pub spent: Option<String>,
    /// The newest messages.
    pub recent: Vec<Recent>,
    /// Agents that the person may talk to, by their folders.
    pub agents: Vec<AgentName>,
}

/// An agent's folder and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentName {
    pub folder: String,
    pub name: String,
}

/// A run of an agent, or a session that waits for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub session: String,
    /// The agent's folder.
    pub agent: String,
    pub chat: String,
    /// What it does, in words.
    pub doing: String,
    pub since: Option<String>,
}

/// A message, for a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recent {
    pub id: String,
    /// The agent's folder.
    pub agent: String,
    pub chat: String,
    /// The beginning of its text.
    pub text: String,
    /// When a message last arrived.
    pub at: String,
}

/// What needs a decision, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// Approvals, questions and skipped work.
    pub prompts: Vec<Prompt>,
    /// Number of those that are not in the list.
    pub more: usize,
}

/// An approval, a question, or skipped work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    pub id: String,
    /// `Approval`, `Question` or `Skipped work`.
    pub kind: &'static str,
    /// Its state, in words; none while it is open.
    pub state: Option<String>,
    /// Everything that it puts into effect, as text with lines.
    pub about: String,
    /// Agents, chat, sender and others that it concerns: a label and a text.
    pub facts: Vec<(&'static str, String)>,
    /// When it was asked.
    pub created: String,
    /// When it expires; none if it stays open.
    pub expires: Option<String>,
    /// What can be chosen; empty if it is not open.
    pub options: Vec<Choice>,
    /// Messages that wait for it, the oldest first.
    pub held: Vec<Held>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub label: String,
    /// What is submitted.
    pub value: String,
    /// What has to be written as well, which is added to the value; none if nothing.
    pub asks: Option<&'static str>,
}

/// A message that waits for a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// When it was sent.
    pub said: String,
    pub text: String,
    /// Names of its files.
    pub files: Vec<String>,
}

/// The person's chat with an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chat {
    pub agent: AgentName,
    /// The other agents that the person may talk to.
    pub others: Vec<AgentName>,
    /// Messages, the oldest first.
    pub lines: Vec<Line>,
    /// A message that the page with earlier ones begins from; none if there are no earlier ones.
    pub earlier: Option<String>,
    /// The same for later ones.
    pub later: Option<String>,
    /// What the agent does now; none if it does nothing.
    pub working: Option<String>,
    /// What it has written of its answer.
    pub writing: Option<String>,
}

/// A message in a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub id: String,
    /// Who wrote it.
    pub by: Author,
    pub at: Timestamp,
    pub text: String,
    pub files: Vec<LineFile>,
    /// Its state, if that is worth a word.
    pub state: Option<String>,
    /// Buttons under it.
    pub buttons: Vec<CardButton>,
}

/// A file of a message in a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineFile {
    pub name: String,
    /// Its place among the files of an answer, if it can be downloaded.
    pub download: Option<usize>,
}

/// Who wrote a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Author {
    Person,
    /// The agent, or another one that speaks here.
    Agent(String),
    Hearth,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardButton {
    pub label: String,
    /// What is submitted.
    pub button: Button,
}

/// The history of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    /// The id that was asked for.
    pub id: String,
    /// What is known of the message or the answer: a label and a text.
    pub facts: Vec<(&'static str, String)>,
    /// What each agent that listens decided.
    pub decisions: Vec<Decision>,
    /// What happened, in order.
    pub steps: Vec<Step>,
    /// Where its messages and answers are now.
    pub states: Vec<(String, String)>,
}

/// What one wiring decided about a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The agent's folder; none if it concerns all.
    pub agent: Option<String>,
    /// What was decided.
    pub decision: String,
    pub reason: String,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub at: Timestamp,
    /// What, in words.
    pub what: String,
    pub kind: StepKind,
}

/// The kind of a step, which the picture shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// A message came in, or waits.
    Arrival,
    /// Something waits for a person or a time.
    Wait,
    /// An agent works.
    Work,
    Answer,
    /// It ended well.
    Done,
    /// It failed or was refused.
    Trouble,
}

/// A topic with tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    Agents,
    /// Scheduled tasks.
    Tasks,
    /// People, and chats.
    People,
    Spend,
    /// What agents reached, and were refused.
    Network,
    /// State of the installation.
    Health,
    /// Browsers in which people are signed in.
    Sessions,
}

impl Topic {
    pub const ALL: &'static [Self] =
        &[Self::Agents, Self::Tasks, Self::People, Self::Spend, Self::Network, Self::Health, Self::Sessions];

    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Agents => "Agents",
            Self::Tasks => "Tasks",
            Self::People => "People",
            Self::Spend => "Spend",
            Self::Network => "Network",
            Self::Health => "Health",
            Self::Sessions => "Signed in",
        }
    }

    /// Its part of the address.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Agents => "agents",
            Self::Tasks => "tasks",
            Self::People => "people",
            Self::Spend => "spend",
            Self::Network => "network",
            Self::Health => "health",
            Self::Sessions => "sessions",
        }
    }

    /// Whether the person may see this page.
    #[must_use]
    pub fn is_for(self, rank: &Rank) -> bool {
        match self {
            Self::Sessions => true,
            Self::Agents | Self::Tasks | Self::Network => rank.decides(),
            Self::People | Self::Spend | Self::Health => *rank == Rank::Everything,
        }
    }
}

/// A part of a page: a table, or a text if it has no rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Section {
    pub title: String,
    /// Headings of the columns.
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
    /// What to say below it, or instead of it.
    pub note: Option<String>,
    /// Forms below it.
    pub forms: Vec<Entry>,
}

/// A row of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    pub cells: Vec<Cell>,
    /// What can be done with it.
    pub buttons: Vec<RowButton>,
}

/// A cell of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cell {
    pub text: String,
    /// The page that it leads to.
    pub link: Option<Link>,
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, link: None }
    }
}

/// A page that a cell leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// The page of the agent that the cell names.
    Agent,
    /// The history of the message that the cell names.
    Why,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowButton {
    pub label: String,
    /// What it does.
    pub command: ConsoleCommand,
    /// Whether one press is enough.
    pub care: Care,
}

/// Whether a button needs a second press.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Care {
    /// It can be taken back, or does little.
    Light,
    /// It ends or forbids something, so it is shown after another press.
    Grave,
}

/// A form with two fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub title: &'static str,
    /// The first field.
    pub of: Field,
    /// The second one.
    pub to: Field,
    /// What it can do, and the texts of the buttons.
    pub buttons: Vec<EntryButton>,
}

/// A field of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// What it is about.
    pub label: &'static str,
    /// What can be chosen; none for any text.
    pub choices: Option<Vec<String>>,
    /// An example of a text.
    pub example: &'static str,
}

/// A button of a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryButton {
    pub label: &'static str,
    /// What it does, as [`ConsoleCommand`]s are named in forms.
    pub what: &'static str,
}
