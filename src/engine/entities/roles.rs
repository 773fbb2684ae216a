//! Grants and revokes single roles and memberships by command. `people` applies those from a file.

use crate::Result;
use crate::entities::change;
use crate::entities::change::ChangeResult;
use crate::model::address::UserId;
use crate::model::configure::RoleSpec;
use crate::model::entity::{Folder, Grant, Membership, Origin, Role, User};
use crate::model::id::AgentId;
use crate::model::report::Action;
use crate::rows::{agents, people};
use crate::state::{GrantKey, MemberKey, PersonKey, RoleHolderKey};
use crate::tx::Tx;

/// Gives a person a role. Creates the person's row if there is none.
pub(crate) fn grant(tx: &mut Tx<'_, '_>, user: &UserId, spec: &RoleSpec, by: Option<&UserId>) -> Result<ChangeResult> {
    let role = match role(tx, spec)? {
        Ok(role) => role,
        Err(reason) => return Ok(Err(reason)),
    };
    know(tx, user)?;
    let entity = role_entity(user, spec);
    let key = GrantKey { person: PersonKey::of(user), role };
    if tx.db.roles.contains(tx, &key)? {
        return Ok(Ok(vec![change::report(entity, Action::Unchanged)]));
    }
    let at = tx.now.wall;
    tx.db.roles.put(tx, &key, &Grant { user: user.clone(), at, by: by.cloned(), origin: Origin::Runtime })?;
    Ok(Ok(vec![change::report(entity, Action::Created)]))
}

/// Takes a role from a person.
pub(crate) fn revoke(tx: &mut Tx<'_, '_>, user: &UserId, spec: &RoleSpec) -> Result<ChangeResult> {
    let role = match role(tx, spec)? {
        Ok(role) => role,
        Err(reason) => return Ok(Err(reason)),
    };
    if !tx.db.roles.delete(tx, &GrantKey { person: PersonKey::of(user), role })? {
        return Ok(Err(format!(
            "{user} does not have the role {}; `hearth roles list` shows who has which",
            words(spec)
        )));
    }
    Ok(Ok(vec![change::report(role_entity(user, spec), Action::Removed)]))
}

/// Makes a person a member of an agent.
pub(crate) fn add_member(
    tx: &mut Tx<'_, '_>,
    folder: &Folder,
    user: &UserId,
    by: Option<&UserId>,
) -> Result<ChangeResult> {
    let Some((agent, _)) = agents::find(tx, folder)? else { return Ok(Err(agents::missing(folder))) };
    know(tx, user)?;
    let key = MemberKey { agent, person: PersonKey::of(user) };
    let entity = member_entity(folder, user);
    if tx.db.members.contains(tx, &key)? {
        return Ok(Ok(vec![change::report(entity, Action::Unchanged)]));
    }
    let membership = Membership { user: user.clone(), at: tx.now.wall, by: by.cloned(), origin: Origin::Runtime };
    tx.db.members.put(tx, &key, &membership)?;
    Ok(Ok(vec![change::report(entity, Action::Created)]))
}

/// Makes an approved person a member of an agent. Creates the person's row if there is none.
pub(crate) fn let_in(
    tx: &mut Tx<'_, '_>,
    agent: AgentId,
    user: &UserId,
    name: Option<&str>,
    by: Option<&UserId>,
) -> Result<()> {
    know(tx, user)?;
    people::refresh_name(tx, Some(user), name)?;
    let key = MemberKey { agent, person: PersonKey::of(user) };
    if tx.db.members.contains(tx, &key)? {
        return Ok(());
    }
    let row = Membership { user: user.clone(), at: tx.now.wall, by: by.cloned(), origin: Origin::Runtime };
    tx.db.members.put(tx, &key, &row)
}

/// Removes a membership.
pub(crate) fn remove_member(tx: &mut Tx<'_, '_>, folder: &Folder, user: &UserId) -> Result<ChangeResult> {
    let Some((agent, _)) = agents::find(tx, folder)? else { return Ok(Err(agents::missing(folder))) };
    if !tx.db.members.delete(tx, &MemberKey { agent, person: PersonKey::of(user) })? {
        return Ok(Err(format!("{user} is not a member of {folder}; `hearth members list {folder}` shows who is")));
    }
    Ok(Ok(vec![change::report(member_entity(folder, user), Action::Removed)]))
}

/// Removes all roles and memberships that concern a removed agent.
pub(crate) fn forget_agent(tx: &mut Tx<'_, '_>, agent: AgentId) -> Result<()> {
    let role = Role::AdminOf(agent);
    for (RoleHolderKey { person, .. }, ()) in tx.db.roles_by_grant.collect_prefix(tx, &role, usize::MAX)? {
        tx.db.roles.delete(tx, &GrantKey { person, role })?;
    }
    for (key, _) in tx.db.members.collect_prefix(tx, &agent, usize::MAX)? {
        tx.db.members.delete(tx, &key)?;
    }
    Ok(())
}

fn role(tx: &Tx<'_, '_>, spec: &RoleSpec) -> Result<std::result::Result<Role, String>> {
    Ok(match spec {
        RoleSpec::Owner => Ok(Role::Owner),
        RoleSpec::Admin => Ok(Role::GlobalAdmin),
        RoleSpec::AdminOf(folder) => match agents::find(tx, folder)? {
            Some((agent, _)) => Ok(Role::AdminOf(agent)),
            None => Err(agents::missing(folder)),
        },
    })
}

/// Creates the row of a person who has none.
fn know(tx: &mut Tx<'_, '_>, id: &UserId) -> Result<()> {
    let key = PersonKey::of(id);
    if tx.db.users.contains(tx, &key)? {
        return Ok(());
    }
    let user = User { id: id.clone(), name: None, origin: Origin::Runtime, created: tx.now.wall };
    tx.db.users.put(tx, &key, &user)
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
    use crate::entities::roles::*;
    use crate::scene::{Scene, folder, person};

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
            ("net:bob", admin_of("z"), Err("agent z not found; see `hearth agents list`")),
            ("net:eve", admin_of("z"), Err("agent z not found; see `hearth agents list`")),
        ] {
            let told = scene.tell(|tx, _| grant(tx, &person(user), &spec, None));
            assert_eq!(told, expected.map(str::to_owned).map_err(str::to_owned), "{user} {spec:?}");
        }
        // The second grant of the role kept its time. A person whose grant was refused has no row.
        assert_eq!(scene.keys("roles"), ["net/ann/owner", "net/ann/admin:ag1", "net/bob/admin"]);
        assert_eq!(scene.keys("users"), ["net/ann", "net/bob"]);
        assert_eq!(scene.keys("roles_by_grant").len(), 3);
    }

    #[test]
    fn roles_are_taken_one_by_one() {
        let scene = Scene::new();
        for spec in [OWNER, admin_of("a"), admin_of("b")] {
            scene.done(|tx, _| grant(tx, &person("net:ann"), &spec, None));
        }
        for (user, spec, expected) in [
            ("net:ann", admin_of("a"), Ok("removed role net:ann admin:a")),
            ("net:ann", admin_of("a"), Err("net:ann does not have the role admin:a")),
            ("net:ann", ADMIN, Err("net:ann does not have the role admin;")),
            ("net:bob", OWNER, Err("net:bob does not have the role owner")),
            ("net:ann", admin_of("z"), Err("agent z not found")),
        ] {
            let told = scene.tell(|tx, _| revoke(tx, &person(user), &spec));
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
        let add = |name: &str| scene.tell(|tx, _| add_member(tx, &folder(name), &person("net:ann"), None));
        assert_eq!(add("a").unwrap(), "created member net:ann of a");
        assert_eq!(add("a").unwrap(), "unchanged member net:ann of a");
        assert!(add("z").unwrap_err().starts_with("agent z not found"));
        assert_eq!(scene.keys("members"), ["ag1/net/ann"]);
        let remove = |name: &str| scene.tell(|tx, _| remove_member(tx, &folder(name), &person("net:ann")));
        assert!(remove("b").unwrap_err().starts_with("net:ann is not a member of b"));
        assert!(remove("z").unwrap_err().starts_with("agent z not found"));
        assert_eq!(remove("a").unwrap(), "removed member net:ann of a");
        assert!(scene.keys("members").is_empty());
    }

    #[test]
    fn an_agent_that_goes_takes_the_rights_to_it_along() {
        let scene = Scene::new();
        for name in ["a", "b"] {
            scene.done(|tx, _| grant(tx, &person("net:ann"), &admin_of(name), None));
            scene.done(|tx, _| add_member(tx, &folder(name), &person("net:ann"), None));
        }
        scene.done(|tx, _| crate::entities::agents::remove(tx, &folder("a")));
        assert_eq!(scene.keys("roles"), ["net/ann/admin:ag2"]);
        assert_eq!(scene.keys("members"), ["ag2/net/ann"]);
        assert_eq!(scene.keys("roles_by_grant").len(), 1);
    }
}
