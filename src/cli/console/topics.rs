//! Tables of the console's pages, with the columns of commands.

use crate::cli::listed::Listed;
use crate::cli::watch::TaskView;
use crate::cli::{budgets, chats, configuration, human_size, net, spend, watch};
use crate::clock;
use crate::config::file::write::{Fields, role_word};
use crate::console::view::{Section, Topic};
use crate::console::{Rank, Visitor};
use crate::socket::protocol::DaemonStatus;
use crate::state::{self, Read, Tables, Usage};

/// State of the installation that is not in the store.
pub(super) struct Around {
    pub(super) status: DaemonStatus,
    pub(super) usage: Usage,
}

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
        Topic::People => people(db, txn),
        Topic::Spend => spend_of(db, txn),
        Topic::Network => network(db, txn, who),
        Topic::Health => Ok(health(around)),
        Topic::Sessions => sessions(db, txn, who),
    }
}

/// A table with the columns of a command.
fn section<T: Listed>(title: &str, found: &[T]) -> Section {
    let columns: Vec<&str> = T::COLUMNS.iter().map(|(heading, _)| *heading).collect();
    let rows = found.iter().map(|one| T::COLUMNS.iter().map(|(_, cell)| cell(one)).collect()).collect();
    table(title, &columns, rows)
}

fn table(title: &str, columns: &[&str], rows: Vec<Vec<String>>) -> Section {
    let note = rows.is_empty().then(|| "None.".to_owned());
    let columns = columns.iter().map(|name| name.to_lowercase()).collect();
    Section { title: title.to_owned(), columns, rows, note }
}

fn sessions(db: &Tables, txn: &Read<'_>, who: &Visitor) -> Result<Vec<Section>, state::Error> {
    let own = who.user.to_string();
    let mut found = super::sessions(db, txn)?;
    found.retain(|one| who.rank == Rank::Everything || one.user == own);
    let note = "`hearth console sign-out ID` signs a browser out.".to_owned();
    Ok(vec![Section { note: Some(note), ..section(Topic::Sessions.title(), &found) }])
}

fn agents(db: &Tables, txn: &Read<'_>, who: &Visitor) -> Result<Section, state::Error> {
    let known = configuration::collect(db, txn)?;
    let sees = known.agents.into_iter().filter(|agent| who.rank.sees(agent.folder.as_str()));
    let rows = sees.map(|agent| {
        let fields = Fields::of_agent(&agent.folder, &agent.settings);
        let field = |key| fields.get(key).map_or_else(String::new, ToString::to_string);
        vec![
            agent.folder.to_string(),
            agent.settings.name.clone(),
            agent.settings.provider.as_str().to_owned(),
            field("model"),
            field("trust"),
            field("network"),
        ]
    });
    Ok(table(Topic::Agents.title(), &["folder", "name", "provider", "model", "trust", "network"], rows.collect()))
}

fn tasks(db: &Tables, txn: &Read<'_>, who: &Visitor) -> Result<Vec<Section>, state::Error> {
    let found = watch::tasks(db, txn)?;
    let rows = found.iter().filter(|task| who.rank.sees(&task.agent)).map(|task: &TaskView| {
        let next = task.next.clone().filter(|_| !task.paused);
        vec![
            task.task.clone(),
            task.agent.clone(),
            watch::standing(task, clock::wall()),
            next.unwrap_or_default(),
            task.prompt.clone(),
        ]
    });
    Ok(vec![table(Topic::Tasks.title(), &["task", "agent", "next run", "at", "prompt"], rows.collect())])
}

fn people(db: &Tables, txn: &Read<'_>) -> Result<Vec<Section>, state::Error> {
    let known = configuration::collect(db, txn)?;
    let words = |all: Vec<String>| all.join(", ");
    let people = known.users.iter().map(|user| {
        let spec = &user.spec;
        vec![
            spec.id.to_string(),
            spec.name.clone().unwrap_or_default(),
            words(spec.roles.iter().map(role_word).collect()),
            words(spec.member_of.iter().map(ToString::to_string).collect()),
        ]
    });
    let chats = known.chats.iter().map(|chat| {
        let agents = chat.spec.wirings.iter().map(|wiring| wiring.agent.to_string());
        vec![chat.id.to_string(), chats::label(chat), words(agents.collect())]
    });
    Ok(vec![
        table("People", &["id", "name", "roles", "member of"], people.collect()),
        table("Chats", &["id", "chat", "agents"], chats.collect()),
    ])
}

fn spend_of(db: &Tables, txn: &Read<'_>) -> Result<Vec<Section>, state::Error> {
    let mut sections =
        spend::tables(db, txn)?.into_iter().map(|(title, lines)| section(title, &lines)).collect::<Vec<_>>();
    sections.push(section("Budgets", &budgets::all(db, txn)?));
    Ok(sections)
}

fn network(db: &Tables, txn: &Read<'_>, who: &Visitor) -> Result<Vec<Section>, state::Error> {
    let (connections, decisions) = net::newest(db, txn, &|agent| who.rank.sees(agent))?;
    Ok(vec![section("Connections", &connections), section("Decisions", &decisions)])
}

fn health(around: &Around) -> Vec<Section> {
    let Around { status, usage } = around;
    let fact = |name: &str, value: String| vec![name.to_owned(), value];
    let daemon = vec![
        fact("version", status.version.clone()),
        fact("process", status.pid.to_string()),
        fact("agents run", format!("as {}, because {}", status.runtime, status.runtime_why)),
        fact("time zone", format!("{} ({})", status.zone, status.zone_from)),
        fact("terminals", status.terminals.to_string()),
        fact("inputs that wait", status.queued.to_string()),
    ];
    let room = vec![
        fact("used", human_size::decimal(usage.used)),
        fact("limit", human_size::decimal(usage.limit)),
        fact("free on the disk", human_size::decimal(usage.free)),
    ];
    let channels = status.channels.iter().map(|one| {
        vec![
            one.name.clone(),
            one.kind.clone(),
            one.state.clone(),
            one.why.clone().unwrap_or_default(),
            one.last_contact.clone().unwrap_or_default(),
        ]
    });
    let note = "`hearth doctor` checks more, and says what to do.".to_owned();
    vec![
        table("Daemon", &["", ""], daemon),
        table("Store", &["", ""], room),
        Section {
            note: Some(note),
            ..table("Channels", &["name", "type", "state", "why", "last contact"], channels.collect())
        },
    ]
}
