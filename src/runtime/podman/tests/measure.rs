//! Numbers, on demand: `cargo test -p hearth --lib podman::tests::measure -- --ignored --nocapture`.

use std::time::Instant;

use super::*;

const ROUNDS: u32 = 10;

fn median(mut times: Vec<u128>) -> u128 {
    times.sort_unstable();
    times[times.len() / 2]
}

#[test]
#[ignore = "measures"]
fn how_long_starts_and_ends_take() {
    let script = "echo x > /workspace/session/agent/first; trap 'exit 0' TERM; while :; do sleep 0.02; done";
    let Some(world) = World::new(script) else { return };
    let (mut starts, mut ends, mut deaths) = (Vec::new(), Vec::new(), Vec::new());
    let first = world.path("session/agent/first");
    for incarnation in 1..=ROUNDS {
        drop(std::fs::remove_file(&first));
        let since = Instant::now();
        world.ensure(ONE, incarnation);
        while !exists(&first) {
            std::thread::sleep(Duration::from_millis(1));
        }
        starts.push(since.elapsed().as_millis());
        world.heard.running(ONE, incarnation);
        let since = Instant::now();
        world.runtime.kill(ONE, incarnation);
        world.heard.gone(ONE, incarnation);
        ends.push(since.elapsed().as_millis());
    }
    for incarnation in ROUNDS + 1..=2 * ROUNDS {
        world.ensure(ONE, incarnation);
        world.heard.running(ONE, incarnation);
        let pid: i32 = world.inspect(ONE, "{{.State.Pid}}").parse().unwrap();
        let since = Instant::now();
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL)
            .unwrap();
        world.heard.gone(ONE, incarnation);
        deaths.push(since.elapsed().as_millis());
    }
    eprintln!("Podman itself, create to first output: {} ms", median(bare(&world)));
    let (starts, ends, deaths) = (median(starts), median(ends), median(deaths));
    eprintln!(
        "median of {ROUNDS}: ensure to first output {starts} ms, kill to gone {ends} ms, death to gone {deaths} ms"
    );
}

/// The same through Podman's own API with nothing of ours.
fn bare(world: &World) -> Vec<u128> {
    let first = world.path("session/agent/first");
    let source = world.path("session/agent");
    let body = serde_json::json!({
        "image": image(),
        "entrypoint": ["sh", "-c", "echo x > /out/first; sleep 1000"],
        "netns": { "nsmode": "none" },
        "mounts": [{ "type": "bind", "source": source, "destination": "/out", "options": ["rw"] }],
    });
    let round = || {
        drop(std::fs::remove_file(&first));
        let (shared, body) = (Arc::clone(&world.runtime.shared), body.clone());
        let since = Instant::now();
        let id = world.runtime.wait(async move {
            let id = shared.api.create(&body).await.unwrap();
            shared.api.start(&id).await.unwrap();
            id
        });
        while !exists(&first) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let took = since.elapsed().as_millis();
        podman(&["rm", "-f", "-t", "0", &id.unwrap()]);
        took
    };
    (0..ROUNDS).map(|_| round()).collect()
}
