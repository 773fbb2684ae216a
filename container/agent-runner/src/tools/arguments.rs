//! Typed access to the arguments of a call. Pure. A value of the wrong type counts as absent.

use serde_json::{Map, Value};

use crate::strip::strip_payload;

/// Size limit of one call's arguments in bytes. The resulting file may be twice as large.
const BYTES: usize = 512 * 1024;

/// The arguments of one call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Arguments(Map<String, Value>);

impl Arguments {
    /// Fails if they are too large. Anything but an object counts as empty.
    pub(super) fn read(arguments: Value) -> Result<Self, String> {
        let Value::Object(fields) = arguments else { return Ok(Self(Map::new())) };
        let bytes = serde_json::to_vec(&fields).map_or(usize::MAX, |bytes| bytes.len());
        if bytes > BYTES {
            return Err(format!("the arguments have {bytes} bytes, at most {BYTES} are taken; send a file instead"));
        }
        Ok(Self(fields))
    }

    /// Removes internal text, for tools that show something to people.
    pub(super) fn for_people(&self) -> Self {
        let mut fields = self.0.clone();
        fields.values_mut().for_each(strip_payload);
        Self(fields)
    }

    /// A value; `null` counts as absent.
    pub(super) fn given(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn string(&self, key: &str) -> Option<&str> {
        self.given(key).and_then(Value::as_str)
    }

    /// A non-blank text.
    pub(super) fn filled(&self, key: &str) -> Option<&str> {
        self.string(key).filter(|text| !text.trim().is_empty())
    }

    /// The number of a message, in any of the agents' notations: `13`, `"13"`, `"#13"`.
    pub(super) fn number(&self, key: &str) -> Option<u64> {
        let value = self.given(key)?;
        let number = value.as_u64().or_else(|| value.as_str()?.trim().trim_start_matches('#').parse().ok());
        number.filter(|number| *number > 0)
    }

    /// The present fields among `keys`, unchanged.
    pub(super) fn pick(&self, keys: &[&str]) -> Map<String, Value> {
        let given = keys.iter().filter_map(|key| Some(((*key).to_owned(), self.given(key)?.clone())));
        given.collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_the_wrong_type_are_absent() {
        let read = |value: Value| Arguments::read(value).unwrap();
        let some = read(json!({"a": " ", "b": 5, "c": null, "d": "x", "n": "#13", "m": 12.5, "z": 0}));
        assert_eq!(
            (some.filled("a"), some.filled("b"), some.filled("c"), some.filled("d")),
            (None, None, None, Some("x"))
        );
        assert_eq!(
            (some.number("n"), some.number("b"), some.number("m"), some.number("z")),
            (Some(13), Some(5), None, None)
        );
        assert_eq!(some.pick(&["b", "c", "none"]), *json!({"b": 5}).as_object().unwrap());
        for other in [json!(null), json!([1]), json!("text")] {
            assert_eq!(read(other), read(json!({})));
        }
        assert!(Arguments::read(json!({"text": "x".repeat(BYTES)})).unwrap_err().contains("send a file"));
    }
}
