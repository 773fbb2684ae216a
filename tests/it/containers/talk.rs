//! Everyday use in containers: files in both directions, tools, questions, skills and memory.

use std::path::Path;

use serde_json::{Value, json};

use super::house::House;
use crate::host::telegram::{PROGRAM, typed};

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn parsed(house: &House, arguments: &[&str]) -> Value {
    let mut arguments = arguments.to_vec();
    arguments.push("--json");
    serde_json::from_str(&house.host.done(&arguments, b"")).unwrap()
}

#[test]
fn a_program_gets_files_and_sends_some() {
    let agent = "provider = \"command\"\ncommand = [\"python3\", \"/workspace/group/agent.py\"]";
    let Some(mut house) = House::new(agent) else { return };
    write(&house.group("agent.py"), PROGRAM);
    house.host.start();
    house.telegram.has_file("p", "photos/file 1.jpg", b"a cat".to_vec());
    let mut photo = typed(7, "");
    photo["message"]["photo"] = json!([{"file_id": "p", "width": 10, "height": 10, "file_size": 5}]);
    house.telegram.happens(photo);
    house.wait_shown("it says a cat");
    let sent = house.telegram.calls("sendDocument");
    assert_eq!(sent[0].files, [("document".to_owned(), "answer.txt".to_owned(), b"A CAT".to_vec())]);
    house.types(8, "change");
    assert_eq!(house.wait_shown("right"), ["it says a cat", "right"]);
    house.settle();
    let agent = house.session().join("agent");
    let left = ["ack", "out", "out/files"].map(|name| std::fs::read_dir(agent.join(name)).unwrap().flatten().count());
    assert_eq!(left, [0, 1, 0], "what was taken in is removed");
    house.stop();
    house.host.done(&["agents", "remove", "main"], b"");
}

#[test]
fn the_agent_has_its_tools_its_skills_and_its_memory() {
    let Some(mut house) = House::new("") else { return };
    write(
        &house.host.data().join("skills/weather/SKILL.md"),
        "---\nname: weather\ndescription: tells the barometer\n---\nLook.\n",
    );
    house.configure("instructions = \"Your name is Calliope.\"");
    house.host.start();
    house.types(
        1,
        "[[tool Bash {\"command\":\"id -u > made.txt; echo note >> CLAUDE.local.md\"}]] \
         [[tool mcp__nanoclaw__send_file {\"path\":\"made.txt\",\"text\":\"here it is\"}]] \
         [[tool mcp__nanoclaw__ask_user_question {\"title\":\"Deploy?\",\"question\":\"Now\",\"options\":[\"Yes\",\"No\"]}]] \
         [[say thanks]]",
    );
    house.wait("the question", || {
        parsed(&house, &["questions", "list"])["questions"].as_array().is_some_and(|all| all.len() == 1).then_some(())
    });
    let status = house.host.done(&["status"], b"");
    assert!(status.contains("agents run as containers") && status.contains("se1.1"), "{status}");
    house.host.done(&["questions", "answer", "qu1", "No"], b"");
    house.wait_shown("thanks");
    assert_eq!(house.telegram.calls("sendDocument")[0].files[0].2, b"1000\n");
    let asked = house.api.requests().iter().map(Value::to_string).find(|asked| asked.contains("Calliope")).unwrap();
    assert!(asked.contains("tells the barometer"), "{asked}");
    house.settle();
    let memory = parsed(&house, &["sessions", "memory", "main"]).to_string();
    assert!(memory.contains("note"), "{memory}");
    assert!(house.host.done(&["sessions", "transcript", "se1"], b"").contains("thanks"));
    assert_eq!(parsed(&house, &["sessions", "show", "se1"])["live"], 1);
    assert!(parsed(&house, &["agents", "show", "main"]).to_string().contains("\"host\""));
    let doctor = house.host.run(&["doctor"], b"").stdout;
    assert!(doctor.contains("podman"), "{doctor}");
    house.types(2, "what was it? [[recall]]");
    house.wait("both answers", || (house.shown().len() >= 3).then_some(()));
    house.settle();
    house.host.done(&["sessions", "reset", "se1"], b"");
    house.types(3, "[[recall]] [[tool Bash {\"command\":\"rm made.txt\"}]]");
    house.wait("the file to be gone", || (!house.group("made.txt").exists()).then_some(()));
    house.settle();
}
