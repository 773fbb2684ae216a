//! Who wrote a mail. Everybody can write any address into `From`. The receiving server checks signatures and writes what
//! it found into `Authentication-Results` (RFC 8601), above everything that came with the mail.

use crate::headers::Headers;

/// The results of one check.
#[derive(Debug, PartialEq, Eq)]
struct Checked {
    method: String,
    result: String,
    properties: Vec<Property>,
}

/// A property of a result, like `header.d=example.org`.
#[derive(Debug, PartialEq, Eq)]
struct Property {
    name: String,
    value: String,
}

/// Whether the server that calls itself `authserv_id` vouches for the domain: a signature of this domain is valid, or its
/// policy (DMARC) passed. Only the topmost result counts, because senders can write others.
pub(crate) fn is_verified(headers: &Headers, authserv_id: &str, domain: &str) -> bool {
    if headers.is_ambiguous || authserv_id.is_empty() {
        return false;
    }
    let Some(results) = headers.first("authentication-results").and_then(read) else { return false };
    if !results.server.eq_ignore_ascii_case(authserv_id) {
        return false;
    }
    let is_domain = |value: Option<&str>| value.is_some_and(|value| value.eq_ignore_ascii_case(domain));
    let policies: Vec<&Checked> = results.checks.iter().filter(|check| check.method == "dmarc").collect();
    match policies.as_slice() {
        [] => {}
        [policy] if policy.result == "pass" => return is_domain(policy.property("header.from")),
        [policy] if policy.result == "none" => {}
        // It failed, could not be checked, or there are two.
        _ => return false,
    }
    let mut signatures = results.checks.iter().filter(|check| check.method == "dkim" && check.result == "pass");
    signatures.any(|signature| match (signature.property("header.d"), signature.property("header.i")) {
        (Some(signer), _) => is_domain(Some(signer)),
        (None, Some(identity)) => is_domain(identity.rsplit_once('@').map(|(_, domain)| domain)),
        (None, None) => false,
    })
}

impl Checked {
    /// The value of a property that is there once.
    fn property(&self, name: &str) -> Option<&str> {
        let mut found = self.properties.iter().filter(|property| property.name == name);
        found.next().filter(|_| found.next().is_none()).map(|property| property.value.as_str())
    }
}

/// A whole field.
#[derive(Debug, PartialEq, Eq)]
struct Results {
    server: String,
    checks: Vec<Checked>,
}

/// Reads a field; `None` if it has a form that programs could read differently.
fn read(value: &str) -> Option<Results> {
    let mut parts = parts(value)?.into_iter();
    let server = match parts.next()?.as_slice() {
        [Token::Word(server)] => server.clone(),
        [Token::Word(server), Token::Word(version)] if version.bytes().all(|byte| byte.is_ascii_digit()) => {
            server.clone()
        }
        _ => return None,
    };
    let mut checks = Vec::new();
    for part in parts {
        match part.as_slice() {
            [] => {}
            [Token::Word(word)] if word.eq_ignore_ascii_case("none") => {}
            [Token::Pair(first), rest @ ..] => {
                let method = first.name.split('/').next().unwrap_or_default().to_owned();
                let mut properties = Vec::new();
                for token in rest {
                    let Token::Pair(property) = token else { return None };
                    properties.push(Property { name: property.name.clone(), value: property.value.clone() });
                }
                checks.push(Checked { method, result: first.value.to_ascii_lowercase(), properties });
            }
            _ => return None,
        }
    }
    Some(Results { server, checks })
}

/// A piece between spaces.
#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Pair(Property),
}

/// The tokens between semicolons, without comments.
fn parts(value: &str) -> Option<Vec<Vec<Token>>> {
    let text = without_comments(value)?;
    let mut parts = vec![Vec::new()];
    let mut rest = text.as_str();
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else { return Some(parts) };
        if first == ';' {
            parts.push(Vec::new());
            rest = rest.get(1..)?;
            continue;
        }
        let word = word(&mut rest, true)?;
        let after = rest.trim_start();
        let token = match after.strip_prefix('=') {
            Some(after) => {
                rest = after.trim_start();
                Token::Pair(Property { name: word.to_ascii_lowercase(), value: self::word(&mut rest, false)? })
            }
            None => Token::Word(word),
        };
        parts.last_mut()?.push(token);
    }
}

/// Takes a word, or a quoted one.
fn word(rest: &mut &str, is_name: bool) -> Option<String> {
    if let Some(quoted) = rest.strip_prefix('"') {
        let mut word = String::new();
        let mut chars = quoted.char_indices();
        while let Some((at, char)) = chars.next() {
            match char {
                '\\' => word.push(chars.next()?.1),
                '"' => {
                    *rest = quoted.get(at + 1..)?;
                    return Some(word);
                }
                char => word.push(char),
            }
        }
        return None;
    }
    let ends = |char: char| char.is_whitespace() || char == ';' || char == '"' || is_name && char == '=';
    let end = rest.find(ends).unwrap_or(rest.len());
    let word = rest.get(..end).filter(|word| !word.is_empty())?;
    *rest = rest.get(end..)?;
    Some(word.to_owned())
}

/// The text with each comment replaced by a space; `None` if one has no end.
fn without_comments(value: &str) -> Option<String> {
    let (mut text, mut depth, mut quoted) = (String::new(), 0_usize, false);
    let mut chars = value.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' if quoted || depth > 0 => {
                let next = chars.next()?;
                if depth == 0 {
                    text.extend(['\\', next]);
                }
            }
            '"' if depth == 0 => {
                quoted = !quoted;
                text.push('"');
            }
            '(' if !quoted => {
                depth += 1;
                text.push(' ');
            }
            ')' if !quoted => depth = depth.checked_sub(1)?,
            char if depth == 0 => text.push(char),
            _ => {}
        }
    }
    (depth == 0 && !quoted).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(results: &str) -> bool {
        let raw = format!("{results}From: ann@friend.test\r\n\r\n");
        is_verified(&Headers::read(raw.as_bytes()), "mail.test", "friend.test")
    }

    #[test]
    fn only_the_own_server_vouches_and_only_for_the_domain_of_the_address() {
        let field = |value: &str| format!("Authentication-Results: {value}\r\n");
        for value in [
            "mail.test; dkim=pass header.d=friend.test",
            "mail.test 1; dkim=pass (good (really) signature) header.d=friend.test header.s=k header.b=\"ab/=\"",
            "MAIL.test;\r\n\tdkim=fail header.d=other.test;\r\n dkim = pass header.d = \"friend.test\"",
            "mail.test; dkim=pass header.i=@friend.test header.s=x header.b=a+b/c=; spf=fail smtp.mailfrom=x@evil.test",
            "mail.test; spf=softfail; dmarc=pass (p=NONE) header.from=friend.test",
            "mail.test; dmarc=none; dkim=pass header.d=friend.test",
        ] {
            assert!(verdict(&field(value)), "{value}");
        }
        for value in [
            "mail.test; dkim=fail header.d=friend.test",
            "mail.test; dkim=none",
            "mail.test; none",
            "mx.google.com; dkim=pass header.d=friend.test",
            "mail.test.evil.test; dkim=pass header.d=friend.test",
            "mail.test; dkim=pass header.d=evil.test",
            "mail.test; dkim=pass header.d=friend.test.evil.test",
            "mail.test; dkim=pass header.d=evil.test header.i=@friend.test",
            "mail.test; dkim=pass header.d=evil.test header.d=friend.test",
            "mail.test; dkim=pass reason=\"header.d=friend.test\"",
            "mail.test; dkim=pass (header.d=friend.test)",
            "mail.test; (dkim=pass header.d=friend.test",
            "mail.test; dkim=pass header.d=friend.test \"",
            "mail.test; spf=pass smtp.mailfrom=\"x; dkim=pass header.d=friend.test\"@evil.test",
            "mail.test; spf=pass smtp.mailfrom=friend.test",
            "mail.test; dmarc=fail header.from=friend.test; dkim=pass header.d=friend.test",
            "mail.test; dmarc=pass header.from=evil.test; dkim=pass header.d=friend.test",
            "mail.test; dmarc=pass header.from=friend.test; dmarc=fail header.from=friend.test",
            "dkim=pass header.d=friend.test",
            "",
        ] {
            assert!(!verdict(&field(value)), "{value}");
        }
        let (own, foreign) = ("mail.test; dkim=pass header.d=friend.test", "mx.test; dkim=pass header.d=friend.test");
        assert!(verdict(&(field(own) + &field(foreign))), "only the topmost result counts");
        assert!(!verdict(&(field(foreign) + &field(own))), "only the topmost result counts");
        assert!(!verdict(""));
    }
}
