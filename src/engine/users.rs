//! People: names are refreshed from traffic, rows are made by operators only.

use super::{Cx, Result};
use crate::model::address::UserId;
use crate::state::{ForeignKey, Write};

/// Keeps the display name of a known person current. A stranger gets no row for talking.
pub(super) fn refresh_name(cx: &Cx<'_>, txn: &mut Write<'_>, user: Option<&UserId>, name: Option<&str>) -> Result<()> {
    let (Some(user), Some(name)) = (user, name) else { return Ok(()) };
    let key = ForeignKey::user(user);
    let Some(mut row) = cx.db.users.get(txn, &key)? else { return Ok(()) };
    if row.id != *user || row.name.as_deref() == Some(name) {
        return Ok(());
    }
    row.name = Some(name.to_owned());
    cx.db.users.put(txn, &key, &row)
}
