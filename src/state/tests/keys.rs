//! Properties of keys: bytes sort like values, values round-trip, and no key exceeds LMDB's limit.

use proptest::prelude::*;

use crate::model::card::PromptSubject;
use crate::model::entity::Role;
use crate::model::group::StatePart;
use crate::model::id::{AgentId, ApprovalId, ChatId, OutboundId, SessionId};
use crate::model::session::Route;
use crate::model::workspace::{Discriminator, Fingerprint, WorkspaceKey};
use crate::model::{Awake, ChannelName, ForeignId, Timestamp, Turn, UserId};
use crate::tests::store;
use crate::{
    AgentThreadKey, ChatKey, Digest, Error, ForeignKey, KeyPart, PersonKey, PromptKey, QueueKey, RouteKey, Text,
    ThreadKey, Timed,
};

/// Order, round trip, length, and that the end of a value is found if other bytes follow.
fn law<K: KeyPart>(a: &K, b: &K) -> Result<(), TestCaseError> {
    let (bytes_a, bytes_b) = (a.to_bytes(), b.to_bytes());
    prop_assert_eq!(bytes_a.cmp(&bytes_b), a.cmp(b), "{:?} and {:?}", a, b);
    prop_assert_eq!(&K::from_bytes(&bytes_a).unwrap(), a);
    prop_assert!((1..=K::MAX_BYTES).contains(&bytes_a.len()));
    let followed = [bytes_a.as_slice(), &bytes_b].concat();
    let mut rest = followed.as_slice();
    prop_assert_eq!(&K::decode(&mut rest).unwrap(), a);
    prop_assert_eq!(rest, &bytes_b);
    let mut value = Vec::new();
    a.encode_value(&mut value);
    prop_assert_eq!(&K::decode_value(&mut value.as_slice()).unwrap(), a);
    Ok(())
}

/// Lengths around the limits, differences near the end, equal beginnings.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]{0,3}",
        "\\PC{0,20}",
        (90_usize..110, "[a-b]{0,2}").prop_map(|(n, end)| "x".repeat(n) + &end),
        (1_000_usize..1_020, "[a-b]{0,2}").prop_map(|(n, end)| "ä".repeat(n / 2) + &end),
    ]
}

fn foreign() -> impl Strategy<Value = ForeignId> {
    any_text().prop_map(|text| ForeignId::new("id", text).unwrap())
}

fn foreign_key() -> impl Strategy<Value = ForeignKey> {
    foreign().prop_map(|id| ForeignKey::of(&id))
}

fn text() -> impl Strategy<Value = Text> {
    prop_oneof!["[a-c]{0,3}", "[^\\x00]{0,60}"].prop_map(|text| Text::new(text).unwrap())
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..4, any::<u64>(), Just(u64::MAX), Just(1 << 63), Just(255), Just(256)]
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    prop_oneof![-3_i64..3, any::<i64>(), Just(i64::MIN), Just(i64::MAX)].prop_map(Timestamp::from_millis)
}

fn awake() -> impl Strategy<Value = Awake> {
    (number(), number()).prop_map(|(run, ms)| Awake::new(run, ms))
}

fn role() -> impl Strategy<Value = Role> {
    prop_oneof![Just(Role::Owner), Just(Role::GlobalAdmin), number().prop_map(|n| Role::AdminOf(AgentId::new(n)))]
}

fn route() -> impl Strategy<Value = RouteKey> {
    let chat = || number().prop_map(ChatId::new);
    prop_oneof![
        chat().prop_map(Route::Shared),
        (chat(), proptest::option::of(foreign())).prop_map(|(chat, thread)| Route::PerThread(chat, thread)),
        Just(Route::AgentShared),
    ]
    .prop_map(|route| RouteKey::from(&route))
}

fn workspace() -> impl Strategy<Value = WorkspaceKey> {
    (number(), any::<u16>())
        .prop_map(|(f, d)| WorkspaceKey { fingerprint: Fingerprint::from_number(f), discriminator: Discriminator(d) })
}

proptest! {
    #[test]
    fn numbers(a in number(), b in number(), c in any::<(u16, u32)>(), d in any::<(u16, u32)>()) {
        law(&a, &b)?;
        law(&c.0, &d.0)?;
        law(&c.1, &d.1)?;
        law(&Digest::of(&a.to_be_bytes()), &Digest::of(&b.to_be_bytes()))?;
        law(&SessionId::new(a), &SessionId::new(b))?;
        law(&OutboundId::new(a), &OutboundId::new(b))?;
        law(&(), &())?;
        for part in [StatePart::Top, StatePart::Sessions, StatePart::Muted] {
            law(&part, &StatePart::Sessions)?;
        }
    }

    #[test]
    fn times(a in (timestamp(), awake()), b in (timestamp(), awake())) {
        law(&a.0, &b.0)?;
        law(&a.1, &b.1)?;
        law(&a, &b)?;
    }

    #[test]
    fn texts(a in text(), b in text(), n in number(), m in number()) {
        law(&a, &b)?;
        law(&(a, SessionId::new(n)), &(b, SessionId::new(m)))?;
    }

    #[test]
    fn foreign_ids(
        a in (foreign_key(), foreign_key(), proptest::option::of(foreign_key())),
        b in (foreign_key(), foreign_key(), proptest::option::of(foreign_key())),
        n in number(),
        m in number(),
    ) {
        law(&a.0, &b.0)?;
        law(&a.2, &b.2)?;
        law(&a, &b)?;
        let with_id = |k: (ForeignKey, ForeignKey, Option<ForeignKey>), n| (k.0, k.1, k.2, OutboundId::new(n));
        law(&with_id(a, n), &with_id(b, m))?;
    }

    #[test]
    fn roles_and_routes(a in (role(), route(), workspace()), b in (role(), route(), workspace())) {
        law(&a.0, &b.0)?;
        law(&a.1, &b.1)?;
        law(&a.2, &b.2)?;
        law(&a, &b)?;
    }

    #[test]
    fn foreign_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        // All bytes that decode to a key are the only encoding of that key.
        macro_rules! canonical { ($($key:ty),*) => { $(
            if let Ok(key) = <$key>::from_bytes(&bytes) {
                prop_assert_eq!(key.to_bytes(), bytes.clone());
            }
        )* } }
        canonical!((), u16, Awake, Text, ForeignKey, Option<ForeignKey>, RouteKey, Role, (Timestamp, ForeignKey), (Role, Text));
    }
}

/// This sum is checked for the list of tables at compile time.
#[test]
fn the_longest_key_has_as_many_bytes_as_its_type_says() {
    let longest = (AgentId::new(u64::MAX), Text::new("x".repeat(Text::MAX_TEXT)).unwrap());
    assert_eq!(longest.to_bytes().len(), <(AgentId, Text)>::MAX_BYTES);
    let kept = ForeignKey::of(&ForeignId::new("id", "x".repeat(ForeignKey::MAX_TEXT)).unwrap());
    assert_eq!(kept.to_bytes().len(), ForeignKey::MAX_BYTES);
}

#[test]
fn long_ids_are_told_apart_by_their_digest() {
    let key = |text: &str| ForeignKey::of(&ForeignId::new("id", text).unwrap());
    let (a, b) = ("x".repeat(1_024), "x".repeat(1_023) + "y");
    assert_ne!(key(&a), key(&b));
    assert_eq!(key(&a), key(&a.clone()));
    assert!(key(&a).shown().starts_with("sha256:"), "{}", key(&a).shown());
    assert_eq!(key("123").shown(), "123");
    let user = UserId::new(ChannelName::new("telegram").unwrap(), ForeignId::new("id", "a:b").unwrap());
    assert_eq!(PersonKey::of(&user).shown(), "telegram/a:b");
    assert!(Text::new("a\0b").is_err());
    assert!(Text::new("x".repeat(Text::MAX_TEXT + 1)).is_err());
}

/// Bytes, order, text and prefixes of a key with named parts are those of the tuple.
fn same<K: KeyPart, T: KeyPart>(key: &K, tuple: &T) {
    assert_eq!(key.to_bytes(), tuple.to_bytes());
    assert_eq!(&K::from_bytes(&tuple.to_bytes()).unwrap(), key);
    assert_eq!((key.shown(), K::MAX_BYTES), (tuple.shown(), T::MAX_BYTES));
}

#[test]
fn named_parts_are_encoded_like_a_tuple() {
    let text = |text: &str| ForeignKey::of(&ForeignId::new("id", text).unwrap());
    let (channel, chat) = (text("telegram"), text("-100"));
    for thread in [None, Some(text("7"))] {
        let at = ThreadKey { chat: ChatKey { channel: channel.clone(), chat: chat.clone() }, thread: thread.clone() };
        let agent = AgentId::new(3);
        same(&at, &(channel.clone(), chat.clone(), thread.clone()));
        same(&at.chat, &(channel.clone(), chat.clone()));
        let follow = AgentThreadKey { agent, thread: at.clone() };
        let parts = (agent, channel.clone(), chat.clone(), thread.clone());
        same(&follow, &parts);
        assert!(follow.to_bytes().starts_with(&(agent, at.chat.clone()).to_bytes()));
        let time = Timestamp::from_millis(-5);
        same(&Timed { at: time, id: follow }, &(time, parts));
        let queued = QueueKey { to: at.clone(), turn: Turn::Later, outbound: OutboundId::new(9) };
        same(&queued, &(channel.clone(), chat.clone(), thread, (Turn::Later, OutboundId::new(9))));
        assert!(queued.to_bytes().starts_with(&at.to_bytes()));
    }
    assert!(QueueKey::from_bytes(b"telegram").is_err());
}

#[test]
fn a_prefix_with_named_parts_selects_the_rows_that_begin_with_it() {
    let (_dir, store) = store();
    let key = |chat: &str, id| {
        let chat = ForeignKey::of(&ForeignId::new("id", chat).unwrap());
        PromptKey { chat: ChatKey { channel: chat.clone(), chat }, outbound: OutboundId::new(id) }
    };
    let keys = [key("a", 1), key("a", 300), key("aa", 2), key("b", 1)];
    let subject = PromptSubject::Approval(ApprovalId::new(1));
    let selected = store.write(|db, txn| {
        keys.iter().try_for_each(|key| db.open_prompts.put(txn, key, &subject))?;
        let all: Vec<_> = db.open_prompts.iter(txn)?.map(|row| row.map(|(key, _)| key)).collect::<Result<_, _>>()?;
        assert_eq!(all, keys);
        let rows = db.open_prompts.collect_prefix(txn, &key("a", 0).chat, usize::MAX)?;
        Ok::<_, Error>(rows.into_iter().map(|(key, _)| key).collect::<Vec<_>>())
    });
    assert_eq!(selected.unwrap(), keys[..2]);
}
