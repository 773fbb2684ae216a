//! Who may talk to an agent: only people with a role or a membership.

use hearth::config::file;
use hearth::model::UserId;
use hearth::model::configure::{Change, RoleSpec};
use hearth::model::message::Reason;
use hearth::model::report::Outcome;

use super::ground::{GROUP, Ground};

/// Two agents, each with a strict chat of its own.
const TWO: &str = r#"
[[agents]]
folder = "ag-1"
[[agents]]
folder = "ag-2"
[[users]]
id = "telegram:owner"
roles = ["owner"]
[[users]]
id = "telegram:global"
roles = ["admin"]
[[users]]
id = "telegram:scoped"
roles = ["admin:ag-1"]
[[users]]
id = "telegram:member"
member_of = ["ag-1"]
[[users]]
id = "telegram:known"
[[chats]]
channel = "telegram"
platform_id = "c1"
unknown_senders = "strict"
[[chats.wirings]]
agent = "ag-1"
engage = "pattern"
pattern = "."
senders = "known"
[[chats]]
channel = "telegram"
platform_id = "c2"
unknown_senders = "strict"
[[chats.wirings]]
agent = "ag-2"
engage = "pattern"
pattern = "."
senders = "known"
"#;

#[test]
fn access_goes_by_role_and_membership() {
    let refused = Some(Reason::UnknownSenderStrict);
    for (case, who, first, second) in [
        ("somebody unknown", "ghost", refused, refused),
        ("the owner", "owner", None, None),
        ("an administrator of all agents", "global", None, None),
        ("an administrator of one agent, who is its member by that", "scoped", None, refused),
        ("a member", "member", None, refused),
        ("somebody known without a role", "known", refused, refused),
    ] {
        let mut ground = Ground::of(TWO);
        let reasons = ["c1", "c2"].map(|chat| ground.says_in(("telegram", chat, None), (who, "hi"), "").reason);
        assert_eq!(reasons, [first, second], "{case}");
    }
}

/// An owner of a single agent cannot be configured.
#[test]
fn nobody_owns_one_agent() {
    let toml = "schema = 1\n[[agents]]\nfolder = \"ag-1\"\n[[users]]\nid = \"t:1\"\nroles = [\"owner:ag-1\"]\n";
    assert!(file::parse("hearth.toml", toml).is_err());
}

/// As soon as there is an owner, the owner is asked.
#[test]
fn the_first_owner_is_asked_from_then_on() {
    let mut ground = Ground::of(&GROUP.replace("roles = [\"owner\"]", ""));
    assert_eq!(ground.says("s1", "hi").reason, Some(Reason::ApprovalUnavailable));
    let owner = UserId::parse("telegram:owner").unwrap();
    ground.world.configure(vec![Change::Grant(owner, RoleSpec::Owner)]).unwrap();
    assert_eq!(ground.says("s1", "hi again").outcome, Outcome::Held);
}
