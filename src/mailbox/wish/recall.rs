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
