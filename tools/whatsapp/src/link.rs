//! Links the device: shows a code in the terminal, which the phone scans, or which is typed there.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use hearth_bridge::program::now;
use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use rustix::process::geteuid;
use whatsapp_rust::pair_code::PairCodeOptions;
use whatsapp_rust::prelude::{ChannelEventHandler, Event};

use crate::chat::Chat;
use crate::device::Directory;
use crate::server::Server;
use crate::session::{Builder, prepare, runtime};
use crate::watch::ended;
use crate::{USAGE, library_log};

/// How long the code may take to be used: WhatsApp's codes expire before.
const WITHIN: Duration = Duration::from_secs(240);
/// How long the end of a link may take.
const END: Duration = Duration::from_secs(60);

/// What is typed behind the directory.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wish {
    number: Option<String>,
    server: Server,
}

/// Links the device whose keys are in a directory.
///
/// # Errors
/// If it cannot be linked, for people.
pub(crate) fn link(path: &Path, words: &[&str]) -> io::Result<()> {
    let wish = wish(words).ok_or_else(|| io::Error::other(USAGE))?;
    if !path.is_dir() {
        let why = format!("{} is no directory; `hearth channels list` shows the right one", path.display());
        return Err(io::Error::other(why));
    }
    let directory = Directory::new(path)?;
    let owner = directory.owner()?;
    if owner != geteuid().as_raw() {
        let why =
            format!("run this as the user who runs Hearth (id {owner}): the bridge could not read the keys of others");
        return Err(io::Error::other(why));
    }
    let Some(_lock) = directory.lock()? else {
        return Err(io::Error::other("the device is linked and in use; remove it on the phone first"));
    };
    if directory.unlinked().is_some() {
        directory.clear()?;
    }
    library_log::begin();
    say("This is unofficial: WhatsApp may ban accounts that use such programs.")?;
    runtime()?.block_on(work(&directory, wish)).map_err(io::Error::other)
}

fn wish(words: &[&str]) -> Option<Wish> {
    let mut wish = Wish::default();
    for word in words {
        let number = Chat::read(word.trim_start_matches('+'));
        match (number, Server::stand_in(word)) {
            (Some(Chat::Number(number)), _) if wish.number.is_none() => wish.number = Some(number),
            (_, Some(server)) => wish.server = server,
            _ => return None,
        }
    }
    Some(wish)
}

fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{text}")?;
    out.flush()
}

async fn work(directory: &Directory, Wish { number, server }: Wish) -> Result<(), String> {
    let (handler, events) = ChannelEventHandler::new();
    // Messages are not received yet.
    let (missing, _) = channel();
    let (builder, _): (Builder, _) = prepare(directory, server, missing).await?;
    let builder = match number {
        Some(phone_number) => builder.with_pair_code(PairCodeOptions { phone_number, ..PairCodeOptions::default() }),
        None => builder,
    };
    let bot = builder.build().await.map_err(|error| error.to_string())?;
    let client = bot.client();
    if let Some(number) = client.pn() {
        return Err(format!("the device is linked to +{} already; remove it on the phone first", number.user_base()));
    }
    let subscription = client.subscribe_handler(handler);
    let handle = bot.spawn();
    let (mut until, mut is_linked) = (now() + WITHIN, false);
    let result = loop {
        let left = until.saturating_sub(now());
        let Ok(Ok(event)) = tokio::time::timeout(left, events.recv()).await else {
            let last = library_log::last();
            break Err(format!(
                "the device was not linked in time{}",
                if last.is_empty() { last } else { format!(": {last}") }
            ));
        };
        match step(&event, server) {
            Ok(Step::Wait) => {}
            Ok(Step::Paired) => (until, is_linked) = (now() + END, true),
            Ok(Step::Connected) if is_linked => break Ok(()),
            Ok(Step::Connected) => {}
            Err(why) => break Err(why),
        }
    };
    drop(subscription);
    handle.shutdown().await;
    result?;
    let number = client.pn().map(|number| number.user_base().to_owned()).unwrap_or_default();
    say(&format!("Linked to +{number}. The bridge begins within a minute.")).map_err(|error| error.to_string())
}

/// How far a link is.
enum Step {
    Wait,
    Paired,
    Connected,
}

fn step(
    event: &Arc<Event>,
    #[cfg_attr(not(debug_assertions), expect(unused_variables, reason = "for tests"))] server: Server,
) -> Result<Step, String> {
    let said = |text: &str| say(text).map(|()| Step::Wait).map_err(|error| error.to_string());
    if let Some(ended) = ended(event) {
        return Err(ended.why);
    }
    match &**event {
        #[cfg(debug_assertions)]
        Event::PairingQrCode(code) if server != Server::WhatsApp => {
            said(&format!("{}\nfor tests: {}", qr(&code.code)?, code.code))
        }
        Event::PairingQrCode(code) => said(&format!(
            "{}\nScan this in WhatsApp under Linked devices within {} seconds. It is a key to your account: keep it to yourself.",
            qr(&code.code)?,
            code.timeout.as_secs()
        )),
        Event::PairingCode(code) => {
            said(&format!("Type this code in WhatsApp under Linked devices, Link with phone number: {}", code.code))
        }
        Event::PairingCodeError(error) => Err(format!("WhatsApp gives no code: {}", error.error)),
        Event::PairingQrCodesExhausted(_) => Err("the codes expired; run the command again".to_owned()),
        Event::PairError(error) => Err(format!("WhatsApp could not link the device: {}", error.error)),
        Event::PairSuccess(_) => {
            say("The phone has linked the device.").map(|()| Step::Paired).map_err(|e| e.to_string())
        }
        Event::Connected(_) => Ok(Step::Connected),
        _ => Ok(Step::Wait),
    }
}

/// A code for terminals that are dark.
fn qr(text: &str) -> Result<String, String> {
    let code = QrCode::new(text).map_err(|error| format!("the code cannot be shown: {error}"))?;
    Ok(code.render::<Dense1x2>().dark_color(Dense1x2::Dark).light_color(Dense1x2::Light).build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_typed_with_or_without_its_sign() {
        for word in ["15550000001", "+15550000001"] {
            assert_eq!(wish(&[word]).unwrap().number.as_deref(), Some("15550000001"));
        }
        for words in [&["x"][..], &["1@lid"], &["15550000001", "15550000002"], &["10.0.0.1:80"]] {
            assert_eq!(wish(words), None, "{words:?}");
        }
    }

    #[test]
    fn codes_are_drawn() {
        let drawn = qr("2@ref,noise,identity,secret,1").unwrap();
        assert!(drawn.lines().count() > 14 && drawn.contains('█'), "{drawn}");
    }
}
