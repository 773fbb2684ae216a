//! `hearth channels pair`: makes the person who sends a code to the bot an owner.

use std::io::IsTerminal as _;
use std::thread::sleep;
use std::time::Duration;

use fast_qr::{ECL, QRBuilder};
use serde::Serialize;

use crate::cli::{Done, Failure, change, human_time, print};
use crate::config::Paths;
use crate::model::address::UserId;
use crate::model::configure::{Change, RoleSpec};
use crate::socket::client::{Client, Error, unexpected};
use crate::socket::protocol::{PairingCode, PairingJson, PairingStateJson, Request, Response};

/// Interval between two status queries.
const LOOK: Duration = Duration::from_millis(300);
/// Number of status queries for a channel that is down, because it may still be connecting: 15 s.
const CONNECTING: u32 = 50;

/// Who confirms the person that sent the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Confirm {
    /// The person at the terminal.
    Ask,
    /// No one: the first sender of the code becomes an owner.
    Skip,
}

/// The first line of JSON output.
#[derive(Serialize)]
struct CodeJson<'a> {
    channel: &'a str,
    #[serde(flatten)]
    code: &'a PairingCode,
}

/// The last line of JSON output.
#[derive(Serialize)]
struct PairedJson<'a> {
    user: String,
    name: &'a Option<String>,
    role: &'static str,
}

/// Runs the command.
pub(super) fn pair(paths: &Paths, channel: &str, yes: bool, json: bool) -> Done {
    let can_ask = !json && std::io::stdin().is_terminal();
    let confirm = match (yes, can_ask) {
        (true, _) => Confirm::Skip,
        (false, true) => Confirm::Ask,
        (false, false) => {
            let text = "there is no terminal to confirm that the sender of the code becomes an owner; add --yes";
            return Err(Failure::Failed(text.to_owned()));
        }
    };
    let mut client = Client::connect(paths)?;
    pair_by(paths, &mut client, channel, confirm, json).map(drop)
}

/// Opens a pairing, waits for its code, and grants the role. None if the operator declines.
pub(in crate::cli) fn pair_by(
    paths: &Paths,
    client: &mut Client,
    channel: &str,
    confirm: Confirm,
    json: bool,
) -> Result<Option<UserId>, Failure> {
    let code = open(client, channel)?;
    if json {
        print::json(&CodeJson { channel, code: &code })?;
    } else {
        show(channel, &code)?;
    }
    let (user, name) = answered(client)?;
    let user = UserId::parse(&user)?;
    let about = name.as_ref().map_or_else(|| user.to_string(), |name| format!("{name} ({user})"));
    if confirm == Confirm::Ask {
        let question = format!("{about} sent the code.\nMake this person an owner, who may decide everything? [y/N]: ");
        if !print::agreed(&question) {
            print::line("nothing was changed")?;
            return Ok(None);
        }
    }
    let grant = Change::Grant(user.clone(), RoleSpec::Owner);
    change::submit_edit(paths, grant)?;
    if json {
        print::json(&PairedJson { user: user.to_string(), name: &name, role: "owner" })?;
    } else {
        print::line(&format!("{about} is now an owner: approvals and questions reach them on {channel}"))?;
    }
    Ok(Some(user))
}

/// Opens a pairing. A channel that is down gets some time to connect.
fn open(client: &mut Client, channel: &str) -> Result<PairingCode, Failure> {
    let mut looks = 0;
    loop {
        match client.ask(&Request::Pair { channel: channel.to_owned() })? {
            Response::Code(code) => return Ok(code),
            Response::Refused { refusal, .. } if refusal.code == "down" && looks < CONNECTING => sleep(LOOK),
            other => return Err(unexpected(other).into()),
        }
        looks += 1;
    }
}

fn show(channel: &str, code: &PairingCode) -> Done {
    let (first, second) = code.code.split_at_checked(4).unwrap_or((&code.code, ""));
    print::line(&format!(
        "Send this code to the bot of channel {channel}, as a direct message from your own account:\n\n    {first}-{second}\n"
    ))?;
    if let Some(link) = &code.link {
        print::line(&format!(
            "Or open this link on the device where you use that account, and press Start:\n\n    {link}\n"
        ))?;
        if std::io::stdout().is_terminal() {
            picture(link)?;
        }
    }
    let until = human_time::local(&code.expires);
    print::line(&format!("Code and link work once, until {until}. Ctrl-C cancels them. Waiting …"))
}

/// Draws a link as a QR code of half blocks. Its colours are set, as not every program reads an inverted one.
fn picture(link: &str) -> Done {
    let Ok(code) = QRBuilder::new(link).ecl(ECL::L).build() else { return Ok(()) };
    let (begin, end) = if print::coloured(&std::io::stdout()) { ("\x1b[97;40m", "\x1b[0m") } else { ("", "") };
    let lines = code.to_str().lines().map(|line| format!("    {begin}{line}{end}\n")).collect::<String>();
    print::verbatim(&format!("{lines}\n"))
}

/// Waits for the person who sends the code, and reports wrong codes.
fn answered(client: &mut Client) -> Result<(String, Option<String>), Failure> {
    let mut wrong_before = 0;
    loop {
        let PairingJson { wrong, state } = match client.ask(&Request::Pairing) {
            Ok(Response::Pairing(state)) => state,
            Ok(other) => return Err(unexpected(other).into()),
            Err(Error::Closed | Error::Broken(_)) => {
                let text = "the daemon stopped, which ended the code; run the command again once it runs";
                return Err(Failure::Failed(text.to_owned()));
            }
            Err(error) => return Err(error.into()),
        };
        if wrong > wrong_before {
            print::note(&format!("a wrong code was sent ({wrong} so far)"));
            wrong_before = wrong;
        }
        match state {
            PairingStateJson::Open => sleep(LOOK),
            PairingStateJson::Answered { user, name } => return Ok((user, name)),
            PairingStateJson::Void { why } => {
                return Err(Failure::Failed(format!(
                    "{why}; nothing was changed. Run the command again for another code"
                )));
            }
        }
    }
}
