//! Tables of the console's pages, with the columns of commands.

use super::health::{self, Around};
use crate::cli::listed::Listed;
use crate::cli::tasks::past_runs;
use crate::cli::watch::TaskView;
use crate::cli::{budgets, chats, configuration, net, sessions, spend, watch};
use crate::clock;
use crate::config::file::write::{Fields, role_word};
use crate::console::view::{Care, Cell, Entry, EntryButton, Field, Link, Row, RowButton, Section, Topic};
use crate::console::{Rank, Visitor};
use crate::model::configure::{Change, RoleSpec, UserSpec};
use crate::model::console_command::ConsoleCommand;
use crate::model::entity::Folder;
use crate::model::host::Endpoint;
use crate::model::id::TaskId;
use crate::model::task_command::TaskCommand;
use crate::state::{self, Read, Tables};

/// Runs of tasks on one page.
const RUNS_MAX: usize = 50;
/// Sessions on the page of an agent.
const SESSIONS_MAX: usize = 50;

/// Reads the tables of a topic, as far as a person sees them.
pub(super) fn read(
    db: &Tables,
    txn: &Read<'_>,
    who: &Visitor,
    topic: Topic,
    around: &Around,
) -> Result<Vec<Section>, state::Error> {
    if !topic.is_for(&who.rank) {
        return Ok(Vec::new());
    }
    match topic {
        Topic::Agents => Ok(vec![agents(db, txn, who)?]),
        Topic::Tasks => tasks(db, txn, who),
        Topic::People => people(db, txn, who),
        Topic::Spend => spend_of(db, txn),
        Topic::Network => network(db, txn, who),
        Topic::Health => Ok(health::sections(around)),
        Topic::Sessions => signed_in(db, txn, who),
    }
}

/// A table with the columns of a command.
fn section<T: Listed>(title: &str, found: &[T]) -> Section {
    let columns: Vec<&str> = T::COLUMNS.iter().map(|(heading, _)| *heading).collect();
    let rows = found.iter().map(|one| texts(T::COLUMNS.iter().map(|(_, cell)| cell(one)))).collect();
    table(title, &columns, rows)
}

pub(super) fn table(title: &str, columns: &[&str], rows: Vec<Row>) -> Section {
    let note = rows.is_empty().then(|| "None.".to_owned());
    let columns = columns.iter().map(|name| name.to_lowercase()).collect();
    Section { title: title.to_owned(), columns, rows, note, forms: Vec::new() }
}

/// A row without buttons.
pub(super) fn texts(cells: impl IntoIterator<Item = String>) -> Row {
    Row { cells: cells.into_iter().map(Cell::from).collect(), buttons: Vec::new() }
}

fn linked(text: String, to: Link) -> Cell {
    Cell { text, link: Some(to) }
}

fn button(label: &str, care: Care, command: ConsoleCommand) -> RowButton {
    RowButton { label: label.to_owned(), command, care }
}

fn change(label: &str, care: Care, change: Change) -> RowButton {
    button(label, care, ConsoleCommand::Change(change))
}

fn signed_in(db: &Tables, txn: &Read<'_>, who: &Visitor) -> Result<Vec<Section>, state::Error> {
    let own = who.user.to_string();
    let mut found = super::sessions(db, txn)?;
    found.retain(|one| who.rank == Rank::Everything || one.user == own);
    let mut section = section(Topic::Sessions.title(), &found);
    for (row, one) in section.rows.iter_mut().zip(&found) {
        let id = one.session.parse().ok();
        row.buttons.extend(id.map(|id| button("Sign out", Care::Light, ConsoleCommand::SignOut(id))));
        if one.session == who.session.to_string() {
            row.cells.push(Cell::from("this browser".to_owned()));
        } else {
            row.cells.push(Cell::default());
        }
    }
    section.columns.push("note".to_owned());
    Ok(vec![section])
}

fn agents(db: &Tables, txn: &Read<'_>, who: &Visitor) -> Result<Section, state::Error> {
    let known = configuration::collect(db, txn)?;
    let mut rows = Vec::new();
    for agent in known.agents.into_iter().filter(|agent| who.rank.sees(agent.folder.as_str())) {
        let fields = Fields::of_agent(&agent.folder, &agent.settings);
        let field = |key| fields.get(key).map_or_else(String::new, ToString::to_string);
        let frozen = db.frozen_agents.contains(txn, &agent.id)?;
        let cells = vec![
            linked(agent.folder.to_string(), Link::Agent),
            agent.settings.name.clone().into(),
            agent.settings.provider.as_str().to_owned().into(),
            field("model").into(),
            field("trust").into(),
            field("network").into(),
            if frozen { "frozen" } else { "" }.to_owned().into(),
        ];
        let folder = || agent.folder.clone();
        let buttons = match frozen {
            true => vec![change("Unfreeze", Care::Light, Change::UnfreezeAgent(folder()))],
            false => vec![
                change("Stop", Care::Grave, Change::StopAgent(folder())),
                change("Freeze", Care::Grave, Change::FreezeAgent(folder())),
            ],
        };
        rows.push(Row { cells, buttons });
    }
    let note = "Stop ends the turns that are running; their messages are not repeated. A frozen agent gets no work until it \
                is unfrozen.";
    let columns = ["folder", "name", "provider", "model", "trust", "network", "state"];
    Ok(Section { note: Some(note.to_owned()), ..table(Topic::Agents.title(), &columns, rows) })
}

/// What the page of an agent shows of its settings. Others can have what only its operator should read.
const SHOWN: [&str; 13] = [
    "folder",
    "name",
    "provider",
    "model",
    "effort",
    "trust",
    "unconfined",
    "network",
    "allow",
    "deny",
    "tools",
    "timezone",
    "fallback",
];

/// The tables about one agent; none if there is no such agent.
pub(super) fn agent(db: &Tables, txn: &Read<'_>, folder: &str) -> Result<Option<Vec<Section>>, state::Error> {
    let known = configuration::collect(db, txn)?;
    let Some(agent) = known.agents.iter().find(|agent| agent.folder.as_str() == folder) else { return Ok(None) };
    let fields = Fields::of_agent(&agent.folder, &agent.settings);
    let facts = SHOWN.iter().filter_map(|key| {
        let value = fields.get(key)?.to_string();
        Some(texts([(*key).to_owned(), value]))
    });
    let listed = sessions::list(db, txn, Some(folder), SESSIONS_MAX)?;
    let facts = Section { note: None, ..table("Settings", &["", ""], facts.collect()) };
    Ok(Some(vec![facts, section("Sessions", &listed)]))
}

fn tasks(db: &Tables, txn: &Read<'_>, who: &Visitor) -> Result<Vec<Section>, state::Error> {
    let found = watch::tasks(db, txn)?;
    let rows = found.iter().filter(|task| who.rank.sees(&task.agent)).map(|task: &TaskView| {
        let next = task.next.clone().filter(|_| !task.paused);
        let cells = [
            task.task.clone(),
            task.agent.clone(),
            watch::standing(task, clock::wall()),
            next.unwrap_or_default(),
            task.prompt.clone(),
        ];
        Row { buttons: task.task.parse().map(|id| of_task(id, task)).unwrap_or_default(), ..texts(cells) }
    });
    let mut runs = past_runs(db, txn, &|agent| who.rank.sees(agent))?;
    let cut = runs.len() > RUNS_MAX;
    runs.truncate(RUNS_MAX);
    let past = runs.into_iter().map(|run| {
        let mut row = texts([run.at, run.task, run.agent, run.outcome]);
        row.cells.push(linked(run.message.unwrap_or_default(), Link::Why));
        row.cells.push(run.detail.into());
        row
    });
    let past = table("Runs", &["time", "task", "agent", "outcome", "message", "detail"], past.collect());
    let note = cut.then(|| "`hearth tasks history` has older ones.".to_owned()).or(past.note.clone());
    let coming = table("Coming", &["task", "agent", "next run", "at", "prompt"], rows.collect());
    Ok(vec![coming, Section { note, ..past }])
}

fn of_task(id: TaskId, task: &TaskView) -> Vec<RowButton> {
    let act = |label, care, command| button(label, care, ConsoleCommand::Task(command));
    let pause = match task.paused {
        true => act("Resume", Care::Light, TaskCommand::Resume(id)),
        false => act("Pause", Care::Light, TaskCommand::Pause(id)),
    };
    vec![act("Run now", Care::Light, TaskCommand::Run(id)), pause, act("Cancel", Care::Grave, TaskCommand::Cancel(id))]
}

fn people(db: &Tables, txn: &Read<'_>, who: &Visitor) -> Result<Vec<Section>, state::Error> {
    let known = configuration::collect(db, txn)?;
    let is_owner =
        known.users.iter().any(|user| user.spec.id == who.user && user.spec.roles.contains(&RoleSpec::Owner));
    let words = |all: Vec<String>| all.join(", ");
    let people = known.users.iter().map(|user| {
        let spec = &user.spec;
        let cells = [
            spec.id.to_string(),
            spec.name.clone().unwrap_or_default(),
            words(spec.roles.iter().map(role_word).collect()),
            words(spec.member_of.iter().map(ToString::to_string).collect()),
        ];
        Row { buttons: of_person(spec, is_owner), ..texts(cells) }
    });
    let chats = known.chats.iter().map(|chat| {
        let agents = chat.spec.wirings.iter().map(|wiring| wiring.agent.to_string());
        let (channel, id) = (chat.spec.channel.clone(), chat.spec.platform_id.clone());
        let denied = chat.denied.map(|at| at.to_string()).unwrap_or_default();
        let name = chat.spec.name.clone().unwrap_or_default();
        let button = match (chat.denied.is_some(), chat.spec.wirings.is_empty()) {
            (true, _) => Some(change("Ask again", Care::Light, Change::AllowChat(channel, id))),
            (false, true) => Some(change("Do not ask", Care::Light, Change::DenyChat(channel, id))),
            (false, false) => None,
        };
        let cells = [chat.id.to_string(), chats::label(chat), name, words(agents.collect()), denied];
        Row { buttons: button.into_iter().collect(), ..texts(cells) }
    });
    let folders: Vec<String> = known.agents.iter().map(|agent| agent.folder.to_string()).collect();
    let mut list = table("People", &["id", "name", "roles", "member of"], people.collect());
    list.forms = forms_of_people(&folders, is_owner);
    Ok(vec![list, table("Chats", &["id", "chat", "name", "agents", "no one is asked since"], chats.collect())])
}

fn of_person(spec: &UserSpec, is_owner: bool) -> Vec<RowButton> {
    let revoke = |role: &RoleSpec| {
        let label = format!("Revoke {}", role_word(role));
        change(&label, Care::Grave, Change::Revoke(spec.id.clone(), role.clone()))
    };
    let remove = |folder: &Folder| {
        let label = format!("Remove from {folder}");
        change(&label, Care::Grave, Change::RemoveMember(folder.clone(), spec.id.clone()))
    };
    let roles = spec.roles.iter().filter(|_| is_owner).map(revoke);
    roles.chain(spec.member_of.iter().map(remove)).collect()
}

fn forms_of_people(folders: &[String], is_owner: bool) -> Vec<Entry> {
    let person = Field { label: "Person", choices: None, example: "telegram:123" };
    let member = Entry {
        title: "Let a person talk to an agent",
        of: person.clone(),
        to: Field { label: "Agent", choices: Some(folders.to_vec()), example: "" },
        buttons: vec![EntryButton { label: "Add", what: "add-member" }],
    };
    let roles = ["owner", "admin"].map(str::to_owned).into_iter();
    let roles = roles.chain(folders.iter().map(|folder| format!("admin:{folder}"))).collect();
    let grant = Entry {
        title: "Grant a role",
        of: person,
        to: Field { label: "Role", choices: Some(roles), example: "" },
        buttons: vec![EntryButton { label: "Grant", what: "grant" }],
    };
    std::iter::once(member).chain(is_owner.then_some(grant)).collect()
}

fn spend_of(db: &Tables, txn: &Read<'_>) -> Result<Vec<Section>, state::Error> {
    let mut sections =
        spend::tables(db, txn)?.into_iter().map(|(title, lines)| section(title, &lines)).collect::<Vec<_>>();
    sections.push(section("Budgets", &budgets::all(db, txn)?));
    Ok(sections)
}

fn network(db: &Tables, txn: &Read<'_>, who: &Visitor) -> Result<Vec<Section>, state::Error> {
    let (connections, decided) = net::newest(db, txn, &|agent| who.rank.sees(agent))?;
    let mut decisions = section("Decisions", &decided);
    for (row, one) in decisions.rows.iter_mut().zip(&decided) {
        let of = one.about().and_then(|(folder, to)| Some((Folder::new(folder).ok()?, to)));
        let revoke = |(folder, to): (Folder, Endpoint)| change("Revoke", Care::Grave, Change::RevokeHost(folder, to));
        row.buttons.extend(of.map(revoke));
    }
    let known = configuration::collect(db, txn)?;
    let folders = known.agents.iter().map(|agent| agent.folder.to_string()).filter(|folder| who.rank.sees(folder));
    decisions.forms.push(Entry {
        title: "Decide about a host",
        of: Field { label: "Agent", choices: Some(folders.collect()), example: "" },
        to: Field { label: "Host", choices: None, example: "api.example.org" },
        buttons: vec![
            EntryButton { label: "Allow", what: "allow-host" },
            EntryButton { label: "Refuse", what: "deny-host" },
        ],
    });
    Ok(vec![section("Connections", &connections), decisions])
}
