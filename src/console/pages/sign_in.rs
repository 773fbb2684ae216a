//! Signing in and out.

use maud::{Markup, html};

use super::bare;
use crate::console::ChatLogin;
use crate::model::address::UserId;

/// Sign-in page of a link. Only the button signs in, because link previews fetch the page.
pub(in crate::console) fn offer(code: &str, user: &UserId) -> Markup {
    bare(
        "Sign in",
        &html! {
            h1 { "Hearth" }
            p { "Sign in to the console as " strong { (user) } "?" }
            form method="post" action="/sign-in" {
                input type="hidden" name="code" value=(code);
                button class="main" autofocus { "Sign in" }
            }
            p class="dim" { "The link works once, and for a minute. If you did not ask for it, close this page." }
        },
    )
}

/// The page of a link that no longer works.
pub(in crate::console) fn expired() -> Markup {
    bare(
        "Link expired",
        &html! {
            h1 { "This link no longer works" }
            p { "A link works once, and for a minute. Run " code { "hearth console" } " for a new one." }
        },
    )
}

/// The page of a browser in which a person is signing in from a chat. It reloads automatically.
pub(in crate::console) fn login(state: &ChatLogin) -> Markup {
    let body = match state {
        ChatLogin::Waiting { code } => html! {
            h1 { "Sign in from a chat" }
            p { "Send this to the bot, in a direct message, within three minutes:" }
            p class="code" { code { "/login " (grouped(code)) } }
            p { "Then press " a href="/login" { "Go on" } "." }
            p class="dim" {
                "Only you need this code. Do not send it for another person, and do not send one that another person gave you: "
                "the browser that shows it can see and do what you can."
            }
        },
        ChatLogin::Proved(user) => html! {
            h1 { "Sign in from a chat" }
            p { "The code came from " strong { (user) } ". Sign in?" }
            form method="post" action="/login/end" { button class="main" { "Sign in" } }
            p class="dim" { "To change roles or agents, sign in with a link from " code { "hearth console" } "." }
        },
        ChatLogin::Void => html! {
            h1 { "This code no longer works" }
            p { "A code works once, for three minutes, and only in a direct message." }
            form method="post" action="/login" { button class="main" { "Show another code" } }
        },
    };
    let waits = matches!(state, ChatLogin::Waiting { .. });
    bare("Sign in", &html! { div id="live" aria-live="polite" data-polls[waits] { (body) } })
}

/// A code in two groups.
fn grouped(code: &str) -> String {
    match code.split_at_checked(code.len() / 2) {
        Some((first, second)) => format!("{first}-{second}"),
        None => code.to_owned(),
    }
}

/// The page for browsers without a session. `from_chat` says whether people may sign in from a chat.
pub(in crate::console) fn signed_out(from_chat: bool) -> Markup {
    bare(
        "Signed out",
        &html! {
            h1 { "Not signed in" }
            p { "Run " code { "hearth console" } " on the machine that runs Hearth, and open the link that it prints." }
            @if from_chat {
                form method="post" action="/login" { button { "Sign in from a chat" } }
            }
            p class="dim" {
                "If you followed a link from another page, " a href="/" { "load this one again" } ": "
                "browsers do not say who you are to pages that others lead to."
            }
        },
    )
}
