//! `hearth users`, `hearth roles` and `hearth members`: people and their permissions.

use clap::{Args, Subcommand};
use serde_json::Value as Json;

use super::configuration::{self, Configuration, UserEntry};
use super::entity::{self, text, texts};
use super::{Done, Failure, change, print};
use crate::config::Paths;
use crate::config::file;
use crate::config::file::write::{Fields, Value, role_word};
use crate::model::address::UserId;
use crate::model::configure::Change;
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
    },
    /// Remove a person with roles and memberships
    Remove {
        /// channel:sender-id, like telegram:123
        user: String,
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
        UsersCommand::List => list(&known, json),
        UsersCommand::Show { user } => show(find(&known, user)?, json),
        UsersCommand::Add { user, keys } => {
            if find(&known, user).is_ok() {
                return Err(entity::exists("user", user, "users"));
            }
            let mut fields = Fields::default();
            fields.set("id", Value::Text(user.clone()));
            keys.put(&mut fields, &[]);
            change::put(paths, &known, entity::toml(&[("[[users]]", &fields)]), json)
        }
        UsersCommand::Set { user, keys, clear } => {
            let mut fields = Fields::of_user(&find(&known, user)?.spec);
            keys.put(&mut fields, clear);
            change::put(paths, &known, entity::toml(&[("[[users]]", &fields)]), json)
        }
        UsersCommand::Remove { user } => change::edit(paths, Change::RemoveUser(UserId::parse(user)?), json),
    }
}

/// Lists, grants and revokes roles.
pub(super) fn roles(paths: &Paths, command: &RolesCommand, json: bool) -> Done {
    match command {
        RolesCommand::List => {
            let known = configuration::read(paths)?;
            let of = |entry: &UserEntry| -> Vec<Json> {
                let one = |role| serde_json::json!({ "user": entry.spec.id.to_string(), "role": role_word(role) });
                entry.spec.roles.iter().map(one).collect()
            };
            let all = known.users.iter().flat_map(of).collect();
            entity::list("roles", json, all, &[("USER", "user"), ("ROLE", "role")])
        }
        RolesCommand::Grant { user, role } => {
            change::edit(paths, Change::Grant(UserId::parse(user)?, file::role(role).map_err(Failure::Failed)?), json)
        }
        RolesCommand::Revoke { user, role } => {
            change::edit(paths, Change::Revoke(UserId::parse(user)?, file::role(role).map_err(Failure::Failed)?), json)
        }
    }
}

/// Lists, adds and removes memberships.
pub(super) fn members(paths: &Paths, command: &MembersCommand, json: bool) -> Done {
    match command {
        MembersCommand::List { agent } => {
            let known = configuration::read(paths)?;
            agent.as_ref().map_or(Ok(()), |agent| entity::known_agent(&known, agent))?;
            let wanted = |folder: &str| agent.as_ref().is_none_or(|agent| agent == folder);
            let of = |entry: &UserEntry| -> Vec<Json> {
                let folders = entry.spec.member_of.iter().filter(|folder| wanted(folder.as_str()));
                let id = entry.spec.id.to_string();
                folders.map(|folder| serde_json::json!({ "agent": folder.as_str(), "user": id })).collect()
            };
            let all = known.users.iter().flat_map(of).collect();
            entity::list("members", json, all, &[("AGENT", "agent"), ("USER", "user")])
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

fn list(known: &Configuration, json: bool) -> Done {
    let one = |user: &UserEntry| entity::json(&facts(user), &Fields::of_user(&user.spec));
    let columns =
        [("USER", "id"), ("NAME", "name"), ("ROLES", "roles"), ("MEMBER OF", "member_of"), ("ORIGIN", "origin")];
    entity::list("users", json, known.users.iter().map(one).collect(), &columns)
}

fn show(user: &UserEntry, json: bool) -> Done {
    let fields = Fields::of_user(&user.spec);
    if json { print::json(&entity::json(&facts(user), &fields)) } else { entity::show(&facts(user), &fields) }
}
