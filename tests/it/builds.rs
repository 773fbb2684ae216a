//! Images of agents: the effects of a build, of a failed build, and of a changed image.

use hearth::model::agent::Install;
use hearth::model::entity::Packages;
use hearth::model::incarnation::{Exit, StopReason};
use hearth::model::input::{Input, RuntimeEvent};
use hearth::model::report::Reply;

use crate::world::outside::{claim, end};
use crate::world::requests::{S, ask, decide, main_agent, newest, packages, working_in};
use crate::world::{World, event, event_in};

fn both() -> Packages {
    Packages { apt: vec!["jq".into()], npm: vec!["@a/b".into()] }
}

/// An approver approved packages, and the daemon builds images.
fn approved() -> World {
    let mut world = working_in(World::building());
    ask(&mut world, "p", packages());
    assert!(matches!(decide(&mut world, "approve"), Reply::Answered { decided: true, .. }));
    world
}

fn built(world: &mut World, packages: Packages, result: Result<(), &str>) {
    let agent = world.session(S).agent;
    world.put(Input::Built(agent, packages, result.map_err(str::to_owned)));
    world.settle();
}

#[test]
fn who_asked_for_packages_is_told_when_its_image_has_them() {
    let mut world = approved();
    let card = "“main” (main) asks for packages in its image, in session ";
    assert!(world.all_outbound().iter().any(|(_, row)| row.text.contains(card)));
    assert!(!world.all_outbound().iter().any(|(_, row)| row.text.contains("nothing is installed")));
    let install = Install { session: S, packages: both() };
    assert_eq!((main_agent(&world).installs, main_agent(&world).settings.packages), (vec![install], both()));
    let (before, _) = newest(&world);
    // An image whose build began before the decision does not have them.
    built(&mut world, Packages::default(), Ok(()));
    built(&mut world, Packages { npm: Vec::new(), ..both() }, Ok(()));
    built(&mut world, Packages { apt: Vec::new(), ..both() }, Ok(()));
    assert_eq!(newest(&world).0.seq, before.seq, "nothing is told before there is something");
    built(&mut world, both(), Ok(()));
    let (note, body) = newest(&world);
    assert_eq!(
        body.content.text,
        "Packages installed (jq, @a/b) and container rebuilt. Verify the new packages are available (e.g. run them or \
         check versions) and report the result to the user."
    );
    assert!(note.trigger && main_agent(&world).installs.is_empty());
    assert!(!world.outside.inbox[&S].contains_key(&note.seq), "what works does not have them");
    let input = world.outside.write(S, vec![end(2, 1, vec![])]);
    world.put(input);
    world.settle();
    assert_eq!(world.incarnation(S, 1).stopped_for, Some(StopReason::Renewed));
    assert!(world.session(S).live == Some(2) && world.outside.inbox[&S].contains_key(&note.seq));
    // A repeated build result is reported once.
    built(&mut world, both(), Ok(()));
    assert_eq!((newest(&world).0.seq, world.session(S).live), (note.seq, Some(2)));
    world.assert_sound();
}

/// An incarnation that was started after the decision, but before the image existed, does not have the packages either.
#[test]
fn who_started_before_the_image_was_there_is_replaced() {
    let mut world = approved();
    let turn = world.outside.write(S, vec![end(2, 1, vec![])]);
    world.put(turn);
    world.settle();
    if world.session(S).live.is_some() {
        let gone = world.outside.end(S, 1, Exit::Code(0));
        world.put(gone);
        world.settle();
    }
    let sender = r#""senderId":"ann","senderName":"Ann""#;
    world.inject(&event_in(("net", "C", Some("t")), ("2", "hello again", sender), ""));
    world.settle();
    let claims = world.outside.write(S, vec![claim(4, 2)]);
    world.put(claims);
    assert_eq!((world.session(S).live, world.incarnation(S, 2).outdated), (Some(2), None));
    built(&mut world, both(), Ok(()));
    assert_eq!(world.incarnation(S, 2).outdated, Some(StopReason::Renewed));
}

#[test]
fn a_build_that_fails_is_told_once_to_the_agent_and_to_the_owner() {
    let mut world = approved();
    // The owner is at the terminal.
    world.inject(&event_in(("terminal", "t", None), ("o", "x", ""), ""));
    world.apply("[[chats]]\nchannel = \"terminal\"\nplatform_id = \"t\"");
    built(&mut world, both(), Err("there is no package jq"));
    let (note, body) = newest(&world);
    assert_eq!(
        body.content.text,
        "Packages added to config (jq, @a/b) but rebuild failed; the owner has been told why. Tell the user — an admin \
         will need to retry the install_packages request or inspect the build logs."
    );
    assert!(world.outside.inbox[&S].contains_key(&note.seq), "who runs goes on");
    let told = |world: &World| {
        let said = world.all_outbound();
        said.into_iter().filter(|(_, one)| one.text.starts_with("The image of agent main could not be built")).count()
    };
    assert_eq!(told(&world), 1);
    built(&mut world, both(), Err("still none"));
    assert_eq!((told(&world), newest(&world).0.seq), (1, note.seq));
    world.assert_sound();
}

/// A rebuilt image with the same name replaces incarnations of the old one once they are idle.
#[test]
fn another_image_replaces_who_is_idle() {
    let mut world = World::of(crate::world::ONE);
    world.inject(&event("1", "x", ""));
    world.settle();
    let input = world.outside.write(S, vec![claim(2, 1)]);
    world.put(input);
    world.put(Input::Runtime(RuntimeEvent::Outdated(S, 1)));
    world.put(Input::Runtime(RuntimeEvent::Outdated(S, 7)));
    world.settle();
    assert_eq!(world.incarnation(S, 1).stopped_for, None, "it works on something");
    let input = world.outside.write(S, vec![end(2, 1, vec![])]);
    world.put(input);
    world.settle();
    assert_eq!((world.incarnation(S, 1).stopped_for, world.session(S).live), (Some(StopReason::Renewed), None));
    world.put(Input::Runtime(RuntimeEvent::Outdated(S, 1)));
    world.assert_sound();
}
