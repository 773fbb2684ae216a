//! `hearth users`, `hearth roles` and `hearth members`: people and their permissions.

use clap::{Args, Subcommand};
use serde::{Serialize, Serializer};

use super::configuration::{self, Configuration, UserEntry};
use super::consent::Consent;
use super::entity::{self, text, texts};
use super::listed::{self, Column, Listed};
use super::{Done, Failure, change, print};
use crate::config::Paths;
use crate::config::file;
use crate::config::file::write::{Fields, Value, role_word};
use crate::model::address::UserId;
use crate::model::configure::{Change, RoleSpec};
use crate::model::entity::Folder;

#[derive(Debug, Subcommand)]
pub(super) enum UsersCommand {
    /// List the people Hearth knows
    List,
    /// Show one person
    Show {
        /// channel:sender-id, like telegram:123
        user: String,
    },
    /// Add a person
    Add {
        /// channel:sender-id, like telegram:123
        user: String,
        #[command(flatten)]
        keys: UserKeys,
    },
    /// Change a person; keys that are not given keep their values
    Set {
        /// channel:sender-id, like telegram:123
        user: String,
        #[command(flatten)]
        keys: UserKeys,
        /// Remove all roles, or all memberships
        #[arg(long, value_name = "KEY", value_parser = ["roles", "member_of"])]
        clear: Vec<String>,
        /// Also remove the last owner
        #[arg(long)]
        force: bool,
    },
    /// Remove a person with roles and memberships
    Remove {
        /// channel:sender-id, like telegram:123
        user: String,
        /// Also remove the last owner
        #[arg(long)]
        force: bool,
    },
}

/// The keys of `[[users]]`; what they accept is what hearth.toml accepts.
#[derive(Debug, Args)]
pub(super) struct UserKeys {
    /// Their display name
    #[arg(long)]
    name: Option<String>,
    /// `owner`, `admin` or `admin:<folder>`; repeat for more. These replace all roles
    #[arg(long, value_name = "ROLE")]
    roles: Vec<String>,
    /// Folder of an agent they may talk to; repeat for more. These replace all memberships
    #[arg(long, value_name = "FOLDER")]
    member_of: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(super) enum RolesCommand {
    /// List who has which role
    List,
    /// Grant a role to a person
    Grant {
        /// channel:sender-id, like telegram:123
        user: String,
        /// `owner`, `admin` or `admin:<folder>`
        role: String,
    },
    /// Revoke a person's role
    Revoke {
        /// channel:sender-id, like telegram:123
        user: String,
        /// `owner`, `admin` or `admin:<folder>`
        role: String,
        /// Also remove the last owner
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum MembersCommand {
    /// List who may talk to which agent
    List {
        /// Only of this agent
        agent: Option<String>,
    },
    /// Let a person talk to an agent
    Add {
        /// The agent's folder
        agent: String,
        /// channel:sender-id, like telegram:123
        user: String,
    },
    /// No longer let a person talk to an agent
    Remove {
        /// The agent's folder
        agent: String,
        /// channel:sender-id, like telegram:123
        user: String,
    },
}

/// Lists, shows and changes people.
pub(super) fn users(paths: &Paths, command: &UsersCommand, json: bool) -> Done {
    let known = configuration::read(paths)?;
    match command {
        UsersCommand::List => listed::list(&known.users, json, "no users"),
        UsersCommand::Show { user } => listed::show(find(&known, user)?, json),
        UsersCommand::Add { user, keys } => {
            if find(&known, user).is_ok() {
                return Err(entity::exists("user", user, "users"));
            }
            let mut fields = Fields::default();
            fields.set("id", Value::Text(user.clone()));
            keys.put(&mut fields, &[]);
            change::put(paths, &known, entity::toml(&[("[[users]]", &fields)]), json)
        }
        UsersCommand::Set { user, keys, clear, force } => {
            let stays_owner = keys.roles.iter().any(|role| role == "owner");
            if !stays_owner && (!keys.roles.is_empty() || clear.iter().any(|key| key == "roles")) {
                keep_an_owner(&known, user, *force, json)?;
            }
            let mut fields = Fields::of_user(&find(&known, user)?.spec);
            keys.put(&mut fields, clear);
            change::put(paths, &known, entity::toml(&[("[[users]]", &fields)]), json)
        }
        UsersCommand::Remove { user, force } => {
            keep_an_owner(&known, user, *force, json)?;
            change::edit(paths, Change::RemoveUser(UserId::parse(user)?), json)
        }
    }
}

/// Lists, grants and revokes roles.
pub(super) fn roles(paths: &Paths, command: &RolesCommand, json: bool) -> Done {
    match command {
        RolesCommand::List => {
            let known = configuration::read(paths)?;
            let roles = |entry: &UserEntry| -> Vec<RoleEntry> {
                let one = |role| RoleEntry { role: role_word(role), user: entry.spec.id.to_string() };
                entry.spec.roles.iter().map(one).collect()
            };
            let all: Vec<RoleEntry> = known.users.iter().flat_map(roles).collect();
            listed::list(&all, json, "no roles")
        }
        RolesCommand::Grant { user, role } => {
            change::edit(paths, Change::Grant(UserId::parse(user)?, file::role(role).map_err(Failure::Failed)?), json)
        }
        RolesCommand::Revoke { user, role, force } => {
            let role = file::role(role).map_err(Failure::Failed)?;
            if role == RoleSpec::Owner {
                keep_an_owner(&configuration::read(paths)?, user, *force, json)?;
            }
            change::edit(paths, Change::Revoke(UserId::parse(user)?, role), json)
        }
    }
}

/// Asks before the only owner loses that role. Without an owner, Hearth can ask no one for approvals.
fn keep_an_owner(known: &Configuration, user: &str, force: bool, json: bool) -> Done {
    let id = UserId::parse(user)?;
    let owners = known.users.iter().filter(|entry| entry.spec.roles.contains(&RoleSpec::Owner));
    let owners: Vec<&UserId> = owners.map(|entry| &entry.spec.id).collect();
    agree_to_no_owner(&id, force || owners != [&id], json)
}

/// Asks for confirmation before the last owner is removed, unless `agreed`.
pub(super) fn agree_to_no_owner(user: &UserId, agreed: bool, json: bool) -> Done {
    let why = format!("{user} is the only owner: without one, no one can decide approvals or is told of problems");
    match Consent::of(agreed, json) {
        Consent::Given => Ok(()),
        Consent::Asked if print::agreed(&format!("{why}. Go on? [y/N]: ")) => Ok(()),
        Consent::Asked => Err(Failure::Failed("cancelled: nothing was changed".to_owned())),
        Consent::Missing => Err(Failure::Failed(format!(
            "{why}; make someone else owner first with `hearth roles grant CHANNEL:ID owner`, or add --force"
        ))),
    }
}

/// Lists, adds and removes memberships.
pub(super) fn members(paths: &Paths, command: &MembersCommand, json: bool) -> Done {
    match command {
        MembersCommand::List { agent } => {
            let known = configuration::read(paths)?;
            agent.as_ref().map_or(Ok(()), |agent| entity::known_agent(&known, agent))?;
            let wanted = |folder: &str| agent.as_ref().is_none_or(|agent| agent == folder);
            let memberships = |entry: &UserEntry| -> Vec<MemberEntry> {
                let folders = entry.spec.member_of.iter().filter(|folder| wanted(folder.as_str()));
                let one = |folder: &Folder| MemberEntry { agent: folder.to_string(), user: entry.spec.id.to_string() };
                folders.map(one).collect()
            };
            let all: Vec<MemberEntry> = known.users.iter().flat_map(memberships).collect();
            listed::list(&all, json, "no members")
        }
        MembersCommand::Add { agent, user } => {
            change::edit(paths, Change::AddMember(Folder::new(agent.as_str())?, UserId::parse(user)?), json)
        }
        MembersCommand::Remove { agent, user } => {
            change::edit(paths, Change::RemoveMember(Folder::new(agent.as_str())?, UserId::parse(user)?), json)
        }
    }
}

impl UserKeys {
    fn put(&self, fields: &mut Fields, clear: &[String]) {
        let given = vec![
            ("name", text(self.name.as_ref())),
            ("roles", texts(&self.roles)),
            ("member_of", texts(&self.member_of)),
        ];
        entity::overlay(fields, given, clear);
    }
}

fn find<'c>(known: &'c Configuration, user: &str) -> Result<&'c UserEntry, Failure> {
    let id = UserId::parse(user)?;
    known.users.iter().find(|entry| entry.spec.id == id).ok_or_else(|| entity::missing("user", user))
}

fn facts(user: &UserEntry) -> Vec<(&'static str, Option<String>)> {
    vec![("origin", Some(configuration::origin(user.origin).to_owned())), ("created", Some(user.created.to_string()))]
}

impl Serialize for UserEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        entity::json(&facts(self), &Fields::of_user(&self.spec)).serialize(serializer)
    }
}

impl Listed for UserEntry {
    const PLURAL: &'static str = "users";
    const COLUMNS: &'static [Column<Self>] = &[
        ("USER", |one| one.spec.id.to_string()),
        ("NAME", |one| entity::cell(&Fields::of_user(&one.spec), "name")),
        ("ROLES", |one| entity::cell(&Fields::of_user(&one.spec), "roles")),
        ("MEMBER OF", |one| entity::cell(&Fields::of_user(&one.spec), "member_of")),
        ("ORIGIN", |one| configuration::origin(one.origin).to_owned()),
    ];

    fn print(&self) -> Done {
        entity::show(&facts(self), &Fields::of_user(&self.spec))
    }
}

/// A role that a person has.
#[derive(Debug, Serialize)]
struct RoleEntry {
    role: String,
    user: String,
}

impl Listed for RoleEntry {
    const PLURAL: &'static str = "roles";
    const COLUMNS: &'static [Column<Self>] = &[("USER", |one| one.user.clone()), ("ROLE", |one| one.role.clone())];
}

/// A person who may talk to an agent.
#[derive(Debug, Serialize)]
struct MemberEntry {
    agent: String,
    user: String,
}

impl Listed for MemberEntry {
    const PLURAL: &'static str = "members";
    const COLUMNS: &'static [Column<Self>] = &[("AGENT", |one| one.agent.clone()), ("USER", |one| one.user.clone())];
}
