//! `[[users]]`.

use super::section::{Keys, Problems, Section, excerpt};
use super::{Once, folder};
use crate::model::address::UserId;
use crate::model::configure::{Change, RoleSpec, UserSpec};

pub(super) const USERS: Keys = Keys { place: "[[users]]", known: &["id", "name", "roles", "member_of"], later: &[] };

pub(super) fn read(problems: &mut Problems<'_>, top: &Section<'_>) -> Vec<Change> {
    let mut once = Once::default();
    let mut changes = Vec::new();
    for section in top.tables(problems, "users", &USERS) {
        let id = id(problems, &section);
        let name = section.line(problems, "name");
        let roles = each(problems, &section, "roles", role);
        let member_of = each(problems, &section, "member_of", folder);
        let Some(id) = id else { continue };
        if once.note(problems, section.at(), format!("the user `{id}`")) {
            changes.push(Change::PutUser(UserSpec { id, name, roles, member_of }));
        }
    }
    changes
}

fn id(problems: &mut Problems<'_>, section: &Section<'_>) -> Option<UserId> {
    let (at, text) = section.needed(problems, "id")?;
    UserId::parse(text).map_err(|error| problems.add(at, format!("{error}; write it like \"telegram:123\""))).ok()
}

/// The entries of a list, without duplicates.
fn each<T: PartialEq>(
    problems: &mut Problems<'_>,
    section: &Section<'_>,
    key: &str,
    read: fn(&str) -> Result<T, String>,
) -> Vec<T> {
    let mut entries = Vec::new();
    for (at, text) in section.texts(problems, key) {
        match read(text) {
            Ok(entry) if entries.contains(&entry) => {
                problems.add(at, format!("`{key}` has \"{}\" twice; remove one", excerpt(text)));
            }
            Ok(entry) => entries.push(entry),
            Err(what) => problems.add(at, what),
        }
    }
    entries
}

pub(super) fn role(text: &str) -> Result<RoleSpec, String> {
    match text.split_once(':') {
        None if text == "owner" => Ok(RoleSpec::Owner),
        None if text == "admin" => Ok(RoleSpec::Admin),
        Some(("admin", name)) => folder(name).map(RoleSpec::AdminOf),
        Some(("owner", _)) => {
            Err("the role of owner is for everything, not for one agent; write \"owner\" or \"admin:<folder>\"".into())
        }
        _ => Err(format!("\"{}\" is not a role; write \"owner\", \"admin\" or \"admin:<folder>\"", excerpt(text))),
    }
}

/// A role in the file.
#[must_use]
pub fn role_word(role: &RoleSpec) -> String {
    match role {
        RoleSpec::Owner => "owner".to_owned(),
        RoleSpec::Admin => "admin".to_owned(),
        RoleSpec::AdminOf(folder) => format!("admin:{folder}"),
    }
}
