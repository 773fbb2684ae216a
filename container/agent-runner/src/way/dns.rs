//! Answers questions of DNS without asking anybody. Pure.
//!
//! Every name that a program may look up gets an address of its own. What is not a plain name, or is so long that it
//! could carry data, does not exist.

use std::net::Ipv4Addr;

/// Kinds of records.
const A: u16 = 1;
const ANY: u16 = 255;
/// Class of the internet.
const INTERNET: u16 = 1;

/// How long programs may remember an answer.
const TTL_SECONDS: u32 = 5;
/// Longest name, and most labels of one, that exist. The host asks no person about longer ones.
const NAME_MAX: usize = 100;
const LABELS_MAX: usize = 6;
/// Longest label, by the rules of DNS.
const LABEL_MAX: u8 = 63;
/// Length of a header.
const HEADER: usize = 12;

/// Response codes.
const NO_ERROR: u8 = 0;
const FORMAT_ERROR: u8 = 1;
const NO_SUCH_NAME: u8 = 3;
const NOT_IMPLEMENTED: u8 = 4;

/// The answer to a query, if it is one. `address` gives a name its address.
pub(super) fn answer(query: &[u8], address: &mut dyn FnMut(&str) -> Ipv4Addr) -> Option<Vec<u8>> {
    let header = query.get(..HEADER)?;
    let flags = *header.get(2)?;
    if flags & 0x80 != 0 {
        return None;
    }
    let is_plain_query = flags & 0x78 == 0;
    let one_question = header.get(4..6)? == [0, 1];
    let question = match (is_plain_query, one_question) {
        (false, _) => return Some(reply(header, NOT_IMPLEMENTED, &[], None)),
        (true, false) => return Some(reply(header, FORMAT_ERROR, &[], None)),
        (true, true) => Question::read(query.get(HEADER..)?),
    };
    let Some(question) = question else { return Some(reply(header, FORMAT_ERROR, &[], None)) };
    let Some(name) = &question.name else { return Some(reply(header, NO_SUCH_NAME, question.bytes, None)) };
    let wants_address = matches!(question.kind, A | ANY) && question.class == INTERNET;
    let found = wants_address.then(|| match name.as_str() {
        "localhost" => Ipv4Addr::LOCALHOST,
        name if name.ends_with(".localhost") => Ipv4Addr::LOCALHOST,
        name => address(name),
    });
    Some(reply(header, NO_ERROR, question.bytes, found))
}

/// The question of a query.
struct Question<'q> {
    /// As it was asked.
    bytes: &'q [u8],
    /// The name in lower case, if it may exist.
    name: Option<String>,
    kind: u16,
    class: u16,
}

impl<'q> Question<'q> {
    fn read(bytes: &'q [u8]) -> Option<Self> {
        let (mut at, mut labels) = (0_usize, Vec::new());
        loop {
            let length = *bytes.get(at)?;
            at = at.checked_add(1)?;
            match length {
                0 => break,
                1..=LABEL_MAX => {
                    let end = at.checked_add(usize::from(length))?;
                    labels.push(bytes.get(at..end)?);
                    at = end;
                }
                // A compressed name, which no question has.
                _ => return None,
            }
        }
        let end = at.checked_add(4)?;
        let [kind_high, kind_low, class_high, class_low] = *bytes.get(at..end)? else { return None };
        Some(Self {
            bytes: bytes.get(..end)?,
            name: plain_name(&labels),
            kind: u16::from_be_bytes([kind_high, kind_low]),
            class: u16::from_be_bytes([class_high, class_low]),
        })
    }
}

/// The name, if it is a plain one and not too long.
fn plain_name(labels: &[&[u8]]) -> Option<String> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if labels.is_empty() || labels.len() > LABELS_MAX || !labels.iter().all(|label| label.iter().all(plain)) {
        return None;
    }
    let labels: Vec<&str> = labels.iter().filter_map(|label| std::str::from_utf8(label).ok()).collect();
    let name = labels.join(".").to_ascii_lowercase();
    (name.len() <= NAME_MAX).then_some(name)
}

fn reply(header: &[u8], code: u8, question: &[u8], address: Option<Ipv4Addr>) -> Vec<u8> {
    let recursion_desired = header.get(2).copied().unwrap_or_default() & 0x01;
    let mut reply = header.get(..2).unwrap_or_default().to_vec();
    // It is a response, and recursion is available.
    reply.extend([0x80 | recursion_desired, 0x80 | code]);
    reply.extend(u16::from(!question.is_empty()).to_be_bytes());
    reply.extend(u16::from(address.is_some()).to_be_bytes());
    reply.extend([0; 4]);
    reply.extend_from_slice(question);
    if let Some(address) = address {
        // The name is the question's.
        reply.extend([0xc0, 12]);
        reply.extend(A.to_be_bytes());
        reply.extend(INTERNET.to_be_bytes());
        reply.extend(TTL_SECONDS.to_be_bytes());
        reply.extend([0, 4]);
        reply.extend(address.octets());
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(name: &str, kind: u16) -> Vec<u8> {
        let mut bytes = vec![0xab, 0xcd, 0x01, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.').filter(|label| !label.is_empty()) {
            bytes.push(u8::try_from(label.len()).unwrap());
            bytes.extend(label.as_bytes());
        }
        bytes.push(0);
        bytes.extend(kind.to_be_bytes());
        bytes.extend(INTERNET.to_be_bytes());
        bytes
    }

    /// The response code, and the address.
    fn asked(bytes: &[u8]) -> Option<(u8, Option<Ipv4Addr>)> {
        let reply = answer(bytes, &mut |name| Ipv4Addr::new(127, 64, 0, u8::try_from(name.len()).unwrap()))?;
        assert_eq!((&reply[..2], reply[2] & 0x80), (&bytes[..2], 0x80));
        let has_address = reply[7] == 1;
        let address: [u8; 4] = reply[reply.len() - 4..].try_into().unwrap();
        Some((reply[3] & 0x0f, has_address.then(|| address.into())))
    }

    #[test]
    fn names_get_addresses_and_nothing_else() {
        let address = |length| Some((NO_ERROR, Some(Ipv4Addr::new(127, 64, 0, length))));
        assert_eq!(asked(&query("Example.ORG", A)), address(11));
        assert_eq!(asked(&query("homeassistant", ANY)), address(13));
        assert_eq!(asked(&query("localhost", A)), Some((NO_ERROR, Some(Ipv4Addr::LOCALHOST))));
        assert_eq!(asked(&query("a.localhost", A)), Some((NO_ERROR, Some(Ipv4Addr::LOCALHOST))));
        // AAAA, TXT, HTTPS: the name exists, without such records.
        for kind in [28, 16, 65, 15] {
            assert_eq!(asked(&query("example.org", kind)), Some((NO_ERROR, None)), "{kind}");
        }
    }

    #[test]
    fn names_that_could_carry_data_do_not_exist() {
        let long = format!("{}.{}.org", "a".repeat(60), "b".repeat(40));
        for name in ["a.b.c.d.e.f.org", &long, "", "a b.org", "a\u{0}.org", "é.org", "1/2.org"] {
            assert_eq!(asked(&query(name, A)), Some((NO_SUCH_NAME, None)), "{name}");
        }
        assert_eq!(asked(&query("a.b.c.d.e.org", A)).map(|(code, _)| code), Some(NO_ERROR));
    }

    #[test]
    fn what_is_no_query_is_refused() {
        let good = query("example.org", A);
        assert_eq!(asked(&good[..11]), None);
        let mut response = good.clone();
        response[2] |= 0x80;
        assert_eq!(asked(&response), None);
        let mut update = good.clone();
        update[2] |= 0x28;
        assert_eq!(asked(&update), Some((NOT_IMPLEMENTED, None)));
        let mut several = good.clone();
        several[5] = 2;
        assert_eq!(asked(&several), Some((FORMAT_ERROR, None)));
        for end in HEADER..good.len() {
            assert_eq!(asked(&good[..end]), Some((FORMAT_ERROR, None)), "{end}");
        }
        let mut compressed = good;
        compressed[HEADER] = 0xc0;
        assert_eq!(asked(&compressed), Some((FORMAT_ERROR, None)));
    }
}
