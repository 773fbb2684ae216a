use std::collections::BTreeSet;

use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::*;
use crate::config::file::{self, write};
use crate::engine::commit::{Engine, Submission};
use crate::model::address::{ChannelName, ForeignId, UserId};
use crate::model::configure::Configure;
use crate::model::entity::{
    Access, ContextFrom, Engage, EnvValue, ExtraMount, Ignored, Limits, Network, ProviderKind, SenderScope,
    SessionMode, Skills, Trust, UnknownSenders,
};
use crate::model::input::Input;
use crate::model::policy::Policy;
use crate::model::report::{Action, ChangeReport, Reply};
use crate::model::retention::{Keep, Retention};
use crate::model::time::{Awake, Moment};
use crate::state::{Options, Store};

const FOLDERS: [&str; 3] = ["a", "b-2", "C_3"];

fn name() -> impl Strategy<Value = String> {
    "[A-Za-zé\"'\\\\#=🦞][ -~]{0,9}"
}

fn folder(text: &str) -> Folder {
    Folder::new(text).unwrap()
}

fn agent() -> impl Strategy<Value = AgentSettings> {
    let value = prop_oneof![
        "[^:\\x00]{0,6}".prop_map(EnvValue::Plain),
        "(env|file|cmd):[ -~]{0,6}".prop_map(EnvValue::Plain),
        Just(EnvValue::Reference("env:X".to_owned())),
        Just(EnvValue::Reference("cmd:pass show \"it\"".to_owned())),
    ];
    let env = proptest::collection::btree_map("[A-G][A-Z0-9_]{0,4}", value, 0..3);
    let command = vec("[!-~][ -~é\n]{0,5}", 1..3);
    (
        name(),
        any::<bool>(),
        command,
        env,
        option::of(name()),
        select(vec![Trust::Main, Trust::Trusted, Trust::Untrusted]),
        vec(name().prop_map(|tool| tool.replace(',', "_")), 0..2),
        0..1_000_u32,
        (1..1_000_u32, sight()),
    )
        .prop_map(|(name, real, command, env, model, trust, blocked_tools, prompt, (parallel, sight))| {
            AgentSettings {
                name,
                provider: if real { ProviderKind::Command } else { ProviderKind::Echo },
                command: if real { command } else { Vec::new() },
                env: env.into_iter().collect(),
                effort: model.clone(),
                model,
                trust,
                unconfined: real,
                blocked_tools,
                max_prompt_messages: prompt,
                max_parallel: parallel,
                network: sight.0,
                mounts: sight.1,
                limits: sight.2,
                skills: sight.3,
                allow_host_loopback: !real,
                folder_access: real.then_some(Access::ReadWrite),
                gateway: !real,
                models: if real { vec!["m".to_owned()] } else { Vec::new() },
                ..AgentSettings::named(String::new())
            }
        })
}

fn sight() -> impl Strategy<Value = (Network, Vec<ExtraMount>, Limits, Skills)> {
    let access = select(vec![Access::ReadOnly, Access::ReadWrite]);
    let mount = ("(~|/)/[a-z \"é\\\\]{1,6}", access);
    let mounts = vec(mount, 0..3).prop_map(|mounts| {
        let number = |(number, (host_path, access))| {
            let container_path = Some(format!("n{number}/it"));
            ExtraMount { host_path, container_path, access }
        };
        mounts.into_iter().enumerate().map(number).collect()
    });
    let memory = option::of((16_u64 << 20)..=(1_u64 << 50));
    let limits = (memory, option::of(10..=1_024_000_u32), option::of(16..=4_194_304_u32))
        .prop_map(|(memory, cpu, pids)| Limits { memory, cpu, pids });
    let names = btree_set("[a-z0-9][a-zA-Z0-9_.-]{0,5}", 0..3);
    let skills =
        option::of(names).prop_map(|names| names.map_or(Skills::All, |n| Skills::Only(n.into_iter().collect())));
    (select(Network::ALL.to_vec()), mounts, limits, skills)
}

fn user(agents: Vec<String>) -> impl Strategy<Value = UserSpec> {
    let all = agents.len();
    let roles = (any::<bool>(), any::<bool>(), subsequence(agents.clone(), 0..=all));
    (name(), option::of(name()), roles, subsequence(agents, 0..=all)).prop_map(|(id, name, roles, member_of)| {
        let (owner, admin, of) = roles;
        let mut roles: Vec<RoleSpec> = owner.then_some(RoleSpec::Owner).into_iter().collect();
        roles.extend(admin.then_some(RoleSpec::Admin));
        roles.extend(of.iter().map(|agent| RoleSpec::AdminOf(folder(agent))));
        let id = UserId::new(ChannelName::new("t").unwrap(), ForeignId::new("id", id).unwrap());
        UserSpec { id, name, roles, member_of: member_of.iter().map(|agent| folder(agent)).collect() }
    })
}

fn wiring(agent: String) -> impl Strategy<Value = WiringSpec> {
    let engage = select(vec![Engage::Mention, Engage::Pattern(".".into()), Engage::Pattern("^\"a\\d+'".into())]);
    let senders = select(vec![SenderScope::All, SenderScope::Known]);
    let ignored = select(vec![Ignored::Drop, Ignored::Accumulate]);
    let session = select(vec![SessionMode::Shared, SessionMode::PerThread, SessionMode::AgentShared]);
    let context = option::of(select(vec![ContextFrom::Known, ContextFrom::Anyone]));
    (engage, senders, ignored, session, any::<i32>(), context).prop_map(
        move |(engage, senders, ignored, session, priority, context_from)| {
            let agent = folder(&agent);
            WiringSpec { agent, engage, senders, ignored, session, priority, context_from }
        },
    )
}

fn chat(agents: Vec<String>) -> impl Strategy<Value = ChatSpec> {
    let all = agents.len();
    let wirings =
        subsequence(agents, 0..=all).prop_flat_map(|agents| agents.into_iter().map(wiring).collect::<Vec<_>>());
    let strangers = select(vec![UnknownSenders::Strict, UnknownSenders::RequestApproval, UnknownSenders::Public]);
    (name(), option::of(name()), any::<bool>(), strangers, wirings).prop_map(
        |(id, name, group, unknown_senders, wirings)| {
            let platform_id = ForeignId::new("id", id).unwrap();
            ChatSpec { channel: ChannelName::new("t/é").unwrap(), platform_id, name, group, unknown_senders, wirings }
        },
    )
}

/// Configurations without dangling references and duplicates.
fn changes() -> impl Strategy<Value = Vec<Change>> {
    btree_set(select(FOLDERS.to_vec()), 0..=3).prop_flat_map(|names: BTreeSet<&str>| {
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        let settings = (option::of(4_194_304..=u64::from(u32::MAX)), option::of(1..=1_000_u32), any::<bool>());
        let default = names.first().cloned();
        let agents = vec(agent(), names.len());
        let parts = (agents, vec(user(names.clone()), 0..3), vec(chat(names.clone()), 0..3), settings);
        parts.prop_map(move |(agents, users, chats, (store_max_bytes, max_containers, named))| {
            let mut known = BTreeSet::new();
            let agents = names.iter().zip(agents).map(|(name, settings)| Change::PutAgent(folder(name), settings));
            let mut changes: Vec<Change> = agents.collect();
            changes.extend(users.into_iter().filter(|u| known.insert(u.id.to_string())).map(Change::PutUser));
            let chats = chats.into_iter().filter(|chat| known.insert(format!("chat {}", chat.platform_id)));
            changes.extend(chats.map(Change::PutChat));
            let default_agent = default.as_deref().filter(|_| named).map(folder);
            let days = max_containers.map(Keep::Days).filter(|_| named);
            let bodies = days.or_else(|| store_max_bytes.map(|_| Keep::Forever));
            let retention = Retention { bodies, journal: days, ..Retention::default() };
            let settings =
                Settings { default_agent, store_max_bytes, max_containers, retention, ..Settings::default() };
            changes.extend((settings != Settings::default()).then_some(Change::PutSettings(settings)));
            changes
        })
    })
}

fn configure(engine: &Engine, changes: Vec<Change>) -> Vec<ChangeReport> {
    let now = Moment { wall: Timestamp::from_millis(1_000), awake: Awake::new(1, 0) };
    let input = Input::Configure(Configure::new(changes, Origin::File));
    let answer = engine.commit(&[Submission::new(input)], now, 1).unwrap().pop().unwrap().unwrap();
    match answer.reply {
        Reply::Configured(reports) => reports,
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_written_is_read_again(changes in changes()) {
        let text = write::write(&changes);
        prop_assert_eq!(file::parse("hearth.toml", &text).unwrap().changes, changes, "{}", text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// The export of any configuration changes nothing when applied, and has no differences to it.
    #[test]
    fn an_export_that_is_applied_changes_nothing(changes in changes()) {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::new(Store::open(dir.path(), Options::new(1)).unwrap(), Policy::STANDARD, b"/groups".to_vec());
        configure(&engine, changes);
        let known = engine.store().read(collect).unwrap();
        let exported = file::parse("hearth.toml", &write::write(&known.changes())).unwrap().changes;
        prop_assert!(known.diff(&exported).values().all(Vec::is_empty));
        let mut again = exported;
        again.push(Change::Prune);
        let reports = configure(&engine, again);
        prop_assert!(reports.iter().all(|report| report.action == Action::Unchanged), "{:?}", reports);
    }
}
