//! What becomes of a message that was to be sent.

use hearth_bridge::Sent;
use hearth_bridge::program::post::End;
use whatsapp_rust::prelude::{ClientError, SendError};

use crate::acks::Ack;

/// Seconds of a pause for which WhatsApp names no time.
const PAUSE: u64 = 60;

/// The library could not send it.
pub(crate) fn unsent(error: &SendError) -> End {
    match error {
        SendError::InvalidRequest(why) => End::not(Sent::Rejected, why),
        // From here on it was being written.
        SendError::Client(ClientError::Socket(_) | ClientError::EncryptSend(_)) => End::not(Sent::Uncertain, error),
        // The library stores the keys before it writes, and fails before that.
        _ => End::not(Sent::Retry, error),
    }
}

/// The server's answer, if there was one.
pub(crate) fn judged(ack: Option<Ack>) -> Result<(), End> {
    let code = match ack {
        Some(Ok(())) => return Ok(()),
        None => return Err(End::not(Sent::Uncertain, "WhatsApp did not confirm it in time")),
        Some(Err(code)) => code,
    };
    Err(match code.as_str() {
        "429" => End {
            after: Some(PAUSE),
            ..End::not(Sent::Retry, "WhatsApp asks for a pause, because the account sends too much")
        },
        "463" => End::not(
            Sent::Rejected,
            "WhatsApp does not let this account write first to that person at the moment; they have to write first",
        ),
        "401" | "403" | "420" => {
            End::not(Sent::Rejected, format!("the account may not write in this chat (WhatsApp says {code})"))
        }
        "404" => End::not(Sent::Rejected, "this chat or number does not exist on WhatsApp"),
        "479" | "500" | "503" => End::not(Sent::Retry, format!("WhatsApp did not take it (it says {code})")),
        _ => End::not(Sent::Rejected, format!("WhatsApp refused it (it says {code})")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_end_attempts() {
        let of = |code: &str| judged(Some(Err(code.to_owned()))).map_err(|end| (end.result, end.after));
        assert_eq!(judged(Some(Ok(()))), Ok(()));
        assert_eq!(judged(None).map_err(|end| end.result), Err(Sent::Uncertain));
        assert_eq!(of("429"), Err((Sent::Retry, Some(PAUSE))));
        assert_eq!([of("463"), of("404"), of("never seen")], [(); 3].map(|()| Err((Sent::Rejected, None))));
        assert_eq!([of("479"), of("503")], [(); 2].map(|()| Err((Sent::Retry, None))));
    }

    #[test]
    fn what_never_left_is_tried_again() {
        assert_eq!(unsent(&SendError::NotLoggedIn).result, Sent::Retry);
        assert_eq!(unsent(&SendError::Client(ClientError::NotConnected)).result, Sent::Retry);
        assert_eq!(unsent(&SendError::InvalidRequest("no".to_owned())).result, Sent::Rejected);
    }
}
