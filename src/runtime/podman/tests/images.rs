//! Which image a container gets, and what is reported when it is no longer the current one.

use super::*;
use crate::runtime::image::image_of;

const TWO: SessionId = SessionId::new(2);

/// Builds a different image with this name.
fn build(world: &World, name: &str) {
    let recipe = world.path("Containerfile");
    std::fs::write(&recipe, format!("FROM {}\nLABEL made-for={}\n", image(), world.install)).unwrap();
    let (recipe, context) = (recipe.to_string_lossy(), world.path("groups"));
    podman(&["build", "-q", "-t", name, "-f", &recipe, &context.to_string_lossy()]);
    podman(&["image", "inspect", name]).parse::<serde_json::Value>().unwrap();
}

#[test]
fn what_runs_from_another_image_than_its_name_means_is_told() {
    let Some(world) = World::new("sleep 1000") else { return };
    let name = format!("localhost/{}-rebuilt:1", world.install);
    podman(&["tag", &image(), &name]);
    let same = Spec { image: Some(name.clone()), ..world.spec(TWO, 3) };
    let mut own = world.spec(ONE, 1);
    own.settings.packages.apt = vec!["jq".to_owned()];
    let wanted = image_of(&world.install, "main", &own.settings, own.image.as_deref());
    world.runtime.ensure(own);
    world.heard.running(ONE, 1);
    world.runtime.ensure(same);
    world.heard.running(TWO, 3);
    assert_eq!(world.inspect(ONE, "{{.ImageName}}"), image(), "the base, as long as its own is missing");

    let outdated = |event: &RuntimeEvent| matches!(event, RuntimeEvent::Outdated(..));
    world.runtime.compare_images();
    build(&world, &wanted);
    world.runtime.compare_images();
    world.heard.wait("its own image", |event| (*event == RuntimeEvent::Outdated(ONE, 1)).then_some(()));
    assert_eq!(world.heard.count(outdated), 1);
    build(&world, &name);
    world.runtime.compare_images();
    world.heard.wait("the rebuilt image", |event| (*event == RuntimeEvent::Outdated(TWO, 3)).then_some(()));

    world.runtime.kill(ONE, 1);
    world.heard.gone(ONE, 1);
    let mut own = world.spec(ONE, 2);
    own.settings.packages.apt = vec!["jq".to_owned()];
    world.runtime.ensure(own);
    world.heard.running(ONE, 2);
    assert_eq!(world.inspect(ONE, "{{.ImageName}}"), wanted);
    world.heard.clear();
    world.runtime.kill(TWO, 3);
    world.heard.gone(TWO, 3);
    world.runtime.compare_images();
    assert_eq!(world.heard.count(outdated), 0);
    drop(world);
    podman(&["rmi", "-f", &wanted, &name]);
}
