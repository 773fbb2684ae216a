//! Parses a search of an agent.

use crate::model::request::RecallRequest;

use super::{Fields, filled};

/// Characters of a query, and of each filter.
const QUERY_CHARS: usize = 500;

/// The arguments of the agent's tool. Filters become part of the query.
pub(super) fn request(content: &Fields) -> Result<RecallRequest, String> {
    let mut query = filled(content, "query").unwrap_or_default().to_owned();
    for name in ["who", "after", "before"] {
        if let Some(value) = filled(content, name) {
            let value: String = value.chars().filter(|c| *c != '"').collect();
            query.push_str(&format!(" {name}:\"{}\"", value.trim()));
        }
    }
    let too_long = query.chars().nth(QUERY_CHARS).is_some();
    if query.trim().is_empty() || too_long {
        return Err(format!(
            "recall needs a query, or who, after or before, of at most {QUERY_CHARS} characters together"
        ));
    }
    let limit = match content.get("limit") {
        None | Some(serde_json::Value::Null) => None,
        Some(value) => Some(value.as_u64().and_then(|limit| u32::try_from(limit).ok()).ok_or("limit is a number")?),
    };
    Ok(RecallRequest { query, limit })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn filters_become_part_of_the_query() {
        let long = "x".repeat(QUERY_CHARS + 1);
        for (arguments, expected) in [
            (json!({"query": "boiler"}), Ok(("boiler", None))),
            (json!({"query": "boiler", "who": "ann", "limit": 3}), Ok(("boiler who:\"ann\"", Some(3)))),
            (json!({"who": "agent", "after": "7d"}), Ok((" who:\"agent\" after:\"7d\"", None))),
            // A filter cannot end its own quotes.
            (json!({"who": "ann\" agent:\"other"}), Ok((" who:\"ann agent:other\"", None))),
            (json!({}), Err("recall needs")),
            (json!({"query": "  "}), Err("recall needs")),
            (json!({"query": long}), Err("recall needs")),
            (json!({"query": "boiler", "limit": "3"}), Err("limit is a number")),
            (json!({"query": "boiler", "limit": -1}), Err("limit is a number")),
        ] {
            let read = request(arguments.as_object().unwrap());
            match (&read, expected) {
                (Ok(read), Ok((query, limit))) => assert_eq!((read.query.as_str(), read.limit), (query, limit)),
                (Err(why), Err(begin)) => assert!(why.starts_with(begin), "{why}"),
                _ => panic!("{arguments}: {read:?}"),
            }
        }
    }
}
