//! Values as a hostile person or server could send them, for tests of what reads them.

use proptest::prelude::*;
use serde_json::{Map, Value};

/// Numbers at which something can go wrong.
const NUMBERS: [i64; 7] = [i64::MIN, -1, 0, 1, 65_536, 1 << 53, i64::MAX];
/// Texts that are no ids, names or times.
const TEXTS: [&str; 10] =
    ["", " \n", "../x", "\u{fffc}\u{202e}", "🦀🦀", "\u{0}", "1e999", "<@U0BOT>", "9999999999999999999999", "hi"];

/// Values whose objects have some of these keys, and whose texts are some of these or of [`TEXTS`].
pub(crate) fn value(keys: &'static [&'static str], texts: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let all: Vec<&str> = texts.iter().chain(&TEXTS).copied().collect();
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop::sample::select(&NUMBERS[..]).prop_map(Value::from),
        prop::sample::select(all).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 8, move |inner| {
        let object = prop::collection::btree_map(prop::sample::select(keys), inner.clone(), 0..10);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            object.prop_map(|fields| fields
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect::<Map<_, _>>()
                .into()),
        ]
    })
}

/// An object with other values for some of its fields.
pub(crate) fn changed(mut base: Value, with: &Value) -> Value {
    if let (Some(fields), Some(with)) = (base.as_object_mut(), with.as_object()) {
        fields.extend(with.clone());
    }
    base
}
