//! What the channel's settings say.

use std::net::{Ipv4Addr, SocketAddr};

use hearth_bridge::Hello;
use hearth_bridge::program::settings::{address, only, secret, setting};

use super::signature::Key;

const SERVER: &str = "https://graph.facebook.com";
/// Names of settings.
const NAMES: [&str; 5] = ["base_url", "listen", "number", "path", "server"];
/// Where WhatsApp's requests come in.
const PORT: u16 = 8460;
const PATH: &str = "/whatsapp";

pub(super) struct Settings {
    /// The id of the number; not the number itself.
    pub(super) number: String,
    pub(super) listen: SocketAddr,
    pub(super) path: String,
    pub(super) server: String,
    pub(super) token: String,
    pub(super) verify: String,
    pub(super) key: Key,
}

impl Settings {
    pub(super) fn of(hello: &Hello) -> Result<Self, String> {
        only(hello, &NAMES)?;
        let number = setting(hello, "number")
            .ok_or("the id of the number is missing; set `number` to the phone number ID of Meta's app dashboard")?;
        if !is_number(number) {
            return Err("`number` must be the phone number ID, which has only digits, and not the number".to_owned());
        }
        let server = setting(hello, "server").or(setting(hello, "base_url")).unwrap_or(SERVER);
        let token = secret(hello, "token", "the access token")?;
        let both = secret(hello, "secret", "the app secret with the verify token")?;
        let (app, verify) = both.split_once(':').filter(|(app, verify)| !app.is_empty() && !verify.is_empty()).ok_or(
            "`secret` must be the app secret and the verify token with a colon between them, like `0a1b…:my-own-words`",
        )?;
        let key = Key::new(app).ok_or("the app secret in `secret` cannot be used; copy it again")?;
        Ok(Self {
            number: number.to_owned(),
            listen: listen(setting(hello, "listen"))?,
            path: path(setting(hello, "path"))?,
            server: address(server, SERVER)?,
            token,
            verify: verify.to_owned(),
            key,
        })
    }
}

fn is_number(text: &str) -> bool {
    (5..=25).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn listen(text: Option<&str>) -> Result<SocketAddr, String> {
    let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    let wrong = || format!("`listen` must be an address with a port, like \"{usual}\"");
    text.map_or(Ok(usual), |text| text.parse().ok().filter(|address: &SocketAddr| address.port() > 0).ok_or_else(wrong))
}

fn path(text: Option<&str>) -> Result<String, String> {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    let path = text.unwrap_or(PATH);
    let is_path = path.starts_with('/') && path.len() <= 200 && path.bytes().all(is_sign);
    if is_path { Ok(path.to_owned()) } else { Err(format!("`path` must be a plain path, like \"{PATH}\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_paths_are_plain() {
        assert_eq!(listen(None).unwrap().to_string(), "127.0.0.1:8460");
        assert!(listen(Some("[::1]:8460")).is_ok() && path(Some("/a/b-c_7")).is_ok());
        for text in ["", "8460", "localhost:8460", "127.0.0.1", "127.0.0.1:0"] {
            assert!(listen(Some(text)).is_err(), "{text}");
        }
        for text in ["", "whatsapp", "/a?b", "/a b", "/ä"] {
            assert!(path(Some(text)).is_err(), "{text}");
        }
        assert!(is_number("106540352242922") && !is_number("+15550001111") && !is_number("1"));
    }
}
