//! Parses an agent's outgoing payload into a typed action. Pure. Rejections carry a message for the agent.

use hearth_wire::OutKind;
use serde_json::{Map, Value};

use crate::model::card::CardOption;
use crate::model::entity::{EnvValue, McpServer, Packages};
use crate::model::request::{AboutTopic, NewQuestion, Request, RequestedAction, is_server_name, packages_problem};
use crate::model::time::Millis;

use super::text;

mod recall;
mod tasks;
mod tool_calls;

/// Characters of a question's title.
const TITLE_CHARS: usize = 200;
/// Characters of a question.
const QUESTION_CHARS: usize = 3_000;
/// Options of a question.
const OPTIONS: usize = 10;
/// Characters of what is on a button, or means a choice.
const LABEL_CHARS: usize = 100;
/// Default timeout of a question in seconds.
const TIMEOUT_SECONDS: f64 = 300.0;
/// Characters of a reason, a name, a command or an argument.
const LINE_CHARS: usize = 500;
/// Bytes of an agent's instructions.
const INSTRUCTION_BYTES: usize = 32 * 1024;
/// Characters of a server's arguments and environment together: all of it has to fit a card.
const SERVER_CHARS: usize = 2_000;
/// Arguments of a server, and variables of its environment.
const WORDS: usize = 32;
/// Characters of an emoji, or of its short name.
const EMOJI_CHARS: usize = 64;

type Fields = Map<String, Value>;

/// The action, and the text that goes with it.
pub(super) fn parse(kind: OutKind, content: &Fields) -> (RequestedAction, String) {
    let wanted = match (kind, string(content, "operation"), string(content, "type")) {
        (OutKind::System, _, _) => {
            request(content).map(|request| (RequestedAction::Request(Box::new(request)), String::new()))
        }
        (OutKind::ChatSdk, Some("edit"), _) => edit(content),
        (OutKind::ChatSdk, Some("reaction"), _) => reaction(content),
        (OutKind::ChatSdk, Some(other), _) => Err(format!("unknown operation `{}`", text::reason(other))),
        (OutKind::ChatSdk, None, Some("ask_question")) => {
            question(content).map(|asked| (RequestedAction::Request(Box::new(Request::Question(asked))), String::new()))
        }
        (OutKind::ChatSdk, None, Some("card")) => card(content).map(|text| (RequestedAction::Say, text)),
        (OutKind::Chat | OutKind::ChatSdk, _, _) => Ok((RequestedAction::Say, plain_text(content))),
    };
    wanted.unwrap_or_else(|why| (RequestedAction::Impossible(why), String::new()))
}

/// `text`, else `markdown`, whichever is a string with something in it.
fn plain_text(content: &Fields) -> String {
    filled(content, "text").or_else(|| filled(content, "markdown")).unwrap_or_default().to_owned()
}

fn edit(content: &Fields) -> Result<(RequestedAction, String), String> {
    let text = plain_text(content);
    match number(content) {
        Some(number) if !text.is_empty() => Ok((RequestedAction::Edit(number), text)),
        _ => Err("messageId and text are required".to_owned()),
    }
}

fn reaction(content: &Fields) -> Result<(RequestedAction, String), String> {
    let emoji = filled(content, "emoji").filter(|emoji| is_short_line(emoji, EMOJI_CHARS));
    match (number(content), emoji) {
        (Some(number), Some(emoji)) => Ok((RequestedAction::React(number), emoji.to_owned())),
        _ => Err("messageId and emoji are required".to_owned()),
    }
}

/// The agent's number of a message.
fn number(content: &Fields) -> Option<u64> {
    let value = content.get("messageId")?;
    value.as_u64().or_else(|| value.as_str()?.trim_start_matches('#').parse().ok())
}

/// Text of a card where no cards can be shown: its fallback text, else everything on the card.
fn card(content: &Fields) -> Result<String, String> {
    let card = content.get("card").and_then(Value::as_object).unwrap_or(content);
    if let Some(text) = filled(content, "fallbackText") {
        return Ok(text.to_owned());
    }
    let mut parts: Vec<String> =
        ["title", "description"].iter().filter_map(|key| filled(card, key)).map(into).collect();
    for child in list(card, "children") {
        let text = child.as_str().or_else(|| filled(child.as_object()?, "text"));
        parts.extend(text.filter(|text| !text.is_empty()).map(into));
    }
    for action in list(card, "actions").iter().filter_map(Value::as_object) {
        if let (Some(label), Some(url)) = (filled(action, "label"), filled(action, "url")) {
            parts.push(format!("{label}: {url}"));
        }
    }
    if parts.is_empty() { Err("the card has nothing to show".to_owned()) } else { Ok(parts.join("\n")) }
}

fn request(content: &Fields) -> Result<Request, String> {
    match string(content, "action") {
        Some("ask_user_question") => question(content).map(Request::Question),
        Some("install_packages") => packages(content).map_err(|why| format!("install_packages failed: {why}")),
        Some("add_mcp_server") => {
            server(content).map(Request::AddMcpServer).map_err(|why| format!("add_mcp_server failed: {why}"))
        }
        Some("create_agent") => create_agent(content).map_err(|why| format!("create_agent failed: {why}")),
        Some("schedule_task" | "list_tasks" | "update_task" | "cancel_task" | "pause_task" | "resume_task") => {
            tasks::request(content).map(Request::Tasks)
        }
        Some("hearth") => about(content).map(Request::About),
        Some("use_tool") => tool_calls::question(content).map(Box::new).map(Request::UseTool),
        Some("tool_calls") => Ok(Request::ToolCalls(tool_calls::record(content))),
        Some("recall") => recall::request(content).map(Request::Recall),
        Some(other) => Err(format!(
            "unknown action `{}`; possible are ask_user_question, install_packages, add_mcp_server, create_agent, hearth, recall, \
             and schedule_task, list_tasks, update_task, cancel_task, pause_task, resume_task",
            text::reason(other)
        )),
        None => Err("a request needs an `action`".to_owned()),
    }
}

/// Without a topic, all of them.
fn about(content: &Fields) -> Result<Option<AboutTopic>, String> {
    let Some(word) = filled(content, "about") else { return Ok(None) };
    match AboutTopic::ALL.into_iter().find(|topic| topic.as_str() == word) {
        Some(topic) => Ok(Some(topic)),
        None => {
            let known = AboutTopic::ALL.map(AboutTopic::as_str).join(", ");
            Err(format!("hearth knows nothing about `{}`; possible are {known}", text::reason(word)))
        }
    }
}

fn question(content: &Fields) -> Result<NewQuestion, String> {
    let (title, body) = (filled(content, "title"), filled(content, "question"));
    let (Some(title), Some(body), Some(options)) = (title, body, content.get("options").and_then(Value::as_array))
    else {
        return Err("title, question, and options are required".to_owned());
    };
    if options.is_empty() || options.len() > OPTIONS {
        return Err(format!("a question has 1 to {OPTIONS} options, this one has {}", options.len()));
    }
    let seconds = match content.get("timeout") {
        None | Some(Value::Null) => TIMEOUT_SECONDS,
        Some(value) => value.as_f64().filter(|seconds| *seconds >= 1.0).ok_or("timeout is a number of seconds")?,
    };
    Ok(NewQuestion {
        title: shown("the title", title, TITLE_CHARS)?,
        body: shown("the question", body, QUESTION_CHARS)?,
        options: options.iter().map(option).collect::<Result<_, _>>()?,
        timeout: seconds_of(seconds),
    })
}

/// Converts seconds; too large values become the maximum.
fn seconds_of(seconds: f64) -> Millis {
    let length = std::time::Duration::try_from_secs_f64(seconds);
    Millis::new(length.map_or(u64::MAX, |length| u64::try_from(length.as_millis()).unwrap_or(u64::MAX)))
}

/// A string serves as label, chosen text and value. An object may give them separately.
fn option(value: &Value) -> Result<CardOption, String> {
    let label = value.as_str().or_else(|| string(value.as_object()?, "label")).map(str::trim).unwrap_or_default();
    if label.is_empty() {
        return Err("an option is a text, or an object with a `label`".to_owned());
    }
    let label = shown("an option", label, LABEL_CHARS)?;
    let other = |key: &str| match value.get(key) {
        None | Some(Value::Null) => Ok(label.clone()),
        Some(Value::String(text)) if text.chars().count() <= LABEL_CHARS => Ok(text.clone()),
        Some(_) => Err(format!("`{key}` of an option is a text of at most {LABEL_CHARS} characters")),
    };
    let (chosen, value) = (other("selectedLabel")?, other("value")?);
    Ok(CardOption { label, chosen: cleaned(&chosen), value })
}

fn packages(content: &Fields) -> Result<Request, String> {
    let packages = Packages { apt: texts(content, "apt")?, npm: texts(content, "npm")? };
    match packages_problem(&packages) {
        Some(problem) => Err(problem),
        None => Ok(Request::InstallPackages { packages, reason: reason(content) }),
    }
}

/// The agent's reason: shortened rather than refused.
fn reason(content: &Fields) -> Option<String> {
    filled(content, "reason").map(|reason| text::cut(&cleaned(reason), LINE_CHARS))
}

fn server(content: &Fields) -> Result<McpServer, String> {
    let (Some(name), Some(command)) = (filled(content, "name"), filled(content, "command")) else {
        return Err("name and command are required.".to_owned());
    };
    if !is_server_name(name) {
        return Err("a name has 1 to 64 letters, digits, `_` or `-`, and is not `nanoclaw`.".to_owned());
    }
    let args = texts(content, "args")?;
    if args.len() > WORDS || !args.iter().map(String::as_str).chain([command]).all(|word| is_line(word, LINE_CHARS)) {
        return Err(format!(
            "a command has at most {WORDS} arguments of at most {LINE_CHARS} characters, without control characters."
        ));
    }
    let env = env(content)?;
    let sizes = args
        .iter()
        .chain(env.iter().flat_map(|(name, EnvValue::Plain(text) | EnvValue::Reference(text))| [name, text]));
    if sizes.map(|word| word.chars().count()).sum::<usize>() > SERVER_CHARS {
        return Err(format!(
            "arguments and env have at most {SERVER_CHARS} characters together: a person has to read them."
        ));
    }
    Ok(McpServer { name: name.to_owned(), command: command.to_owned(), args, env })
}

/// Sorted by name. An agent's request may refer to a variable of the host, which a person sees before they approve. It
/// may not read files there or run commands.
fn env(content: &Fields) -> Result<Vec<(String, EnvValue)>, String> {
    let env = match content.get("env") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(value) => value.as_object().ok_or("env is an object of texts.")?,
    };
    if env.len() > WORDS {
        return Err(format!("env has at most {WORDS} variables."));
    }
    let mut pairs = Vec::new();
    for (name, value) in env {
        let value = value.as_str().filter(|text| is_line(text, LINE_CHARS));
        let value = value.filter(|_| crate::config::env::is_env_name(name));
        let value = value.ok_or_else(|| format!("env has a variable that cannot be: `{}`.", text::reason(name)))?;
        pairs.push((name.clone(), env_value(name, value)?));
    }
    pairs.sort_by(|a: &(String, EnvValue), b| a.0.cmp(&b.0));
    Ok(pairs)
}

fn env_value(name: &str, value: &str) -> Result<EnvValue, String> {
    match value.split_once(':') {
        Some(("env", variable)) if crate::config::env::is_env_name(variable) => {
            Ok(EnvValue::Reference(value.to_owned()))
        }
        Some(("env" | "file" | "cmd", _)) => {
            Err(format!("the value of `{name}` may be a text or `env:NAME`; other references are for the operator."))
        }
        _ => Ok(EnvValue::Plain(value.to_owned())),
    }
}

fn create_agent(content: &Fields) -> Result<Request, String> {
    let name = filled(content, "name").map(str::trim).filter(|name| !name.is_empty()).ok_or("name is required.")?;
    if !is_short_line(name, LABEL_CHARS) {
        return Err(format!("the name is one line of at most {LABEL_CHARS} characters."));
    }
    let instructions = match content.get("instructions") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) if text.len() <= INSTRUCTION_BYTES && !text.contains('\0') => Some(text.clone()),
        Some(_) => return Err(format!("instructions are a text of at most {INSTRUCTION_BYTES} bytes.")),
    };
    let instructions = instructions.filter(|text| !text.trim().is_empty());
    Ok(Request::CreateAgent { name: name.to_owned(), instructions })
}

fn string<'a>(fields: &'a Fields, key: &str) -> Option<&'a str> {
    fields.get(key).and_then(Value::as_str)
}

fn filled<'a>(fields: &'a Fields, key: &str) -> Option<&'a str> {
    string(fields, key).filter(|text| !text.is_empty())
}

fn list<'a>(fields: &'a Fields, key: &str) -> &'a [Value] {
    fields.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn into(text: &str) -> String {
    text.to_owned()
}

/// A list of texts that may be absent.
fn texts(fields: &Fields, key: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("{key} is a list of texts.");
    match fields.get(key) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) => list.iter().map(|item| item.as_str().map(into).ok_or_else(wrong)).collect(),
        Some(_) => Err(wrong()),
    }
}

/// A text for display: without control characters, of bounded length.
fn shown(what: &str, text: &str, max: usize) -> Result<String, String> {
    let count = text.chars().count();
    if count > max {
        Err(format!("{what} has {count} characters, at most {max} can be shown"))
    } else {
        Ok(cleaned(text))
    }
}

/// Replaces control characters other than newlines, and bidirectional marks: they could make a card show something else
/// than its content.
fn cleaned(text: &str) -> String {
    let misleads = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if misleads(c) { '\u{fffd}' } else { c }).collect()
}

fn is_line(text: &str, max: usize) -> bool {
    text.chars().count() <= max && cleaned(text) == text && !text.contains('\n')
}

fn is_short_line(text: &str, max: usize) -> bool {
    !text.trim().is_empty() && is_line(text, max)
}

#[cfg(test)]
mod tests;
