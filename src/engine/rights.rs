//! One role or membership at a time, as commands give and take them. `people` makes them as a file describes.

use super::configure::{Made, report};
use super::{Cx, Result, agents, users};
use crate::model::address::UserId;
use crate::model::configure::RoleSpec;
use crate::model::entity::{Folder, Grant, Membership, Origin, Role, User};
use crate::model::id::AgentId;
use crate::model::report::Action;
use crate::state::{ForeignKey, Write};

/// Gives a person a role; the person's row is made if there is none.
pub(super) fn grant(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (user, spec): (&UserId, &RoleSpec),
    origin: Origin,
) -> Result<Made> {
    let role = match role(cx, txn, spec)? {
        Ok(role) => role,
        Err(reason) => return Ok(Err(reason)),
    };
    know(cx, txn, user, origin)?;
    let entity = role_entity(user, spec);
    let (channel, handle) = ForeignKey::user(user);
    let key = (channel.clone(), handle.clone(), role);
    if cx.db.roles.contains(txn, &key)? {
        return Ok(Ok(vec![report(entity, Action::Unchanged)]));
    }
    cx.db.roles.put(txn, &key, &Grant { user: user.clone(), at: cx.now.wall, by: None, origin })?;
    cx.db.roles_by_grant.put(txn, &(role, cx.now.wall, channel, handle), &())?;
    Ok(Ok(vec![report(entity, Action::Created)]))
}

/// Takes a role from a person.
pub(super) fn revoke(cx: &Cx<'_>, txn: &mut Write<'_>, user: &UserId, spec: &RoleSpec) -> Result<Made> {
    let role = match role(cx, txn, spec)? {
        Ok(role) => role,
        Err(reason) => return Ok(Err(reason)),
    };
    if !take(cx, txn, ForeignKey::user(user), role)? {
        return Ok(Err(format!(
            "{user} does not have the role {}; `hearth roles list` shows who has which",
            words(spec)
        )));
    }
    Ok(Ok(vec![report(role_entity(user, spec), Action::Removed)]))
}

/// Lets a person talk to an agent.
pub(super) fn add_member(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (folder, user): (&Folder, &UserId),
    origin: Origin,
) -> Result<Made> {
    let Some((agent, _)) = agents::find(cx, txn, folder)? else { return Ok(Err(agents::missing(folder))) };
    know(cx, txn, user, origin)?;
    let (channel, handle) = ForeignKey::user(user);
    let key = (agent, channel, handle);
    let entity = member_entity(folder, user);
    if cx.db.members.contains(txn, &key)? {
        return Ok(Ok(vec![report(entity, Action::Unchanged)]));
    }
    cx.db.members.put(txn, &key, &Membership { user: user.clone(), at: cx.now.wall, by: None, origin })?;
    Ok(Ok(vec![report(entity, Action::Created)]))
}

/// Lets a person whom Hearth may not know yet talk to an agent, because somebody said so.
pub(super) fn let_in(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    agent: AgentId,
    (user, name): (&UserId, Option<&str>),
    by: Option<&UserId>,
) -> Result<()> {
    know(cx, txn, user, Origin::Runtime)?;
    users::refresh_name(cx, txn, Some(user), name)?;
    let (channel, handle) = ForeignKey::user(user);
    let key = (agent, channel, handle);
    if cx.db.members.contains(txn, &key)? {
        return Ok(());
    }
    let row = Membership { user: user.clone(), at: cx.now.wall, by: by.cloned(), origin: Origin::Runtime };
    cx.db.members.put(txn, &key, &row)
}

/// Takes a membership back.
pub(super) fn remove_member(cx: &Cx<'_>, txn: &mut Write<'_>, folder: &Folder, user: &UserId) -> Result<Made> {
    let Some((agent, _)) = agents::find(cx, txn, folder)? else { return Ok(Err(agents::missing(folder))) };
    let (channel, handle) = ForeignKey::user(user);
    if !cx.db.members.delete(txn, &(agent, channel, handle))? {
        return Ok(Err(format!("{user} is not a member of {folder}; `hearth members list {folder}` shows who is")));
    }
    Ok(Ok(vec![report(member_entity(folder, user), Action::Removed)]))
}

/// Nobody administers an agent that was removed, or is a member of it.
pub(super) fn forget_agent(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId) -> Result<()> {
    let role = Role::AdminOf(agent);
    for ((_, _, channel, handle), ()) in cx.db.roles_by_grant.collect_prefix(txn, &role, usize::MAX)? {
        take(cx, txn, (channel, handle), role)?;
    }
    for ((_, channel, handle), _) in cx.db.members.collect_prefix(txn, &agent, usize::MAX)? {
        cx.db.members.delete(txn, &(agent, channel, handle))?;
    }
    Ok(())
}

fn take(cx: &Cx<'_>, txn: &mut Write<'_>, (channel, handle): (ForeignKey, ForeignKey), role: Role) -> Result<bool> {
    let key = (channel.clone(), handle.clone(), role);
    let Some(grant) = cx.db.roles.get(txn, &key)? else { return Ok(false) };
    cx.db.roles_by_grant.delete(txn, &(role, grant.at, channel, handle))?;
    cx.db.roles.delete(txn, &key)
}

fn role(cx: &Cx<'_>, txn: &Write<'_>, spec: &RoleSpec) -> Result<std::result::Result<Role, String>> {
    Ok(match spec {
        RoleSpec::Owner => Ok(Role::Owner),
        RoleSpec::Admin => Ok(Role::GlobalAdmin),
        RoleSpec::AdminOf(folder) => match agents::find(cx, txn, folder)? {
            Some((agent, _)) => Ok(Role::AdminOf(agent)),
            None => Err(agents::missing(folder)),
        },
    })
}

/// Makes the row of a person who has none.
fn know(cx: &Cx<'_>, txn: &mut Write<'_>, id: &UserId, origin: Origin) -> Result<()> {
    let key = ForeignKey::user(id);
    if cx.db.users.contains(txn, &key)? {
        return Ok(());
    }
    cx.db.users.put(txn, &key, &User { id: id.clone(), name: None, origin, created: cx.now.wall })
}

fn words(spec: &RoleSpec) -> String {
    match spec {
        RoleSpec::Owner => "owner".to_owned(),
        RoleSpec::Admin => "admin".to_owned(),
        RoleSpec::AdminOf(folder) => format!("admin:{folder}"),
    }
}

fn role_entity(user: &UserId, spec: &RoleSpec) -> String {
    format!("role {user} {}", words(spec))
}

fn member_entity(folder: &Folder, user: &UserId) -> String {
    format!("member {user} of {folder}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::scene::{Scene, folder, person};

    const OWNER: RoleSpec = RoleSpec::Owner;
    const ADMIN: RoleSpec = RoleSpec::Admin;

    fn admin_of(name: &str) -> RoleSpec {
        RoleSpec::AdminOf(folder(name))
    }

    #[test]
    fn roles_are_given_once() {
        let scene = Scene::new();
        for (user, spec, expected) in [
            ("net:ann", OWNER, Ok("created role net:ann owner")),
            ("net:ann", OWNER, Ok("unchanged role net:ann owner")),
            ("net:ann", admin_of("a"), Ok("created role net:ann admin:a")),
            ("net:bob", ADMIN, Ok("created role net:bob admin")),
            ("net:bob", admin_of("z"), Err("there is no agent z; see `hearth agents list`")),
            ("net:eve", admin_of("z"), Err("there is no agent z; see `hearth agents list`")),
        ] {
            let told = scene.tell(|cx, txn, _| grant(cx, txn, (&person(user), &spec), Origin::Runtime));
            assert_eq!(told, expected.map(str::to_owned).map_err(str::to_owned), "{user} {spec:?}");
        }
        // The second grant of a role left its time alone; whoever was refused is nobody.
        assert_eq!(scene.keys("roles"), ["net/ann/owner", "net/ann/admin:ag1", "net/bob/admin"]);
        assert_eq!(scene.keys("users"), ["net/ann", "net/bob"]);
        assert_eq!(scene.keys("roles_by_grant").len(), 3);
    }

    #[test]
    fn roles_are_taken_one_by_one() {
        let scene = Scene::new();
        for spec in [OWNER, admin_of("a"), admin_of("b")] {
            scene.done(|cx, txn, _| grant(cx, txn, (&person("net:ann"), &spec), Origin::Runtime));
        }
        for (user, spec, expected) in [
            ("net:ann", admin_of("a"), Ok("removed role net:ann admin:a")),
            ("net:ann", admin_of("a"), Err("net:ann does not have the role admin:a")),
            ("net:ann", ADMIN, Err("net:ann does not have the role admin;")),
            ("net:bob", OWNER, Err("net:bob does not have the role owner")),
            ("net:ann", admin_of("z"), Err("there is no agent z")),
        ] {
            let told = scene.tell(|cx, txn, _| revoke(cx, txn, &person(user), &spec));
            match (told, expected) {
                (Ok(told), Ok(expected)) => assert_eq!(told, expected),
                (Err(told), Err(expected)) => assert!(told.starts_with(expected), "{told}"),
                other => panic!("{user} {spec:?}: {other:?}"),
            }
        }
        assert_eq!(scene.keys("roles"), ["net/ann/owner", "net/ann/admin:ag2"]);
        assert_eq!(scene.keys("roles_by_grant").len(), 2);
        assert_eq!(scene.keys("users"), ["net/ann"], "a person without roles is still known");
    }

    #[test]
    fn members_come_and_go() {
        let scene = Scene::new();
        let add = |name: &str| {
            scene.tell(|cx, txn, _| add_member(cx, txn, (&folder(name), &person("net:ann")), Origin::Runtime))
        };
        assert_eq!(add("a").unwrap(), "created member net:ann of a");
        assert_eq!(add("a").unwrap(), "unchanged member net:ann of a");
        assert!(add("z").unwrap_err().starts_with("there is no agent z"));
        assert_eq!(scene.keys("members"), ["ag1/net/ann"]);
        let remove = |name: &str| scene.tell(|cx, txn, _| remove_member(cx, txn, &folder(name), &person("net:ann")));
        assert!(remove("b").unwrap_err().starts_with("net:ann is not a member of b"));
        assert!(remove("z").unwrap_err().starts_with("there is no agent z"));
        assert_eq!(remove("a").unwrap(), "removed member net:ann of a");
        assert!(scene.keys("members").is_empty());
    }

    #[test]
    fn an_agent_that_goes_takes_the_rights_to_it_along() {
        let scene = Scene::new();
        for name in ["a", "b"] {
            scene.done(|cx, txn, _| grant(cx, txn, (&person("net:ann"), &admin_of(name)), Origin::Runtime));
            scene.done(|cx, txn, _| add_member(cx, txn, (&folder(name), &person("net:ann")), Origin::Runtime));
        }
        scene.done(|cx, txn, after| agents::remove(cx, txn, &folder("a"), &mut after.effects));
        assert_eq!(scene.keys("roles"), ["net/ann/admin:ag2"]);
        assert_eq!(scene.keys("members"), ["ag2/net/ann"]);
        assert_eq!(scene.keys("roles_by_grant").len(), 1);
    }
}
