//! Signing in and out.

use maud::{Markup, html};

use super::bare;
use crate::model::address::UserId;

/// The page of a link. It signs in by its button alone, because programs that look at links fetch them.
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

/// The page for browsers without a session.
pub(in crate::console) fn signed_out() -> Markup {
    bare(
        "Signed out",
        &html! {
            h1 { "Not signed in" }
            p { "Run " code { "hearth console" } " on the machine that runs Hearth, and open the link that it prints." }
            p class="dim" {
                "If you followed a link from another page, " a href="/" { "load this one again" } ": "
                "browsers do not say who you are to pages that others lead to."
            }
        },
    )
}
