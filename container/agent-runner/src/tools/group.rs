//! Tools for the files that an agent group's sessions share: muted threads, skip summaries and notes to remember. They
//! change these files directly, under the same locks as all other programs. The host notices the changes, and the agent
//! is told only of what was written.

use std::time::Duration;

use hearth_wire::Address;
use serde_json::Value;

use super::arguments::Arguments;
use crate::clock;
use crate::report::Scene;
use crate::trusted::library::{self, Places, Summary, Text};

/// A tool. Returns what it did, or why it did nothing.
pub(super) type Tool = fn(&Arguments, &Scene<'_>) -> Result<String, String>;

/// All tools of this module, in the agent's order, after the others.
pub(super) const TOOLS: [(&str, Tool); 4] = [
    ("mute_thread", mute_thread),
    ("unmute_thread", unmute_thread),
    ("report_skip", report_skip),
    ("remember", remember),
];

/// Timeout of a file's lock. The turn is blocked meanwhile.
const LOCK_WAIT: Duration = Duration::from_secs(5);

pub(super) fn tool(name: &str) -> Option<Tool> {
    TOOLS.iter().find(|(known, _)| *known == name).map(|(_, tool)| *tool)
}

fn mute_thread(arguments: &Arguments, scene: &Scene<'_>) -> Result<String, String> {
    let places = places(scene)?;
    let thread = thread(arguments, scene)?;
    let note = arguments.given("note").map(|note| library::parse(&note.to_string())).transpose()?;
    let name = Text::new(&thread);
    let changed = library::change_state(&places, LOCK_WAIT, |state| library::mute(state, &name, note))?;
    let done = if changed { "is muted from now on" } else { "was muted already" };
    Ok(format!("{thread} {done}: what is said there does not wake you any more. unmute_thread ends that."))
}

fn unmute_thread(arguments: &Arguments, scene: &Scene<'_>) -> Result<String, String> {
    let places = places(scene)?;
    let thread = thread(arguments, scene)?;
    let name = Text::new(&thread);
    if library::change_state(&places, LOCK_WAIT, |state| library::unmute(state, &name))? {
        Ok(format!("{thread} is not muted any more."))
    } else {
        Err(format!("{thread} is not muted by you. What the owner muted, only the owner ends"))
    }
}

fn report_skip(arguments: &Arguments, scene: &Scene<'_>) -> Result<String, String> {
    let places = places(scene)?;
    let skill = arguments.filled("skill").ok_or("skill is required: the full name, tessl__<name>")?;
    let number = arguments.given("step").and_then(Value::as_i64).map(|number| number.to_string());
    let step = arguments.filled("step").map(str::to_owned).or(number);
    let step = step.ok_or("step is required: its name or its number")?;
    let reason = arguments.filled("reason").ok_or("reason is required: one line")?;
    let items = items(arguments)?;
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    let technical = match arguments.given("technical") {
        None => false,
        Some(given) => given.as_bool().ok_or("technical is true or false")?,
    };
    let summary = Summary::new(skill, &step, reason, &items, technical).map_err(|why| why.replace("--", ""))?;
    let (_, replaced) = summary.write(&places, clock::now_ms() / 1_000)?;
    let before = if replaced { " The report of it that lay there is kept by the host." } else { "" };
    Ok(format!(
        "The owner is told that {skill} skipped step {step} once this turn is over, unless someone tells them in it and \
         removes the file.{before} Do not mark as done what was skipped."
    ))
}

fn items(arguments: &Arguments) -> Result<Vec<String>, String> {
    let Some(given) = arguments.given("items") else { return Ok(Vec::new()) };
    let values = given.as_array().ok_or("items is an array of texts")?;
    let text = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(|| "items is an array of texts".to_owned());
    values.iter().map(text).collect()
}

fn remember(arguments: &Arguments, scene: &Scene<'_>) -> Result<String, String> {
    let places = places(scene)?;
    let text = arguments.filled("text").ok_or("text is required: one line")?.trim();
    if text.contains(['\n', '\r']) {
        return Err("text is one line; call again for each further one".to_owned());
    }
    if let Some(promote_to) = arguments.filled("promoteTo") {
        let context = arguments.filled("context").ok_or("a discovery needs context: where it comes from")?;
        return library::discover(&places, [text, context, promote_to]);
    }
    let shared = match arguments.given("shared") {
        None => false,
        Some(given) => given.as_bool().ok_or("shared is true or false")?,
    };
    let chat = shared.then_some(scene.context.agent.as_str());
    library::log(&places, text, chat)
}

/// The paths of the group's files, which only a trusted agent may write.
fn places(scene: &Scene<'_>) -> Result<Places, String> {
    if scene.roots.trusted.is_none() {
        return Err(
            "this agent is not trusted, so this tool does not write for all its sessions. Do not try again; tell \
                    the people you talk to what you wanted to note"
                .to_owned(),
        );
    }
    Ok(Places::of_roots(scene.roots))
}

/// The given thread, else the full name of the conversation's thread.
fn thread(arguments: &Arguments, scene: &Scene<'_>) -> Result<String, String> {
    if let Some(thread) = arguments.filled("thread") {
        return Ok(thread.trim().to_owned());
    }
    let asked = scene.asked.last().and_then(|message| message.reply.as_ref());
    let Address { channel, platform_id, thread_id } =
        asked.or(scene.context.reply.as_ref()).ok_or("thread is required: this conversation is in no chat")?;
    let thread = thread_id.as_ref().map(|thread| format!(":{thread}")).unwrap_or_default();
    Ok(format!("{channel}:{platform_id}{thread}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;
    use crate::tools::tests::Stage;

    fn call(stage: &Stage, name: &str, arguments: Value) -> Result<String, String> {
        tool(name).unwrap()(&Arguments::read(arguments).unwrap(), &stage.scene())
    }

    fn stage(trusted: bool) -> Stage {
        let address = Address { channel: "telegram".into(), platform_id: "-5".into(), thread_id: Some("7".into()) };
        let mut stage = Stage::new(Some(address), &json!([]), Vec::new());
        if trusted {
            stage.trust();
        }
        stage
    }

    fn state(stage: &Stage) -> Value {
        let path = stage.scene().roots.group.join("session-state.json");
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }

    #[test]
    fn threads_are_muted_by_name_or_where_the_agent_is() {
        let stage = stage(true);
        call(&stage, "mute_thread", json!({})).unwrap();
        call(&stage, "mute_thread", json!({"thread": " 42 ", "note": {"why": "noise"}})).unwrap();
        assert_eq!(state(&stage)["muted_threads"], json!({"telegram:-5:7": true, "42": {"why": "noise"}}));
        assert!(call(&stage, "mute_thread", json!({"thread": "42"})).unwrap().contains("already"));
        call(&stage, "unmute_thread", json!({})).unwrap();
        assert_eq!(state(&stage)["muted_threads"], json!({"42": {"why": "noise"}}));
        assert!(call(&stage, "unmute_thread", json!({})).unwrap_err().contains("not muted"));
    }

    #[test]
    fn skips_are_reported_as_the_contract_wants_them() {
        let stage = stage(true);
        for (arguments, problem) in [
            (json!({}), "skill is required"),
            (json!({"skill": "x", "step": 1, "reason": "r"}), "must be the full identifier"),
            (json!({"skill": "tessl__a", "reason": "r"}), "step is required"),
            (json!({"skill": "tessl__a", "step": 1, "reason": "a\nb"}), "reason must be one line"),
            (json!({"skill": "tessl__a", "step": 1, "reason": "r", "items": "x"}), "items is an array"),
            (json!({"skill": "tessl__a", "step": 1, "reason": "r", "items": ["x", "x"]}), "given twice"),
            (json!({"skill": "tessl__a", "step": 1, "reason": "r", "technical": "no"}), "true or false"),
        ] {
            let told = call(&stage, "report_skip", arguments.clone()).unwrap_err();
            assert!(told.contains(problem) && !told.contains("--"), "{arguments}: {told}");
        }
        let good = json!({"skill": "tessl__a", "step": 3, "reason": "budget", "items": ["x"], "technical": true});
        assert!(call(&stage, "report_skip", good.clone()).unwrap().contains("once this turn is over"));
        let path = stage.scene().roots.group.join(".skip-summary-tessl__a.json");
        let written: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        assert_eq!(
            (&written["step"], &written["items"], &written["technical_failure"], &written["schema_version"]),
            (&json!(3), &json!(["x"]), &json!(true), &json!(1))
        );
        assert!(call(&stage, "report_skip", good).unwrap().contains("kept by the host"));
    }

    #[test]
    fn what_is_remembered_is_in_the_logs() {
        let stage = stage(true);
        call(&stage, "remember", json!({"text": " -x was said "})).unwrap();
        call(&stage, "remember", json!({"text": "for all", "shared": true})).unwrap();
        call(&stage, "remember", json!({"text": "w", "context": "c", "promoteTo": "MEMORY.md"})).unwrap();
        let scene = stage.scene();
        let read = |dir: std::path::PathBuf| {
            let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
            let logs = names.filter(|path| path.extension().is_some_and(|end| end == "md"));
            logs.map(|path| fs::read_to_string(path).unwrap()).collect::<String>()
        };
        assert!(read(scene.roots.group.join("memory/daily")).contains(" UTC — -x was said\n"));
        let shared = scene.roots.trusted.clone().unwrap().join("memory");
        assert!(read(shared.join("daily")).contains(" UTC [andy] — for all\n"));
        assert!(read(shared).contains("**What:** w\n**Context:** c\n**Promote to:** MEMORY.md"));
        for (arguments, problem) in [
            (json!({}), "text is required"),
            (json!({"text": "a\nb"}), "one line"),
            (json!({"text": "a", "promoteTo": "x"}), "needs context"),
            (json!({"text": "a", "shared": 1}), "true or false"),
        ] {
            assert!(call(&stage, "remember", arguments.clone()).unwrap_err().contains(problem), "{arguments}");
        }
    }

    #[test]
    fn an_agent_that_is_not_trusted_hears_why_not() {
        let stage = stage(false);
        for (name, _) in TOOLS {
            let told = call(&stage, name, json!({"text": "x", "thread": "1"})).unwrap_err();
            assert!(told.contains("not trusted"), "{name}: {told}");
        }
        assert_eq!(fs::read_dir(&stage.scene().roots.group).unwrap().count(), 0);
    }
}
