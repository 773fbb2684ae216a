//! Inputs, replies and effects as lines of a snapshot.

use hearth::model::delivery::DeliveryResult;
use hearth::model::effect::{Effect, Export};
use hearth::model::group::GroupInput;
use hearth::model::input::{Input, RuntimeEvent};
use hearth::model::mailbox::{Collection, Record};
use hearth::model::report::{Reply, WiringReport};

pub(crate) fn input_line(input: &Input) -> String {
    match input {
        Input::Start => "start".to_owned(),
        Input::Inbound(event) => {
            let id = event.platform_message.as_ref().map_or("", |id| id.as_str());
            format!(
                "inbound {} {:?} {id}: {:?}",
                event.source.channel,
                event.source.platform_id.as_str(),
                event.content.text
            )
        }
        Input::Collected(collection) => collected(collection),
        Input::Runtime(RuntimeEvent::Running(session, number)) => format!("{session}.{number} runs"),
        Input::Runtime(RuntimeEvent::Outdated(session, number)) => format!("{session}.{number} is outdated"),
        Input::Runtime(RuntimeEvent::Gone { session, incarnation, exit, .. }) => {
            format!("{session}.{incarnation} is gone: {exit:?}")
        }
        Input::Delivered(id, _, DeliveryResult::Delivered { .. }) => format!("{id} was delivered"),
        Input::Delivered(id, _, result) => format!("{id} was not delivered: {result:?}"),
        Input::HostWanted(wanted) => format!("{}.{} wants {}", wanted.session, wanted.incarnation, wanted.endpoint),
        Input::Connections(seen) => format!("{} connections", seen.len()),
        Input::ModelCall(call) => format!("model call {} of {}.{}", call.number, call.session, call.incarnation),
        Input::Built(agent, packages, built) => format!("built {agent} {packages:?} {built:?}"),
        Input::Reachable(channel, address) => format!("reachable {channel} {address:?}"),
        Input::Clock(change) => format!("clock: {change:?}"),
        Input::Pressed(press) => format!("{} pressed {}", press.by, press.button.option),
        Input::Decide(matter, value) => format!("the operator decides {matter}: {value}"),
        Input::DecideAs(session, matter, value) => format!("{session} decides {matter}: {value}"),
        Input::CommandAs(session, command) => format!("{session} commands {command:?}"),
        Input::Console(input) => format!("console: {input:?}"),
        Input::Transcribed(body, files) => format!("transcribed {} files of {body}", files.len()),
        Input::Spoken(spoken) => format!("spoken {}: {:?}", spoken.answer, spoken.audio),
        Input::Fetched(body, files) => format!("fetched {} files of {body}", files.len()),
        Input::ChannelState(channel, down) => format!("channel {channel} is down: {down:?}"),
        Input::BridgeReady(channel, program, can) => format!("bridge of {channel}: {program} {can:?}"),
        Input::BridgeCursors(channel, cursors) => format!("cursors of {channel}: {cursors:?}"),
        Input::DirectOpened(user, chat) => format!("direct message with {user}: {chat:?}"),
        Input::Sweep(observations) => format!("sweep, {} observations", observations.len()),
        Input::Task(command) => format!("task command {command:?}"),
        Input::Workspace(input) => format!("workspace {input:?}"),
        Input::Configure(configure) => format!("configure, {} changes", configure.changes.len()),
        Input::Group(agent, GroupInput::Skips(look)) => format!("{} skips of {agent}", look.found.len()),
        Input::Group(agent, happened) => format!("files of {agent}: {happened:?}"),
        Input::PairingCode(event, used) => format!("pairing code from {:?}: {used:?}", event.source),
        Input::LoginCode(event, used) => format!("login code from {:?}: {used:?}", event.source),
        Input::Continue(rest) => format!("continue {rest:?}"),
    }
}

fn collected(collection: &Collection) -> String {
    let found: Vec<String> = collection.found.iter().map(|found| record(&found.record)).collect();
    let closes = collection.closes.map_or_else(String::new, |number| format!(", the rest of incarnation {number}"));
    format!("collected {}: [{}]{closes}", collection.session, found.join(", "))
}

fn record(record: &Record) -> String {
    match record {
        Record::Claim { seq, incarnation } => format!("claim {seq} by {incarnation}"),
        Record::End { seq, incarnation, failure, answers, .. } => {
            let error = failure.as_ref().map(|failure| &failure.error);
            format!("end {seq} by {incarnation}, error {error:?}, {} answers", answers.len())
        }
        Record::Used { seq, incarnation, used } => format!("used by {seq} of {incarnation}, {} models", used.len()),
        Record::Said(said) => format!("said {}", said.wire_id),
        Record::Leftover(said) => format!("leftover {}", said.wire_id),
        Record::Unreadable { file, .. } => format!("unreadable {file}"),
        Record::Hidden(hidden) => format!("hidden {:?}", hidden.names),
        Record::Tools(names) => format!("tools {names:?}"),
    }
}

pub(crate) fn reply_line(reply: &Reply) -> String {
    match reply {
        Reply::Done | Reply::Swept(_) => "done".to_owned(),
        Reply::Refused(refusal) => format!("refused {}: {}", refusal.code, refusal.message),
        Reply::Routed(report) => {
            let reason = report.reason.map_or("", |reason| reason.as_str());
            let chat = report.chat.map_or_else(|| "no chat".to_owned(), |chat| chat.to_string());
            let mut text = format!("{} {reason} ({chat})", report.outcome.as_str());
            for wiring in &report.wirings {
                text.push_str(&format!("\n- {}", wiring_line(wiring)));
            }
            text
        }
        Reply::State(export) => format!("state {}", if export.is_some() { "to write" } else { "as it is" }),
        Reply::Task(id, task) => {
            format!("task {id} {}, next {:?}", task.state.as_str(), task.next.map(|at| at.to_string()))
        }
        Reply::Workspace(reply) => format!("workspace {reply:?}"),
        Reply::Session(answer) => format!("session {answer:?}"),
        Reply::Host(answer) => format!("host: {answer:?}"),
        Reply::Console(session) => format!("console: {session}"),
        Reply::Answered { decided, text } => format!("answered, decided {decided}: {text}"),
        Reply::Configured(reports) => {
            let lines: Vec<String> =
                reports.iter().map(|report| format!("{} {}", report.entity, report.action.as_str())).collect();
            lines.join("\n")
        }
    }
}

fn wiring_line(report: &WiringReport) -> String {
    let stored = match (report.session, report.message) {
        (Some(session), Some(message)) => format!(" {session} {message}"),
        _ => String::new(),
    };
    format!("{}: {} {}{stored}", report.agent, report.decision.as_str(), report.why)
}

pub(crate) fn effect_line(effect: &Effect) -> String {
    match effect {
        Effect::Export(export) => format!("export {}", export_line(export)),
        Effect::Discard(discard) => {
            let files =
                if discard.files == discard.seqs { String::new() } else { format!(", files {:?}", discard.files) };
            format!("discard {} {:?} {:?}{files}", discard.session, discard.seqs, discard.agent_files)
        }
        Effect::Launch(launch) => {
            format!(
                "launch {}.{} {}, {}",
                launch.session,
                launch.incarnation,
                launch.folder,
                export_line(&launch.export)
            )
        }
        Effect::Stop(session, number) => format!("stop {session}.{number}"),
        Effect::StopNow(session, number) => format!("stop {session}.{number} now"),
        Effect::NetworkPolicy(of) => format!("network policy of {}.{}", of.session, of.incarnation),
        Effect::TurnBegan(turn) => format!("turn of {} in {}.{}", turn.message, turn.session, turn.incarnation),
        Effect::Inquire(session, number) => format!("inquire {session}.{number}"),
        Effect::CollectRest(session, number) => format!("collect the rest of {session}.{number}"),
        Effect::Deliver(delivery) => {
            let to = &delivery.to;
            format!("deliver {} to {}/{}: {:?}", delivery.id, to.channel, to.platform_id, delivery.text)
        }
        Effect::Settled(settled) => {
            let answers: Vec<_> = settled.answers.iter().map(|answer| answer.id).collect();
            format!("settled {}: {:?} {answers:?}", settled.message, settled.state)
        }
        Effect::Transcribe(of) => format!("transcribe {} files of {}", of.files.len(), of.body),
        Effect::Speak(of) => format!("speak {}", of.answer),
        Effect::Silence(answer) => format!("silence {answer}"),
        Effect::Fetch(fetch) => format!("fetch {} files of {}", fetch.files.len(), fetch.body),
        Effect::OpenDirect(user) => format!("open a direct message with {user}"),
        Effect::Subscribe(at) => format!("subscribe to {}/{} {:?}", at.channel, at.platform_id, at.thread),
        Effect::Typing(session, at) => format!("typing of {session} in {}/{}", at.channel, at.platform_id),
        Effect::Reconnect(channel) => format!("reconnect {channel}"),
        Effect::Release(session, files) => format!("release {session} {files:?}"),
        Effect::ShareState(agent) => format!("share state of {agent}"),
        Effect::Unneeded(files) => format!("remove {} files", files.len()),
        Effect::LookForSkips(agent, ..) => format!("look for skips of {agent}"),
        Effect::RemoveSkip { skill, .. } => format!("remove the skip of {skill}"),
        Effect::Continue(rest) => format!("continue {rest:?}"),
    }
}

fn export_line(export: &Export) -> String {
    let messages: Vec<String> = export
        .messages
        .iter()
        .map(|message| format!("{}{}", message.seq, if message.trigger { "" } else { " (context)" }))
        .collect();
    let exact = if export.exact { "exactly " } else { "" };
    let context = export.context.as_ref().map_or_else(String::new, |context| format!("v{} ", context.version));
    format!("{} {context}{exact}[{}]", export.session, messages.join(", "))
}
