//! Files of messages. Their addresses work for a day; after that, the message has new ones.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use hearth_bridge::GivenFile;

use super::message::{Attachment, Message};
use super::rest::{Rest, Trouble};
use crate::web::{Ask, Content, FILE, Method};

/// How often a file is tried.
const TRIES: u32 = 3;
const AGAIN: Duration = Duration::from_secs(1);

/// Where files go.
pub(crate) struct Files<'a> {
    pub(crate) rest: &'a Rest,
    pub(crate) directory: &'a Path,
    /// A number that no other message has.
    pub(crate) number: u64,
    /// The daemon's limit for a file, in bytes.
    pub(crate) max: u64,
}

/// Why a file is not there.
enum Gone {
    /// Its address does not work any more.
    Expired,
    /// For people.
    Why(String),
}

impl Files<'_> {
    /// Fetches the files of a message, if they are wanted.
    pub(crate) fn fetch(&self, message: &Message, is_wanted: bool) -> Vec<GivenFile> {
        let mut anew: Option<Option<Message>> = None;
        let mut given = Vec::new();
        for (place, file) in message.files().into_iter().enumerate() {
            let name = format!("in-{}-{place}", self.number);
            let result = match self.one(file, &name, is_wanted) {
                Err(Gone::Expired) => {
                    let anew = anew.get_or_insert_with(|| self.again(message));
                    let file = anew
                        .as_ref()
                        .and_then(|anew| anew.files().into_iter().find(|other| other.id == file.id).cloned());
                    file.map_or(Err(Gone::Expired), |file| self.one(&file, &name, is_wanted))
                }
                other => other,
            };
            let (path, error) = match result {
                Ok(()) => (Some(name), None),
                Err(Gone::Expired) => (None, Some("Discord does not have it any more".to_owned())),
                Err(Gone::Why(why)) => (None, Some(why)),
            };
            let shown = Some(file.filename.clone()).filter(|name| !name.is_empty());
            given.push(GivenFile { name: shown, mime: file.content_type.clone(), path, error });
        }
        given
    }

    /// The message with new addresses.
    fn again(&self, message: &Message) -> Option<Message> {
        let (channel, id) = (message.channel_id, message.id);
        let found =
            self.rest.get(format!("channels/{channel}/messages/{id}"), "get message", &channel.to_string()).ok()?;
        serde_json::from_value(found).ok()
    }

    fn one(&self, file: &Attachment, name: &str, is_wanted: bool) -> Result<(), Gone> {
        let why = |why: &str| Err(Gone::Why(why.to_owned()));
        if !is_wanted {
            return why("it was not fetched");
        }
        let max = self.max;
        let too_large = || Err(Gone::Why(format!("it is larger than {max} bytes")));
        if file.size > max {
            return too_large();
        }
        if !self.rest.is_file(&file.url) {
            return why("its address is not one of a file of Discord");
        }
        let mut tried = 0;
        loop {
            tried += 1;
            // Its address is enough: the token goes only to the API.
            let ask = Ask {
                method: Method::GET,
                url: &file.url,
                authorization: None,
                content: Content::Nothing,
                within: FILE,
            };
            match self.rest.web.fetch(ask, &self.directory.join(name), max) {
                Ok(Some(answer)) if answer.is_success() => return Ok(()),
                Ok(None) => return too_large(),
                Ok(Some(answer)) if matches!(answer.status, 403 | 404 | 410) => return Err(Gone::Expired),
                Ok(Some(answer)) if tried >= TRIES => {
                    return Err(Gone::Why(format!("Discord answers {}", answer.status)));
                }
                Err(error) if tried >= TRIES => return Err(Gone::Why(Trouble::from(error).to_string())),
                Ok(Some(_)) | Err(_) => sleep(AGAIN),
            }
        }
    }
}
