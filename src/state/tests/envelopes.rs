//! Envelopes: damage is noticed, old records are upgraded, newer ones are left alone.

use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

use crate::envelope::{Unreadable, open, seal, seal_version};
use crate::legacy::example::{Note, NoteV1, NoteV2};
use crate::model::content::{Content, RawJson};
use crate::model::id::ChatId;
use crate::model::message::{Body, MessageKind};
use crate::model::{ForeignId, Timestamp};
use crate::tests::store;
use crate::{Error, Number, Text};

#[test]
fn every_older_version_becomes_the_present_one() {
    let chat = ChatId::new(7);
    let one = seal_version(1, &NoteV1 { chat }).unwrap();
    let two = seal_version(2, &NoteV2 { chats: vec![chat, chat] }).unwrap();
    let three = seal(&Note { chats: vec![], loud: false }).unwrap();
    assert_eq!(open::<Note>(&one), Ok(Note { chats: vec![chat], loud: true }));
    assert_eq!(open::<Note>(&two), Ok(Note { chats: vec![chat, chat], loud: true }));
    assert_eq!(open::<Note>(&three), Ok(Note { chats: vec![], loud: false }));
    assert_eq!(open::<Note>(&seal_version(4, &0_u8).unwrap()), Err(Unreadable::TooNew { found: 4 }));
    assert!(matches!(open::<Note>(&seal_version(0, &0_u8).unwrap()), Err(Unreadable::Damaged(_))));
}

#[test]
fn a_record_without_history_has_no_older_versions() {
    let zero = seal_version(0, &Number(1)).unwrap();
    assert!(matches!(open::<Number>(&zero), Err(Unreadable::Damaged(_))));
}

/// LMDB's pages carry no checksums: a flipped bit would otherwise be a different record.
#[test]
fn every_flipped_bit_and_every_cut_is_noticed() {
    let bytes = seal(&Note { chats: vec![ChatId::new(300)], loud: true }).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(open::<Note>(&damaged), Err(Unreadable::Damaged(_))), "bit {bit}");
    }
    for length in 0..bytes.len() {
        assert!(matches!(open::<Note>(&bytes[..length]), Err(Unreadable::Damaged(_))), "cut to {length}");
    }
    let longer = seal_version(3, &(Note { chats: vec![], loud: true }, 1_u8)).unwrap();
    assert_eq!(open::<Note>(&longer), Err(Unreadable::Damaged("1 bytes after the record's end".to_owned())));
}

/// A body that promises a huge list must not make the reader allocate it.
#[test]
fn a_lie_about_a_length_is_only_an_error() {
    let lie = seal_version(3, &(u64::MAX, true)).unwrap();
    assert!(matches!(open::<Note>(&lie), Err(Unreadable::Damaged(_))));
}

#[test]
fn rows_of_a_newer_version_are_neither_read_nor_replaced() {
    let (_dir, store) = store();
    let key = Text::new("ms").unwrap();
    let newer = seal_version(2, &9_u64).unwrap();
    store.write(|db, txn| db.counters.put_bytes(txn, &key, &newer)).unwrap();
    for refused in [
        store.read(|db, txn| db.counters.get(txn, &key)).unwrap_err(),
        store.write(|db, txn| db.counters.put(txn, &key, &Number(1))).unwrap_err(),
        store.write(|db, txn| db.counters.append(txn, &key, &Number(1))).unwrap_err(),
    ] {
        assert!(matches!(refused, Error::TooNew { table: "counters", found: 2, known: 1, .. }), "{refused}");
    }
    store.write(|db, txn| db.counters.put_bytes(txn, &key, &[1, 2, 3])).unwrap();
    let damaged = store.read(|db, txn| db.counters.get(txn, &key)).unwrap_err().to_string();
    assert!(damaged.starts_with("the row ms of table counters is damaged: 3 bytes"), "{damaged}");
}

fn body(text: &str, payload: &str) -> Body {
    let content = Content {
        text: text.to_owned(),
        sender: Some(ForeignId::new("id", "42").unwrap()),
        sender_name: None,
        raw: RawJson::trusted(payload.to_owned()),
    };
    Body {
        content,
        kind: MessageKind::Chat,
        said: Timestamp::from_millis(4),
        source: None,
        platform_message: None,
        sender: None,
        attachments: vec![],
    }
}

fn escaped(c: char) -> String {
    let mut units = [0; 2];
    c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect()
}

proptest! {
    /// The text of a message is stored within its payload and is read back unchanged, whatever the payload.
    #[test]
    fn a_text_is_stored_once_and_read_as_it_was(text in any::<String>(), other in any::<String>(), ascii in any::<bool>()) {
        let mut payload = serde_json::json!({ "n": [1], "quoted": &other, "text": &text }).to_string();
        if ascii {
            payload = payload.chars().map(|c| if c.is_ascii() { c.to_string() } else { escaped(c) }).collect();
        }
        for body in [body(&text, &payload), body(&other, &payload), body(&text, "{}"), body("", &payload)] {
            prop_assert_eq!(open::<Body>(&seal(&body).unwrap()).unwrap(), body.clone());
            let shown = serde_json::to_string(&body).unwrap();
            prop_assert_eq!(serde_json::from_str::<Body>(&shown).unwrap(), body);
        }
        prop_assert!(seal(&body(&text, &payload)).unwrap().len() < payload.len() + 30);
    }
}
