//! How far the bridge has read: the session of the gateway, and the last message of each channel. The daemon keeps 256
//! texts of a bridge, so each has many channels in it.

use std::collections::BTreeMap;
use std::time::Duration;

use hearth_bridge::Cursors;

use super::snowflake::Snowflake;

/// Texts for channels.
const SHARES: u64 = 200;
/// Bytes of a text.
const SHARE_BYTES: usize = 1_000;
/// Messages of the same time may come in another order than that of their ids.
const OVERLAP: Duration = Duration::from_secs(60);

/// A session of the gateway that can go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) id: String,
    /// Where it goes on.
    pub(crate) url: String,
    /// Number of the last event.
    pub(crate) seq: u64,
    /// What it tells of; another session is needed for something else.
    pub(crate) intents: u64,
}

impl Session {
    fn read(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (id, url) = (words.next()?.to_owned(), words.next()?.to_owned());
        Some(Self { id, url, seq: words.next()?.parse().ok()?, intents: words.next()?.parse().ok()? })
    }

    /// Whether it can be stored.
    pub(crate) fn is_usable(&self) -> bool {
        let is = |text: &str| !text.is_empty() && text.len() <= 400 && text.bytes().all(|byte| byte.is_ascii_graphic());
        is(&self.id) && is(&self.url)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Channel {
    /// The newest message that was handed over, or that is older than all that will be.
    last: Snowflake,
    is_direct: bool,
}

/// How far the bridge has read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) session: Option<Session>,
    /// The newest message of all channels. What is older and in no channel that is known is not for an agent.
    pub(crate) at: Snowflake,
    channels: BTreeMap<Snowflake, Channel>,
}

impl Places {
    pub(crate) fn of(cursors: &Cursors) -> Self {
        let session = cursors.get("session").and_then(|text| Session::read(text)).filter(Session::is_usable);
        let at = cursors.get("at").and_then(|text| Snowflake::read(text)).unwrap_or_default();
        let shares = cursors.iter().filter(|(name, _)| name.starts_with("c:"));
        let channels = shares.flat_map(|(_, share)| share.split(' ')).filter_map(read).collect();
        Self { session, at, channels }
    }

    /// A message was handed over, or a direct chat opened.
    pub(crate) fn pass(&mut self, channel: Snowflake, message: Snowflake, is_direct: bool) {
        let known = self.channels.entry(channel).or_insert(Channel { last: message, is_direct });
        known.last = known.last.max(message);
        known.is_direct |= is_direct;
    }

    /// After which message of a channel is read on. The daemon recognises the messages that it has.
    pub(crate) fn after(&self, channel: Snowflake) -> Snowflake {
        self.channels.get(&channel).map_or(self.at, |known| known.last.before(OVERLAP))
    }

    /// Direct chats, those with the newest messages first.
    pub(crate) fn directs(&self) -> Vec<Snowflake> {
        let mut directs: Vec<_> = self.channels.iter().filter(|(_, channel)| channel.is_direct).collect();
        directs.sort_by_key(|(_, channel)| std::cmp::Reverse(channel.last));
        directs.into_iter().map(|(id, _)| *id).collect()
    }

    /// The newest message of all, and the session, if it is to go on.
    pub(crate) fn general(&self, goes_on: bool) -> Cursors {
        let session = self.session.as_ref().filter(|_| goes_on);
        let session =
            session.map_or_else(String::new, |Session { id, url, seq, intents }| format!("{id} {url} {seq} {intents}"));
        Cursors::from([("at".to_owned(), self.at.to_string()), ("session".to_owned(), session)])
    }

    /// The text that a channel is in.
    pub(crate) fn share(&mut self, channel: Snowflake) -> Cursors {
        let number = channel.0 % SHARES;
        let mut mine: Vec<_> =
            self.channels.iter().filter(|(id, _)| id.0 % SHARES == number).map(|(id, at)| (*id, *at)).collect();
        mine.sort_by_key(|(_, channel)| std::cmp::Reverse(channel.last));
        let mut share = String::new();
        for (id, Channel { last, is_direct }) in mine {
            let entry = format!("{}{id}-{last}", if is_direct { "d" } else { "" });
            if share.len() + entry.len() + 1 > SHARE_BYTES {
                // There are thousands of channels: those that were silent for longest are read on from `at`.
                self.channels.remove(&id);
                continue;
            }
            share.push_str(if share.is_empty() { "" } else { " " });
            share.push_str(&entry);
        }
        Cursors::from([(format!("c:{number}"), share)])
    }
}

fn read(entry: &str) -> Option<(Snowflake, Channel)> {
    let is_direct = entry.starts_with('d');
    let (id, last) = entry.trim_start_matches('d').split_once('-')?;
    Some((Snowflake::read(id)?, Channel { last: Snowflake::read(last)?, is_direct }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back_as_they_were_stored() {
        let session = Session { id: "abc".to_owned(), url: "wss://x.discord.gg".to_owned(), seq: 7, intents: 1 };
        let mut places = Places { session: Some(session), at: Snowflake(900), channels: BTreeMap::new() };
        places.pass(Snowflake(1), Snowflake(10), false);
        places.pass(Snowflake(201), Snowflake(30), true);
        places.pass(Snowflake(201), Snowflake(20), false);
        places.pass(Snowflake(2), Snowflake(40), true);
        let mut cursors = places.general(true);
        cursors.extend(places.share(Snowflake(1)));
        cursors.extend(places.share(Snowflake(2)));
        assert_eq!(Places::of(&cursors), places);
        assert_eq!(places.directs(), [Snowflake(2), Snowflake(201)]);
        assert_eq!(places.after(Snowflake(77)), Snowflake(900));
        assert_eq!(Places::of(&Cursors::from([("c:1".to_owned(), "x d1 1- -1 d-".to_owned())])), Places::default());
    }

    #[test]
    fn the_texts_are_bounded_and_keep_the_newest() {
        let mut places = Places::default();
        for number in 0..100_u64 {
            places.pass(Snowflake(u64::MAX / 200 * 200 - number * SHARES), Snowflake(u64::MAX - number), true);
        }
        let share = places.share(Snowflake(0));
        let text = share.get("c:0").unwrap();
        assert!(text.len() <= SHARE_BYTES && text.contains(&u64::MAX.to_string()), "{text}");
        assert_eq!(Places::of(&share), places);
    }
}
