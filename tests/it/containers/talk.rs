//! Everyday use in containers: files in both directions, tools, questions, skills and memory.

use std::path::Path;

use serde_json::{Value, json};

use super::setup::Setup;
use crate::host::telegram::{PROGRAM, typed};

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn parsed(setup: &Setup, arguments: &[&str]) -> Value {
    let mut arguments = arguments.to_vec();
    arguments.push("--json");
    serde_json::from_str(&setup.host.done(&arguments, b"")).unwrap()
}

#[test]
fn a_program_gets_files_and_sends_some() {
    let agent = "provider = \"command\"\ncommand = [\"python3\", \"/workspace/group/agent.py\"]";
    let Some(mut setup) = Setup::new(agent) else { return };
    write(&setup.group("agent.py"), PROGRAM);
    setup.host.start();
    setup.telegram.has_file("p", "photos/file 1.jpg", b"a cat".to_vec());
    let mut photo = typed(7, "");
    photo["message"]["photo"] = json!([{"file_id": "p", "width": 10, "height": 10, "file_size": 5}]);
    setup.telegram.happens(photo);
    setup.wait_shown("it says a cat");
    let sent = setup.telegram.calls("sendDocument");
    assert_eq!(sent[0].files, [("document".to_owned(), "answer.txt".to_owned(), b"A CAT".to_vec())]);
    setup.types(8, "change");
    assert_eq!(setup.wait_shown("right"), ["it says a cat", "right"]);
    setup.settle();
    let agent = setup.session().join("agent");
    let left = ["ack", "out", "out/files"].map(|name| std::fs::read_dir(agent.join(name)).unwrap().flatten().count());
    assert_eq!(left, [0, 1, 0], "what was taken in is removed");
    setup.stop();
    setup.host.done(&["agents", "remove", "main"], b"");
}

#[test]
fn the_agent_has_its_tools_its_skills_and_its_memory() {
    let Some(mut setup) = Setup::new("") else { return };
    write(
        &setup.host.data().join("skills/weather/SKILL.md"),
        "---\nname: weather\ndescription: tells the barometer\n---\nLook.\n",
    );
    setup.configure("instructions = \"Your name is Calliope.\"");
    setup.host.start();
    setup.types(
        1,
        "[[tool Bash {\"command\":\"id -u > made.txt; echo note >> CLAUDE.local.md\"}]] \
         [[tool mcp__nanoclaw__send_file {\"path\":\"made.txt\",\"text\":\"here it is\"}]] \
         [[tool mcp__nanoclaw__ask_user_question {\"title\":\"Deploy?\",\"question\":\"Now\",\"options\":[\"Yes\",\"No\"]}]] \
         [[say thanks]]",
    );
    setup.wait("the question", || {
        parsed(&setup, &["questions", "list"])["questions"].as_array().is_some_and(|all| all.len() == 1).then_some(())
    });
    let status = setup.host.done(&["status"], b"");
    assert!(status.contains("agents run as containers") && status.contains("working"), "{status}");
    setup.host.done(&["questions", "answer", "qu1", "No"], b"");
    setup.wait_shown("thanks");
    assert_eq!(setup.telegram.calls("sendDocument")[0].files[0].2, b"1000\n");
    let asked = setup.api.requests().iter().map(Value::to_string).find(|asked| asked.contains("Calliope")).unwrap();
    assert!(asked.contains("tells the barometer"), "{asked}");
    setup.settle();
    let memory = parsed(&setup, &["sessions", "memory", "main"]).to_string();
    assert!(memory.contains("note"), "{memory}");
    assert!(setup.host.done(&["sessions", "transcript", "se1"], b"").contains("thanks"));
    assert_eq!(parsed(&setup, &["sessions", "show", "se1"])["live"], 1);
    assert!(parsed(&setup, &["agents", "show", "main"]).to_string().contains("\"host\""));
    let doctor = setup.host.run(&["doctor"], b"").stdout;
    assert!(doctor.contains("podman"), "{doctor}");
    setup.types(2, "what was it? [[recall]]");
    setup.wait("both answers", || (setup.shown().len() >= 3).then_some(()));
    setup.settle();
    setup.host.done(&["sessions", "reset", "se1"], b"");
    setup.types(3, "[[recall]] [[tool Bash {\"command\":\"rm made.txt\"}]]");
    setup.wait("the file to be gone", || (!setup.group("made.txt").exists()).then_some(()));
    setup.settle();
}
