//! Cases about files.

use hearth_bridge::{Deliver, Sent, SentFile};

use super::network::Network;
use super::peer::Peer;
use super::steps::{Arrived, once};
use super::{Case, Kit, Stop, Tried};

/// The limit for files that a case gives.
const FILE_MAX: u64 = 1 << 20;

pub(super) const CASES: &[Case] = &[
    Case::new(23, "file-in", "a file arrives as it was sent: its name and its bytes, also if there are none", file_in),
    Case::new(
        23,
        "file-large",
        "a file over the limit of the first frame, or one that is gone, is told; the text is not lost",
        file_large,
    ),
    Case::new(24, "file-unwanted", "files of a message that reaches no agent are not fetched", file_unwanted),
    Case::new(
        25,
        "file",
        "files arrive as they were sent, and are removed; one that is gone does not lose the text",
        file,
    ),
    Case::new(26, "file-elsewhere", "an address of a file that leads elsewhere does not get the token", file_elsewhere),
];

/// All bytes, all ends of lines, and nothing that says what it is.
fn bytes(kit: &Kit<'_>) -> Vec<u8> {
    let mut bytes = format!("{}\r\n\n\r", kit.text("file")).into_bytes();
    bytes.extend(0..=u8::MAX);
    bytes.extend(b"\r\n.\r\nFrom me\n\n");
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A person sends a file in a message with a text.
fn bring(kit: &Kit<'_>, network: &Network, verb: &str, name: &str, bytes: &[u8]) -> Result<String, Stop> {
    let path = kit.scratch.join("brought");
    std::fs::write(&path, bytes).map_err(|error| error.to_string())?;
    let text = kit.text("with a file");
    network.act(&[verb, name, &path.display().to_string(), &text])?;
    Ok(text)
}

/// The bytes of the only file of a message, none if it has no path; it is removed, as Hearth does.
fn given(kit: &Kit<'_>, message: &Arrived) -> Result<(String, Option<Vec<u8>>), Stop> {
    let [file] = message.files.as_slice() else {
        return Err(format!("the message has {} files", message.files.len()).into());
    };
    let name = file.name.clone().unwrap_or_default();
    let Some(path) = &file.path else {
        let told = file.error.as_ref().is_some_and(|why| !why.is_empty());
        return if told { Ok((name, None)) } else { Err("a file has neither `path` nor `error`".into()) };
    };
    if path.contains('/') {
        return Err(format!("the path `{path}` leads out of the directory for files").into());
    }
    let path = kit.files().join(path);
    let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    std::fs::remove_file(&path).map_err(|error| error.to_string())?;
    Ok((name, Some(bytes)))
}

fn file_in(kit: &Kit<'_>) -> Tried {
    let network = kit.network()?;
    network.can("bring")?;
    let mut peer = Peer::start(kit)?;
    for (name, bytes) in [("Käse & 1 note.bin", bytes(kit)), ("empty.bin", Vec::new())] {
        let text = bring(kit, network, "bring", name, &bytes)?;
        let message = peer.taken(&text)?;
        let (called, got) = given(kit, &message)?;
        if called != name {
            return Err(format!("the file `{name}` is called `{called}`").into());
        }
        match got {
            Some(got) if got != bytes => return Err(format!("the bytes of `{name}` are others").into()),
            None if !bytes.is_empty() => return Err(format!("the file `{name}` was not received").into()),
            Some(_) | None => {}
        }
    }
    Ok(())
}

fn file_large(kit: &Kit<'_>) -> Tried {
    let network = kit.network()?;
    let known: Vec<_> = ["large", "vanish"].into_iter().filter(|verb| network.can(verb).is_ok()).collect();
    if known.is_empty() {
        return network.can("large");
    }
    let mut peer = Peer::start_with(kit, |hello| hello.limits.file = FILE_MAX)?;
    for verb in known {
        let size = if verb == "large" { FILE_MAX as usize + 1 } else { 10 };
        let text = bring(kit, network, verb, "large.bin", &vec![7; size])?;
        let message = peer.taken(&text)?;
        if given(kit, &message)?.1.is_some() {
            return Err(format!("a file of {size} bytes came by `{verb}`").into());
        }
    }
    Ok(())
}

fn file_unwanted(kit: &Kit<'_>) -> Tried {
    let network = kit.network()?;
    network.can("unwanted")?;
    let mut peer = Peer::start(kit)?;
    peer.wants = false;
    let text = bring(kit, network, "unwanted", "unwanted.bin", &bytes(kit))?;
    let message = peer.taken(&text)?;
    if peer.asked == 0 {
        return Err("it did not ask whether the message is wanted".into());
    }
    if message.files.iter().any(|file| file.path.is_some()) {
        return Err("it fetched the file of a message that is not wanted".into());
    }
    Ok(())
}

/// A file for the bridge to send.
fn outgoing(kit: &Kit<'_>, name: &str, bytes: &[u8]) -> Result<SentFile, Stop> {
    let path = format!("out-kit-{}", kit.number());
    std::fs::write(kit.files().join(&path), bytes).map_err(|error| error.to_string())?;
    Ok(SentFile { name: name.to_owned(), size: bytes.len() as u64, path: Some(path), error: None })
}

fn file(kit: &Kit<'_>) -> Tried {
    let mut peer = Peer::start(kit)?;
    let number = kit.number();
    let sent = ["note", "Käse & 2", "third"].map(|name| (format!("{name}-{number}.txt"), bytes(kit)));
    let mut files = Vec::new();
    for (name, bytes) in &sent {
        files.push(outgoing(kit, name, bytes)?);
    }
    let paths: Vec<_> = files.iter().filter_map(|file| file.path.clone()).collect();
    let why = Some("it is gone".to_owned());
    files.push(SentFile { name: "gone.txt".to_owned(), size: 0, path: None, error: why });
    let text = kit.text("with files");
    let deliver = Deliver { files, ..peer.delivery(&text)? };
    let outcome = peer.deliver(&deliver)?;
    if let Some(path) = paths.iter().find(|path| kit.files().join(path).exists()) {
        return Err(format!("the file `{path}` is still in the directory").into());
    }
    match outcome.result {
        Sent::Rejected if outcome.why.is_some() => return Ok(()),
        Sent::Delivered => {}
        other => return Err(format!("the outcome is {other:?}: {}", outcome.why.unwrap_or_default()).into()),
    }
    let network = kit.network()?;
    once(kit, &text)?;
    if !peer.can().files {
        // The text has to say so.
        return sent.iter().try_for_each(|(name, _)| once(kit, name));
    }
    for (name, bytes) in &sent {
        let got = network.file(name)?.ok_or_else(|| format!("people have no file `{name}`"))?;
        if got.hex != hex(bytes) {
            return Err(format!("the bytes of `{name}` are others: {}", got.hex).into());
        }
    }
    Ok(())
}

fn file_elsewhere(kit: &Kit<'_>) -> Tried {
    let network = kit.network()?;
    network.can("elsewhere")?;
    let mut peer = Peer::start(kit)?;
    let text = bring(kit, network, "elsewhere", "far.bin", b"far away")?;
    let message = peer.taken(&text)?;
    given(kit, &message)?;
    let told = network.act(&["told"])?;
    if told.is_empty() { Ok(()) } else { Err(format!("the other server was told `{told}`").into()) }
}
