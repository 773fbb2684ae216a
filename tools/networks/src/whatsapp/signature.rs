//! What proves that WhatsApp speaks: the signature of a report, which is HMAC-SHA256 of its bytes with the app's secret, and
//! the verify token. Both are compared in constant time.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// The app's secret. It is never shown.
#[derive(Clone)]
pub(super) struct Key(Hmac<Sha256>);

impl Key {
    pub(super) fn new(secret: &str) -> Option<Self> {
        Hmac::new_from_slice(secret.as_bytes()).ok().map(Self)
    }

    /// Whether a header signs a body.
    pub(super) fn signs(&self, header: &str, body: &[u8]) -> bool {
        let claimed = header.strip_prefix("sha256=").and_then(unhex);
        claimed.is_some_and(|claimed| self.sum(body).verify_slice(&claimed).is_ok())
    }

    /// Whether two texts are the same.
    pub(super) fn is_same(&self, one: &str, other: &str) -> bool {
        let sum = self.sum(other.as_bytes()).finalize().into_bytes();
        self.sum(one.as_bytes()).verify_slice(&sum).is_ok()
    }

    fn sum(&self, bytes: &[u8]) -> Hmac<Sha256> {
        let mut sum = self.0.clone();
        sum.update(bytes);
        sum
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |char: char| char.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let digits: Vec<u8> = text.chars().map(digit).collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    let is_whole = pairs.remainder().is_empty();
    is_whole.then(|| pairs.filter_map(|pair| Some((pair.first()? << 4) | pair.get(1)?)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_secret_signs_and_only_the_bytes_that_came() {
        let key = Key::new("secret").unwrap();
        // Python: hmac.new(b"secret", '{"a":"ä"}'.encode(), "sha256").hexdigest()
        let (body, hex) =
            ("{\"a\":\"ä\"}".as_bytes(), "5498173a59916f0014781a59613c5545cce57e1e1658205e874fbd46a63ad638");
        let header = format!("sha256={hex}");
        assert!(key.signs(&header, body) && key.signs(&format!("sha256={}", hex.to_uppercase()), body));
        assert!(!key.signs(&header, b"{\"a\":\"\\u00e4\"}") && !Key::new("other").unwrap().signs(&header, body));
        for header in ["", "sha256=", hex, &format!("sha1={hex}"), "sha256=zz", &header[..header.len() - 1]] {
            assert!(!key.signs(header, body), "{header}");
        }
        assert!(key.is_same("verify", "verify") && !key.is_same("verify", "verif") && !key.is_same("", "x"));
    }
}
