//! Mail that no person wrote. An answer to it could be answered automatically, and so on.

use crate::headers::Headers;

/// Why a mail is not a message of a person (after RFC 3834); `None` if nothing says so.
pub(crate) fn reason(headers: &Headers, from: &str) -> Option<&'static str> {
    let word = |name: &str| headers.first(name).map(|value| value.trim().to_ascii_lowercase());
    // Anything but `no` says that a program wrote it; parameters may follow.
    let submitted = word("auto-submitted");
    if submitted.is_some_and(|word| word.split(';').next().map(str::trim) != Some("no")) {
        return Some("Auto-Submitted says that a program wrote it");
    }
    if word("precedence").is_some_and(|word| ["bulk", "junk", "list", "auto_reply"].contains(&word.as_str())) {
        return Some("Precedence says that it is bulk mail");
    }
    if headers.first("list-id").is_some() || headers.first("list-unsubscribe").is_some() {
        return Some("it is of a mailing list");
    }
    if ["x-auto-response-suppress", "x-autoreply", "x-autorespond"].iter().any(|name| headers.first(name).is_some()) {
        return Some("it is an automatic answer");
    }
    if headers.all("return-path").any(|path| path.split_whitespace().collect::<String>() == "<>") {
        return Some("its return path is empty, as that of a bounce");
    }
    if word("content-type").is_some_and(|kind| kind.starts_with("multipart/report")) {
        return Some("it is a report of a mail server");
    }
    let local: String =
        from.split('@').next().unwrap_or_default().chars().filter(|char| !"-_.".contains(*char)).collect();
    if ["mailerdaemon", "postmaster", "noreply", "donotreply", "bounce", "bounces"].contains(&local.as_str()) {
        return Some("its sender is a program");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_of_programs_is_recognised() {
        let found = |fields: &str, from: &str| reason(&Headers::read(fields.as_bytes()), from).is_some();
        for fields in [
            "Auto-Submitted: auto-replied\r\n\r\n",
            "auto-submitted: Auto-Generated; x=y\r\n\r\n",
            "Precedence: BULK\r\n\r\n",
            "List-Id: <x.test>\r\n\r\n",
            "List-Unsubscribe: <https://x.test>\r\n\r\n",
            "X-Auto-Response-Suppress: All\r\n\r\n",
            "Return-Path: < >\r\n\r\n",
            "Content-Type: multipart/report; report-type=delivery-status\r\n\r\n",
        ] {
            assert!(found(fields, "ann@x.test"), "{fields}");
        }
        for from in ["MAILER-DAEMON@x", "no-reply@x", "noreply@x", "do_not_reply@x", "postmaster@x"] {
            assert!(found("A: b\r\n\r\n", &from.to_ascii_lowercase()), "{from}");
        }
        for fields in ["Auto-Submitted: no\r\n\r\n", "Return-Path: <ann@x.test>\r\nPrecedence: first-class\r\n\r\n"] {
            assert!(!found(fields, "ann@x.test"), "{fields}");
        }
    }
}
