//! Older versions of rate limits.

use serde::{Deserialize, Serialize};

use crate::envelope::Unreadable;
use crate::model::Timestamp;
use crate::model::rate_limit::{LimitCause, RateLimit};
use crate::model::time::Awake;

#[derive(Serialize, Deserialize)]
pub(crate) struct RateLimitV1 {
    pub(crate) until: Awake,
    pub(crate) since: Timestamp,
    pub(crate) again: Timestamp,
    pub(crate) waits: u32,
    pub(crate) why: String,
}

impl From<RateLimitV1> for RateLimit {
    fn from(old: RateLimitV1) -> Self {
        let RateLimitV1 { until, since, again, waits, why } = old;
        Self { until, since, again, waits, why, cause: LimitCause::Limited }
    }
}

pub(crate) fn upgrade(version: u16, body: &[u8]) -> Result<RateLimit, Unreadable> {
    super::first::<RateLimitV1, RateLimit>(version, body)
}
