//! Files: those of people's messages, and those that agents send.

use std::fs::File;
use std::path::Path;

use serde_json::{Value, json};

use super::api::{Api, Trouble};
use super::event::text;
use crate::web::{Ask, Content, FILE, Method};

/// A file of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attached {
    pub(super) name: Option<String>,
    pub(super) mime: Option<String>,
    size: Option<u64>,
    place: Place,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Url(String),
    /// Slack says where it is when it is asked.
    Id(String),
    Nowhere(&'static str),
}

impl Attached {
    /// Most files of a message.
    pub(super) const MOST: usize = 32;

    pub(super) fn read(file: &Value) -> Self {
        let word = |name: &str| file.get(name).and_then(Value::as_str).map(str::to_owned);
        let url = word("url_private_download").or(word("url_private"));
        let place = match (text(file, "/mode"), url, word("id")) {
            (Some("tombstone"), ..) => Place::Nowhere("it was deleted"),
            (Some("hidden_by_limit"), ..) => Place::Nowhere("Slack hides it, because the workspace has too many"),
            (_, Some(url), _) => Place::Url(url),
            // In channels that are shared with other workspaces.
            (_, None, Some(id)) => Place::Id(id),
            (_, None, None) => Place::Nowhere("the message does not say where it is"),
        };
        let size = file.get("size").and_then(Value::as_u64);
        Self { name: word("name").or(word("title")), mime: word("mimetype"), size, place }
    }

    /// Writes the file; otherwise why there is none, for the agent.
    pub(super) fn fetch(&self, api: &Api, to: &Path) -> Result<Result<(), String>, Trouble> {
        match &self.place {
            Place::Nowhere(why) => Ok(Err((*why).to_owned())),
            Place::Url(url) => self.fetch_at(api, url, to),
            Place::Id(id) => match api.get("files.info", &[("file", id)]) {
                Ok(answer) => match answer.get("file").map(Self::read) {
                    Some(Self { place: Place::Url(url), .. }) => self.fetch_at(api, &url, to),
                    _ => Ok(Err("Slack does not say where it is".to_owned())),
                },
                Err(trouble) if trouble.is_passing() => Err(trouble),
                Err(trouble) => Ok(Err(trouble.to_string())),
            },
        }
    }

    fn fetch_at(&self, api: &Api, url: &str, to: &Path) -> Result<Result<(), String>, Trouble> {
        let Some(authorization) = api.authorization(url) else {
            return Ok(Err("it is not with Slack, and not fetched".to_owned()));
        };
        let max = api.file_max;
        if self.size.is_some_and(|size| size > max) {
            return Ok(Err(format!("it is larger than {max} bytes")));
        }
        let ask = Ask {
            method: Method::GET,
            url,
            authorization: Some(authorization),
            content: Content::Nothing,
            within: FILE,
        };
        let Some(answer) = api.web.fetch(ask, to, max)? else {
            return Ok(Err(format!("it is larger than {max} bytes")));
        };
        match answer.status {
            200..300 => {}
            300..400 => return Ok(Err("Slack asks to log in: the bot may not read it (`files:read`)".to_owned())),
            429 | 500.. => return Err(Trouble::Lost(format!("status {}", answer.status))),
            status => return Ok(Err(format!("Slack refuses it: status {status}"))),
        }
        let is_page = answer.header("content-type").is_some_and(|kind| kind.starts_with("text/html"));
        let size = std::fs::metadata(to).map_or(0, |about| about.len());
        let wrong = match self.size {
            _ if is_page && self.mime.as_deref() != Some("text/html") => "Slack sends a page instead of it",
            Some(right) if right != size => "Slack sends something else instead of it",
            _ => return Ok(Ok(())),
        };
        drop(std::fs::remove_file(to));
        Ok(Err(wrong.to_owned()))
    }
}

/// Gives Slack a file, which is not shown yet; returns its id.
pub(super) fn upload(api: &Api, path: &Path, name: &str) -> Result<String, Trouble> {
    let refused = |error: std::io::Error| Trouble::Refused(format!("it cannot be read: {error}"));
    let file = File::open(path).map_err(refused)?;
    let length = file.metadata().map_err(refused)?.len();
    let asked = [("filename", name), ("length", &length.to_string())];
    let answer = api.get("files.getUploadURLExternal", &asked)?;
    let (Some(url), Some(id)) = (text(&answer, "/upload_url"), text(&answer, "/file_id")) else {
        return Err(Trouble::Lost("its answer has no address for a file".to_owned()));
    };
    if !api.is_own(url) {
        return Err(Trouble::Refused("its address for a file is not one of Slack".to_owned()));
    }
    // The address is the secret; the token would be one more.
    let content = Content::Stream { kind: "application/octet-stream", length, from: Box::new(file) };
    let ask = Ask { method: Method::POST, url, authorization: None, content, within: FILE };
    let answer = api.web.ask(ask)?;
    match answer.status {
        200..300 => Ok(id.to_owned()),
        status @ (429 | 500..) => Err(Trouble::Lost(format!("status {status}"))),
        status => Err(Trouble::Refused(format!("status {status}"))),
    }
}

/// Where a file is shown.
pub(super) struct Shown<'a> {
    pub(super) chat: &'a str,
    pub(super) thread: Option<&'a str>,
}

/// Shows a file that Slack has in a chat. It is not shown twice if it is asked twice, as far as Slack says where it is.
pub(super) fn share(api: &Api, id: &str, name: &str, at: &Shown<'_>, may_be_there: bool) -> Result<(), Trouble> {
    if may_be_there && is_shared(api, id, at.chat)? {
        return Ok(());
    }
    let mut asked = json!({ "files": [{ "id": id, "title": name }], "channel_id": at.chat });
    if let (Some(fields), Some(thread)) = (asked.as_object_mut(), at.thread) {
        fields.insert("thread_ts".to_owned(), json!(thread));
    }
    match api.post("files.completeUploadExternal", &asked) {
        Ok(_) => Ok(()),
        Err(Trouble::Lost(why)) => match is_shared(api, id, at.chat) {
            Ok(true) => Ok(()),
            _ => Err(Trouble::Lost(why)),
        },
        Err(trouble) => Err(trouble),
    }
}

fn is_shared(api: &Api, id: &str, chat: &str) -> Result<bool, Trouble> {
    let answer = match api.get("files.info", &[("file", id)]) {
        Err(trouble) if !trouble.is_passing() => return Ok(false),
        other => other?,
    };
    let kinds = answer.pointer("/file/shares").and_then(Value::as_object).into_iter().flatten();
    Ok(kinds.map(|(_, chats)| chats).any(|chats| chats.get(chat).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_say_where_they_are() {
        let place = |file: Value| Attached::read(&file).place;
        assert_eq!(place(json!({ "url_private": "https://x", "id": "F1" })), Place::Url("https://x".to_owned()));
        assert_eq!(place(json!({ "id": "F1", "file_access": "check_file_info" })), Place::Id("F1".to_owned()));
        assert!(matches!(place(json!({ "id": "F1", "mode": "tombstone" })), Place::Nowhere(_)));
        assert!(matches!(place(json!([])), Place::Nowhere(_)));
    }
}
