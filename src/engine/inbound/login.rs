//! Messages with a code for signing in to the console. They are recorded like those with a code for pairing.

use crate::Result;
use crate::delivery::notice;
use crate::entities::console;
use crate::inbound::pairing;
use crate::model::input::{InboundEvent, LoginCodeUse};
use crate::model::report::Reply;
use crate::rows::people;
use crate::tx::Tx;

/// Consumes a message. The daemon has compared the code and holds the sign-in. People without any rights get no answer.
pub(crate) fn code(tx: &mut Tx<'_, '_>, event: &InboundEvent, used: &LoginCodeUse) -> Result<Reply> {
    if let Some(repeated) = pairing::consume(tx, event)? {
        return Ok(repeated);
    }
    let sender = people::sender_of(event);
    let known = match &sender {
        Some(user) => console::may_sign_in(tx, user)?,
        None => false,
    };
    if known {
        notice::say_to(tx, event.source.clone(), None, words(used))?;
    }
    pairing::consumed(tx, event)
}

fn words(used: &LoginCodeUse) -> String {
    match used {
        LoginCodeUse::Accepted { browser } => format!(
            "Hearth has received your code. The browser that shows it can sign in to the console as you now. It calls itself \
             \"{browser}\". If another person asked you for this, sign it out: on the console's page Signed in, or with \
             `hearth console sessions` and `hearth console sign-out`."
        ),
        LoginCodeUse::Wrong => {
            "No browser shows this code. A code works once, and for three minutes: open the console, press \
                                \"Sign in from a chat\", and send /login with the code that it shows."
                .to_owned()
        }
        LoginCodeUse::TooMany => "These were too many wrong codes. Wait ten minutes.".to_owned(),
        LoginCodeUse::NotHere => {
            "Codes for signing in work only in a direct message with this bot, and only on networks that \
                                  prove who a sender is. A code that was sent here does not work any more."
                .to_owned()
        }
        LoginCodeUse::Exposed => {
            "This message has a code for signing in, so it went to no agent, and the code does not work \
                                  any more. Send codes as /login CODE in a direct message."
                .to_owned()
        }
    }
}
