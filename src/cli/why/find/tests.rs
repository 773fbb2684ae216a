//! What searches cost, and that they miss nothing.

use super::dropped::NEWEST;
use super::*;
use crate::model::address::ChannelName;
use crate::model::content::RawJson;
use crate::model::delivery::{Act, Author};
use crate::model::id::OutgoingId;
use crate::model::message::Reason;
use crate::state::{Options, Store, Write};

/// Rows of each table.
const MANY: u64 = 3 * NEWEST;

fn foreign(text: impl std::fmt::Display) -> ForeignId {
    ForeignId::new("id", text.to_string()).unwrap()
}

fn drop(number: u64, platform_message: ForeignId) -> Drop {
    Drop {
        at: Timestamp::from_millis(i64::try_from(1_000 * number).unwrap()),
        channel: ChannelName::new("net").unwrap(),
        platform_id: foreign("chat"),
        thread: None,
        chat: None,
        agent: None,
        platform_message: Some(platform_message),
        sender: None,
        sender_name: None,
        reason: Reason::NoAgentEngaged,
    }
}

fn sent(number: u64) -> Outbound {
    let at = Timestamp::from_millis(i64::try_from(1_000 * number).unwrap());
    Outbound {
        author: Author::Hearth,
        to: Some(Address { channel: ChannelName::new("net").unwrap(), platform_id: foreign("chat"), thread: None }),
        act: Act::Say,
        in_reply_to: None,
        text: String::new(),
        content: RawJson::trusted("{}".to_owned()),
        files: Vec::new(),
        state: OutState::Delivered { at, platform_message: Some(foreign(format_args!("sent-{number}"))) },
        attempts: 1,
        first_attempt: None,
        uncertain: 0,
        stored: at,
    }
}

/// Drops with rising times, of which every hundredth is of the same event as the one before, and delivered messages.
fn fill(db: &Tables, txn: &mut Write<'_>) -> Result<(), state::Error> {
    for number in 1..=MANY {
        let of = if number % 100 == 0 { number - 1 } else { number };
        let row = Drop { at: drop(of, foreign("-")).at, ..drop(number, foreign(format_args!("drop-{of}"))) };
        db.dropped_events.append(txn, &DropId::new(number), &row)?;
        db.outbound.put(txn, &OutboundId::new(number), &sent(number))?;
    }
    Ok(())
}

#[test]
fn the_cost_of_a_search_does_not_follow_the_number_of_rows() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options { reserve_bytes: 0, ..Options::new(1) }).unwrap();
    store.write(fill).unwrap();
    let look = |query: Query| {
        let mut rows = Rows::new();
        let found = store.read(|db, txn| find(db, txn, &query, &Scope::All, &mut rows)).unwrap();
        (found, rows.read)
    };
    // All drops of an event are found around its time.
    let (found, read) = look(Query::Id(HearthId::Dropped(DropId::new(MANY / 2))));
    let event = &found.hits[0];
    assert_eq!(event.drops, [DropId::new(MANY / 2 - 1), DropId::new(MANY / 2)]);
    assert!(read < 3_000, "{read} rows for a dropped event");
    let (found, read) = look(Query::Id(HearthId::Answer(OutgoingId { id: OutboundId::new(5), epoch: None })));
    assert_eq!((found.hits.len(), read < 3_000), (1, true), "{read} rows for an answer");
    let (found, read) = look(Query::Latest);
    assert_eq!((found.hits.len(), read < 3_000), (1, true), "{read} rows for the latest");
    for id in [format!("drop-{}", MANY - 1), format!("sent-{}", MANY - 3)] {
        let (found, read) = look(Query::Platform(foreign(&id)));
        assert_eq!((found.hits.len(), found.newest_only), (1, true), "{id}");
        assert!(read < 2 * NEWEST + 3_000, "{read} rows for {id}");
    }
    // What is older is found as well.
    for id in ["drop-1", "sent-1", "drop-99"] {
        let (found, _) = look(Query::Platform(foreign(id)));
        assert_eq!((found.hits.len(), found.newest_only), (1, false), "{id}");
        assert_eq!(found.hits[0].drops.len(), if id == "drop-99" { 2 } else { usize::from(id == "drop-1") }, "{id}");
    }
    let (found, read) = look(Query::Platform(foreign("sent-0")));
    assert!(
        found.hits.is_empty() && !found.newest_only && read >= 2 * MANY,
        "{read} rows for an id that does not exist"
    );
}
