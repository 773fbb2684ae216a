//! People of WhatsApp, as Hearth names them: by their number, or by the id that WhatsApp gives the account for one who shows
//! it no number. Names can be chosen freely and are none. The chat with a person has the same id.

use serde_json::{Map, Value, json};

/// Longest id behind the country in an id without a number.
const ID_MAX: usize = 128;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Person {
    /// With the country, and without a plus sign.
    Number(String),
    /// WhatsApp's id: a country, a dot, and letters and digits.
    Scoped(String),
}

impl Person {
    pub(super) fn read(text: &str) -> Option<Self> {
        if (5..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Some(Self::Number(text.to_owned()));
        }
        let (country, id) = text.split_once('.')?;
        let is_country = country.len() == 2 && country.bytes().all(|byte| byte.is_ascii_uppercase());
        let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.';
        let is_id = (1..=ID_MAX).contains(&id.len()) && id.bytes().all(is_sign);
        (is_country && is_id).then(|| Self::Scoped(text.to_owned()))
    }

    pub(super) fn id(&self) -> &str {
        match self {
            Self::Number(id) | Self::Scoped(id) => id,
        }
    }

    /// A message to them, without its content.
    pub(super) fn message(&self) -> Map<String, Value> {
        let (field, id) = match self {
            Self::Number(id) => ("to", id),
            Self::Scoped(id) => ("recipient", id),
        };
        let fields = [("messaging_product", "whatsapp"), ("recipient_type", "individual"), (field, id)];
        fields.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect()
    }
}

/// Whether a text has the form of the id of a message or a file.
pub(super) fn is_id(text: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"._-=+/".contains(&byte);
    (1..=300).contains(&text.len()) && text.bytes().all(is_sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_have_numbers_or_ids() {
        for text in ["15550000001", "US.13491208655302741918", "US.ENT.11815799212886844830"] {
            assert_eq!(Person::read(text).map(|person| person.id().to_owned()).as_deref(), Some(text));
        }
        for text in
            ["", "+15550000001", "1555", "Ann", "US.", "us.1", "USA.1", "US.a b", "US.1/../2", "123456789012345678901"]
        {
            assert_eq!(Person::read(text), None, "{text}");
        }
        let message = |text| Value::Object(Person::read(text).unwrap().message());
        assert_eq!(message("15550000001")["to"], "15550000001");
        assert_eq!((&message("US.1")["recipient"], &message("US.1")["to"]), (&json!("US.1"), &Value::Null));
    }
}
