//! Texts of approval cards.

use hearth::model::approval::ApprovalSubject;
use hearth::model::approval_text::{AgentName, Names, Place, destination_name, render};
use hearth::model::entity::{EnvValue, McpServer};
use hearth::model::host::{Endpoint, Host};
use hearth::model::host_grant::{HostRequest, HostsRequest};
use hearth::model::id::{AgentId, ChatId, SessionId};
use hearth::model::tool::{ToolAsker, ToolField, ToolOutcome, ToolRequest, ToolValue, digest};
use hearth::model::visible::is_unseen;
use hearth::model::{ChannelName, ForeignId, UserId};

/// A byte that occurs in no text. It separates the fields of the input.
const BORDER: u8 = 0xff;
const SESSION: SessionId = SessionId::new(7);
/// The kind of an approval of a tool call.
const TOOL: u8 = b'T';
/// The kind of an approval of many hosts.
const HOSTS: u8 = b'H';
/// Fields of tools that programs read.
const FOR_PROGRAMS: [&str; 10] =
    ["command", "cmd", "script", "file_path", "filePath", "path", "notebook_path", "url", "uri", "to"];

/// The kind of an approval, then its fields. The text shows no invisible characters, every line of it is a single line,
/// and every value that takes effect can be read back from it. So two approvals with different consequences never have
/// the same text.
pub fn approvals(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    let mut fields = rest.split(|byte| *byte == BORDER).map(|field| String::from_utf8_lossy(field).into_owned());
    let Some((about, names, expected)) = asked(*kind, &mut fields) else {
        return;
    };
    let text = render(&about, &names);
    assert!(!text.lines.is_empty());
    for line in &text.lines {
        assert!(!line.is_empty() && !line.chars().any(is_unseen), "{line:?}");
    }
    assert!(!text.summary().chars().any(is_unseen), "{:?}", text.summary());
    assert_eq!(read(&text.lines), expected, "{:#?}", text.lines);
}

type Fields<'a> = &'a mut dyn Iterator<Item = String>;

/// What is approved, the names in its text, and what must be readable from it: the words before each value, and the
/// value.
type Shown = (ApprovalSubject, Names, Vec<(String, String)>);

/// An approval and what its text must show.
fn asked(kind: u8, fields: Fields<'_>) -> Option<Shown> {
    let agent = AgentName { id: AgentId::new(1), folder: Some("main".to_owned()), name: fields.next()? };
    let first = |before: &str| (before.to_owned(), agent.name.clone());
    let asker = Names { agents: vec![agent.clone()], chat: None };
    match kind % 5 {
        _ if kind == TOOL => tool(fields, first(""), asker),
        _ if kind == HOSTS => hosts(fields, first(""), asker),
        0 => person(fields, agent, true),
        1 => person(fields, agent, false),
        2 => {
            let (reason, names) = (fields.next().filter(|text| !text.is_empty()), fields.collect::<Vec<_>>());
            let (apt, npm) = names.split_at(names.len() / 2);
            let mut expected = vec![first("")];
            expected.extend(apt.iter().map(|name| ("apt: ".to_owned(), name.clone())));
            expected.extend(npm.iter().map(|name| ("npm: ".to_owned(), name.clone())));
            expected.extend(reason.clone().map(|reason| ("reason: ".to_owned(), reason)));
            Some((
                ApprovalSubject::Packages { session: SESSION, apt: apt.to_vec(), npm: npm.to_vec(), reason },
                asker,
                expected,
            ))
        }
        3 => server(fields, first(""), asker),
        _ => {
            let (name, instructions) = (fields.next()?, fields.next());
            let local = destination_name(&name);
            let mut expected = vec![first(""), (" (main) asks for a new agent named ".to_owned(), name.clone())];
            expected.push(("folder: ".to_owned(), local.clone()));
            expected.push(first("It has the settings that "));
            expected.push((
                " (main) has then, environment and network included. But it is untrusted and confined, and has no mounts, \
                 packages and MCP servers. The two may write to each other, as "
                    .to_owned(),
                local,
            ));
            expected.push((" and ".to_owned(), "parent".to_owned()));
            if let Some(text) = &instructions {
                expected.push(("instructions:".to_owned(), text.clone()));
            }
            Some((ApprovalSubject::CreateAgent { session: SESSION, name, instructions }, asker, expected))
        }
    }
}

/// A tool call: its tool, the folder, the pattern, then the fields of its input.
fn tool(fields: Fields<'_>, first: (String, String), asker: Names) -> Option<Shown> {
    let (tool, folder, pattern) = (fields.next()?, fields.next()?, fields.next()?);
    let mut expected = vec![first, (" (main) asks to use the tool ".to_owned(), tool.clone())];
    expected.push(("working directory: ".to_owned(), folder.clone()));
    let mut input = Vec::new();
    while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
        let (words, value) = match value.strip_prefix('=') {
            Some(json) => (" is the value ", ToolValue::Json(json.to_owned())),
            None if FOR_PROGRAMS.contains(&name.as_str()) && !value.contains('\n') => {
                (" is the text ", ToolValue::Text(value))
            }
            None => (" is this text:", ToolValue::Text(value)),
        };
        let (ToolValue::Text(text) | ToolValue::Json(text)) = &value;
        expected.extend([("input ".to_owned(), name.clone()), (words.to_owned(), text.clone())]);
        input.push(ToolField { name, value });
    }
    let covers = "Allowed once, this call may run one time. Allowed for the session or always, no one is asked about calls \
                  that match ";
    let pattern = Some(pattern).filter(|pattern| !pattern.is_empty());
    expected.extend(pattern.clone().map(|pattern| (covers.to_owned(), pattern)));
    let request = ToolRequest {
        session: SESSION,
        message: None,
        digest: digest(&tool, &serde_json::Value::Null),
        tool,
        folder,
        fields: input,
        pattern,
        earlier: Some(ToolOutcome::Unknown),
        asker: ToolAsker { incarnation: 1, number: 1, request: "1-1-1".to_owned() },
        used: None,
        reason: None,
    };
    Some((ApprovalSubject::Tool(Box::new(request)), asker, expected))
}

/// Hosts of an agent, each with its port.
fn hosts(fields: Fields<'_>, first: (String, String), asker: Names) -> Option<Shown> {
    let mut expected = vec![first];
    let mut hosts = Vec::new();
    for to in fields.filter_map(|text| text.parse::<Endpoint>().ok()) {
        let local = to.port % 2 == 0;
        expected.push((format!("{}. ", hosts.len() + 1), to.to_string()));
        if let Host::Name(name) = &to.host
            && let Some(written) = name.in_unicode()
        {
            expected.push((format!(" in session {SESSION}, as it is written: "), written));
        }
        hosts.push(HostRequest { session: SESSION, agent: AgentId::new(1), to, local });
    }
    Some((ApprovalSubject::Hosts(HostsRequest { agent: AgentId::new(1), hosts }), asker, expected))
}

fn server(fields: Fields<'_>, first: (String, String), asker: Names) -> Option<Shown> {
    let (name, command, count) = (fields.next()?, fields.next()?, fields.next()?.len());
    let args: Vec<String> = (&mut *fields).take(count % 8).collect();
    let mut env = Vec::new();
    while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
        let value = if name.len() % 2 == 0 { EnvValue::Plain(value) } else { EnvValue::Reference(value) };
        env.push((name, value));
    }
    let mut expected = vec![first, (" (main) asks for the MCP server ".to_owned(), name.clone())];
    expected.push(("command: ".to_owned(), command.clone()));
    expected.extend((1..).zip(&args).map(|(at, word): (usize, _)| (format!("argument {at}: "), word.clone())));
    for (name, value) in &env {
        let (kind, text) = match value {
            EnvValue::Plain(text) => (" is the text ", text),
            EnvValue::Reference(text) => (" is a secret of Hearth, found at ", text),
        };
        expected.extend([("variable ".to_owned(), name.clone()), (kind.to_owned(), text.clone())]);
    }
    let server = McpServer { name, command, args, env };
    Some((ApprovalSubject::McpServer { session: SESSION, server }, asker, expected))
}

/// An unknown sender in a chat, with or without an agent.
fn person(fields: Fields<'_>, agent: AgentName, listens: bool) -> Option<Shown> {
    let (channel, handle, chat) = (fields.next()?, fields.next()?, fields.next()?);
    let (name, called) = (fields.next(), fields.next());
    let group = chat.len() % 2 == 0;
    let sender = UserId::new(ChannelName::new(channel.as_str()).ok()?, ForeignId::new("id", handle.as_str()).ok()?);
    let mut expected = vec![(String::new(), format!("{}:{handle}", marked(&channel, ':')))];
    expected.extend(name.clone().map(|name| (", named ".to_owned(), name)));
    let kind = if group { "the group " } else { "the direct message " };
    let comma = if name.is_some() { "," } else { "" };
    if listens {
        expected.push((format!("{comma} asks to talk to "), agent.name.clone()));
        expected.push((format!(" (main) in {kind}"), format!("{}/{chat}", marked(&channel, '/'))));
    } else {
        let before = format!("{comma} addressed the bot in {kind}");
        expected.push((before, format!("{}/{chat}", marked(&channel, '/'))));
    }
    expected.extend(called.clone().map(|called| (", named ".to_owned(), called)));
    let place = Place { channel, platform_id: chat, name: called, group };
    let chat = ChatId::new(1);
    let names = Names { agents: if listens { vec![agent] } else { Vec::new() }, chat: Some(place) };
    let about = if listens {
        ApprovalSubject::Sender { chat, sender, name, agents: vec![AgentId::new(1)] }
    } else {
        ApprovalSubject::Channel { chat, sender: Some(sender), name }
    };
    Some((about, names, expected))
}

/// The first of two texts as one, with its borders as they are read back. They are marked because the real border
/// follows.
fn marked(text: &str, border: char) -> String {
    text.replace(border, "\u{0}")
}

/// Every value of a text in quotation marks or behind `|`, with the words before it on its line or the line above.
fn read(lines: &[String]) -> Vec<(String, String)> {
    let mut values: Vec<(String, String)> = Vec::new();
    let mut block: Option<Vec<String>> = None;
    let mut rest = "";
    for line in lines {
        if let Some(rest) = line.strip_prefix("| ") {
            block.get_or_insert_default().push(unescaped(rest, None));
            continue;
        }
        values.extend(block.take().map(|lines| (rest.to_owned(), lines.join("\n"))));
        rest = line.as_str();
        while let Some(at) = rest.find(['"', '“']) {
            let (before, quoted) = rest.split_at(at);
            let open = quoted.chars().next().expect("a quotation mark");
            let end = ending(quoted, if open == '"' { '"' } else { '”' });
            let inner = &quoted[open.len_utf8()..end];
            let border = if before.contains("the group") || before.contains("the direct") { '/' } else { ':' };
            let pair = (before.is_empty() && open == '"') || border == '/';
            values.push((before.to_owned(), unescaped(inner, pair.then_some(border))));
            rest = &quoted[end + if open == '"' { 1 } else { '”'.len_utf8() }..];
        }
    }
    values.extend(block.map(|lines| (rest.to_owned(), lines.join("\n"))));
    values
}

/// Position of the quotation mark that ends a quoted text.
fn ending(quoted: &str, mark: char) -> usize {
    let mut chars = quoted.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            _ if c == mark => return at,
            _ => {}
        }
    }
    panic!("{quoted} does not end")
}

/// The text that was escaped. An escaped border of a pair is marked.
fn unescaped(text: &str, border: Option<char>) -> String {
    let mut plain = String::new();
    let mut chars = text.chars();
    let mut first = true;
    while let Some(c) = chars.next() {
        first &= Some(c) != border;
        if c != '\\' {
            plain.push(c);
            continue;
        }
        let c = match chars.next() {
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => {
                let code: String = chars.by_ref().take_while(|c| *c != '}').skip(1).collect();
                u32::from_str_radix(&code, 16).ok().and_then(char::from_u32).expect("a character")
            }
            Some(c @ ('\\' | '"' | '“' | '”')) => c,
            other => panic!("{other:?} is no escape: {text}"),
        };
        plain.push(if first && Some(c) == border { '\0' } else { c });
    }
    plain
}
