//! Requests that need an approval: servers, packages, new agents.

use super::*;
use crate::world::requests::{S, ask, decide, main_agent, newest, packages};
use hearth::state::InboxKey;

/// During a turn the incarnation is left alone until the turn ends; the next one has the server.
#[test]
fn an_approved_server_is_used_by_the_next_incarnation() {
    let mut world = working();
    ask(&mut world, "m", Request::AddMcpServer(server()));
    let Some(Ok(submitted)) = reply(&world, "m") else { panic!() };
    assert_eq!(submitted["approval"], "ap1");
    assert_eq!(submitted["text"], "MCP server request submitted. You will be notified when admin approves or rejects.");
    let (_, card) = outbound(&world, |outbound| matches!(outbound.act, Act::Ask(_))).unwrap();
    let Act::Ask(card) = card.act else { panic!() };
    for part in ["files", "mcp-files", "--all", "TOKEN", "env:TOKEN"] {
        assert!(card.body.contains(part), "the card shows {part}: {}", card.body);
    }
    assert!(matches!(decide(&mut world, "approve"), Reply::Answered { decided: true, .. }));
    assert_eq!(main_agent(&world).settings.mcp_servers, [server()]);
    let (note, body) = newest(&world);
    assert!(note.trigger);
    assert_eq!(
        body.content.text,
        "MCP server \"files\" added. Verify it's available (e.g. list your tools) and report the result to the user."
    );
    assert_eq!(world.incarnation(S, 1).stopped_for, None, "it works on something");
    assert!(!world.outside.inbox[&S].contains_key(&note.seq), "the note is for the next one");
    let input = world.outside.write(S, vec![end(2, 1, vec![])]);
    world.put(input);
    world.settle();
    assert_eq!(world.incarnation(S, 1).stopped_for, Some(StopReason::Renewed));
    assert_eq!(world.session(S).live, Some(2));
    assert!(world.outside.inbox[&S].contains_key(&note.seq));
    assert_eq!(
        world
            .message(
                world.read(|db, txn| Ok(db
                    .messages_by_session
                    .get(txn, &InboxKey { session: S, seq: note.seq })?
                    .unwrap()))
            )
            .tries,
        0
    );
}

/// A request names no variable of the daemon that the operator has not listed, and none that others use. This is
/// checked when it arrives and when it is approved.
#[test]
fn secrets_of_the_daemon_are_not_for_requests() {
    let naming = |variable: &str| McpServer {
        env: vec![("TOKEN".into(), EnvValue::Reference(format!("env:{variable}")))],
        ..server()
    };
    let bridge = r#"
[channels.bridge]
type = "webhook"
secret = "env:TOKEN"
listen = "127.0.0.1:18999"
"#;
    let other = "[[agents]]\nfolder = \"other\"\nenv = { A = \"cmd:echo $TOKEN\" }\n";
    for (more, variable, problem) in [
        ("", "BRIDGE_SECRET", Some("the operator has not listed")),
        ("", "KEY", Some("the operator has not listed")),
        (bridge, "TOKEN", Some("a channel or another agent uses")),
        (other, "TOKEN", Some("a channel or another agent uses")),
        ("", "TOKEN", None),
    ] {
        let mut world = working();
        if !more.is_empty() {
            world.apply(more);
        }
        ask(&mut world, "m", Request::AddMcpServer(naming(variable)));
        match (reply(&world, "m"), problem) {
            (Some(Err(why)), Some(problem)) => assert!(why.contains(problem), "{variable} {more}: {why}"),
            (Some(Ok(_)), None) => {}
            other => panic!("{variable} {more}: {other:?}"),
        }
        let asked = world.read(|db, txn| db.approvals.len(txn));
        assert_eq!(asked, u64::from(problem.is_none()), "{variable} {more}");
    }
    // A request that was valid when it arrived is checked again when it is approved.
    for more in [bridge, other] {
        let mut world = working();
        ask(&mut world, "m", Request::AddMcpServer(naming("TOKEN")));
        world.apply(more);
        assert!(matches!(decide(&mut world, "approve"), Reply::Answered { decided: false, .. }), "{more}");
        assert!(main_agent(&world).settings.mcp_servers.is_empty(), "{more}");
        let told = newest(&world).1.content.text;
        assert!(told.contains("a channel or another agent uses"), "{told}");
    }
}

#[test]
fn approved_packages_are_kept_once_each() {
    let mut world = working();
    let input = world.outside.write(S, vec![end(2, 1, vec![])]);
    world.put(input);
    ask(&mut world, "p", packages());
    let (_, card) = outbound(&world, |outbound| matches!(outbound.act, Act::Ask(_))).unwrap();
    assert!(card.text.contains("nothing is installed"), "the card says that there is no image: {}", card.text);
    let Some(Ok(submitted)) = reply(&world, "p") else { panic!() };
    assert!(
        submitted["text"].as_str().unwrap().contains("approved packages are noted, but not installed"),
        "{submitted}"
    );
    assert!(matches!(decide(&mut world, "approve"), Reply::Answered { decided: true, .. }));
    let (_, body) = newest(&world);
    assert!(
        body.content.text.starts_with("Packages added to config (jq, @a/b). They are installed when"),
        "{}",
        body.content.text
    );
    assert_eq!(world.incarnation(S, 1).stopped_for, Some(StopReason::Renewed), "an idle one ends at once");
    ask(&mut world, "p2", packages());
    world.put(Input::Decide(PromptSubject::Approval(ApprovalId::new(2)), "approve".into()));
    world.settle();
    let Agent { settings, .. } = main_agent(&world);
    assert_eq!(settings.packages, Packages { apt: vec!["jq".into()], npm: vec!["@a/b".into()] });
}

/// The number of packages per kind and of servers is limited. A refusal changes nothing, and existing ones stay.
#[test]
fn an_agent_has_a_bounded_number_of_everything() {
    const PACKAGES: usize = 200;
    const SERVERS: usize = 32;
    for (packages_before, servers_before, fits) in [(PACKAGES - 1, SERVERS - 1, true), (PACKAGES, SERVERS, false)] {
        let mut world = working();
        let named = |number: usize| McpServer { name: format!("s{number}"), ..server() };
        let mut agent = main_agent(&world);
        agent.settings.packages.apt = (0..packages_before).map(|number| format!("p{number}")).collect();
        agent.settings.mcp_servers = (0..servers_before).map(named).collect();
        let id = world.session(S).agent;
        world.store().write(|db, txn| db.agents.put(txn, &id, &agent)).unwrap();
        ask(&mut world, "p", packages());
        decide(&mut world, "approve");
        let text = newest(&world).1.content.text;
        assert_eq!(text.ends_with("an agent can have at most 200 packages of each kind"), !fits, "{text}");
        ask(&mut world, "m", Request::AddMcpServer(server()));
        world.put(Input::Decide(PromptSubject::Approval(ApprovalId::new(2)), "approve".into()));
        let text = newest(&world).1.content.text;
        assert_eq!(text.ends_with("an agent has at most 32 MCP servers"), !fits, "{text}");
        let Agent { settings, .. } = main_agent(&world);
        assert_eq!((settings.packages.apt.len(), settings.mcp_servers.len()), (PACKAGES, SERVERS));
        assert_eq!(settings.mcp_servers.contains(&server()), fits);
    }
}

#[test]
fn what_is_not_approved_is_told() {
    let mut world = working();
    ask(&mut world, "m", Request::AddMcpServer(server()));
    decide(&mut world, "reject");
    assert_eq!(newest(&world).1.content.text, "Your add_mcp_server request was rejected by admin.");
    assert!(main_agent(&world).settings.mcp_servers.is_empty());
    // An approval that was already decided.
    assert!(matches!(decide(&mut world, "approve"), Reply::Refused(_)));
    assert!(main_agent(&world).settings.mcp_servers.is_empty());

    let mut world = working();
    ask(&mut world, "p", packages());
    world.pass(Millis::minutes(8 * 24 * 60));
    world.outside.running.clear();
    world.sweep();
    world.settle();
    assert!(matches!(the_approval(&world).state, ApprovalState::Expired { .. }));
    let said: Vec<String> =
        world.read(|db, txn| db.bodies.iter(txn)?.map(|row| row.map(|(_, body)| body.content.text)).collect());
    assert!(
        said.contains(&"Your install_packages request has expired: no one answered in time.".to_owned()),
        "{said:?}"
    );
}

#[test]
fn with_nobody_to_ask_the_agent_hears_so_at_once() {
    let mut world = working();
    world.configure(vec![hearth::model::configure::Change::RemoveUser(UserId::parse("terminal:7").unwrap())]).unwrap();
    for (name, request) in [("p", packages()), ("m", Request::AddMcpServer(server()))] {
        ask(&mut world, name, request);
        let Some(Err(why)) = reply(&world, name) else { panic!("{name}") };
        assert!(why.ends_with("failed: no owner or admin who could approve it can be reached."), "{why}");
    }
    assert_eq!(world.read(|db, txn| db.approvals.len(txn)), 0);
}

/// New agents are named as in NanoClaw; unlike there, they need an approval.
#[test]
fn new_agents_are_approved_and_made_in_one_step() {
    for (name, other, local, folder) in [
        ("Research Bot", None, "research-bot", "research-bot"),
        ("Research Bot", Some("research-bot"), "research-bot", "research-bot-2"),
        ("日本", None, "unnamed", "unnamed"),
    ] {
        let mut world = working();
        if let Some(other) = other {
            world.apply(&format!("[[agents]]\nfolder = \"{other}\"\n"));
        }
        ask(&mut world, "c", create(name));
        let before = world.read(|db, txn| db.agents.len(txn));
        assert!(matches!(reply(&world, "c"), Some(Ok(_))), "{name}");
        decide(&mut world, "approve");
        assert_eq!(world.read(|db, txn| db.agents.len(txn)), before + 1);
        let (_, child) = world.read(|db, txn| db.agents.iter(txn)?.last().unwrap());
        assert_eq!((child.folder.as_str(), child.settings.name.as_str()), (folder, name));
        assert_eq!(child.settings.instructions.as_deref(), Some("Find things out."));
        assert_eq!((child.settings.trust, child.settings.unconfined), (Trust::Untrusted, false));
        assert_eq!(child.settings.env, main_agent(&world).settings.env, "driven like its maker");
        let text =
            format!("Agent \"{local}\" created. You can now message it with <message to=\"{local}\">...</message>.");
        assert_eq!(newest(&world).1.content.text, text);
        assert!(world.outside.destinations[&S].contains(&local.to_owned()), "the live session knows it");
        let named: Vec<String> = world.read(|db, txn| {
            db.destinations
                .iter(txn)?
                .map(|row| row.map(|(key, _)| format!("{} {}", key.agent, key.name.as_str())))
                .collect()
        });
        assert!(
            named.contains(&format!("ag1 {local}")) && named.iter().any(|row| row.ends_with(" parent")),
            "{named:?}"
        );
    }
}

/// Row 3: an existing destination, when requested and when approved.
#[test]
fn a_name_that_is_taken_makes_nothing() {
    let mut world = working();
    ask(&mut world, "c", create("Scout"));
    ask(&mut world, "c2", create("scout"));
    decide(&mut world, "approve");
    let agents = world.read(|db, txn| db.agents.len(txn));
    let taken = "Cannot create agent \"scout\": you already have a destination named \"scout\".";
    world.put(Input::Decide(PromptSubject::Approval(ApprovalId::new(2)), "approve".into()));
    world.settle();
    assert_eq!(newest(&world).1.content.text, taken);
    ask(&mut world, "c3", create("scout"));
    assert_eq!(reply(&world, "c3"), Some(Err(taken.into())));
    ask(&mut world, "c4", create("Global"));
    assert_eq!(reply(&world, "c4"), Some(Err("Cannot create agent \"Global\": invalid folder path.".into())));
    assert_eq!(world.read(|db, txn| db.agents.len(txn)), agents);
}

/// Files in the folder of an archived agent do not reach other agents.
#[test]
fn a_new_agent_never_gets_the_folder_of_an_archived_one() {
    let mut world = working();
    world.apply("[[agents]]\nfolder = \"scout\"\n");
    let folder = hearth::model::entity::Folder::new("scout").unwrap();
    world.configure(vec![hearth::model::configure::Change::RemoveAgent(folder)]).unwrap();
    ask(&mut world, "c", create("Scout"));
    decide(&mut world, "approve");
    let (_, child) = world.read(|db, txn| db.agents.iter(txn)?.last().unwrap());
    assert_eq!(child.folder.as_str(), "scout-2");
}

/// A late approval: the agent that asked was removed.
#[test]
fn an_approval_for_an_agent_that_is_gone_makes_nothing() {
    let mut world = working();
    ask(&mut world, "c", create("Scout"));
    world.configure(vec![hearth::model::configure::Change::RemoveAgent(main_agent(&world).folder)]).unwrap();
    world.settle();
    decide(&mut world, "approve");
    assert!(matches!(the_approval(&world).state, ApprovalState::Superseded { .. }), "{:?}", the_approval(&world).state);
    assert_eq!(world.read(|db, txn| db.agents.len(txn)), 1);
}
