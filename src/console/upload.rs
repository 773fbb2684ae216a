//! Forms with files. A long one is read only after it is known whose it is and that it comes from a page of the session.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;

use super::form::Form;
use super::multipart::{self, UploadedFile};
use super::serve::{Asked, Console, FORM_MAX, OUT_OF_DATE, READING, failed, is_own, length, page};
use super::{Trouble, Visitor, pages, stream};
use crate::model::address::UserId;

/// Longest form with files: 16 MiB of files, and the text.
const UPLOAD_MAX: usize = 17 * 1_024 * 1_024;
/// Long forms that are received at a time.
const UPLOADS_MAX: usize = 2;

/// The people of whom a long form is being received, one each, so that one person keeps no others from sending files.
#[derive(Default)]
pub(super) struct Uploads(Mutex<BTreeSet<UserId>>);

/// One of the long forms.
struct Slot<'a> {
    uploads: &'a Uploads,
    user: &'a UserId,
}

impl Uploads {
    fn begin<'a>(&'a self, user: &'a UserId) -> Option<Slot<'a>> {
        let mut users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = users.len() < UPLOADS_MAX && users.insert(user.clone());
        is_free.then(|| Slot { uploads: self, user })
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.uploads.0.lock().unwrap_or_else(PoisonError::into_inner).remove(self.user);
    }
}

/// A form with files that arrives.
pub(super) struct Upload<'a> {
    pub(super) boundary: &'a str,
    pub(super) path: &'a str,
}

/// Why a form was not read.
enum Unread {
    TooLong,
    TooSlow,
    Broken(&'static str),
    Other(Trouble),
}

impl Console {
    pub(super) async fn upload(
        self: &Arc<Self>,
        visitor: Visitor,
        headers: &HeaderMap,
        body: Body,
        upload: Upload<'_>,
    ) -> Response {
        if length(headers).is_some_and(|length| length > UPLOAD_MAX) {
            return unread(&visitor, Unread::TooLong);
        }
        let read = tokio::time::timeout(READING, self.read_upload(&visitor, body, upload.boundary)).await;
        let (form, files, _slot) = match read {
            Ok(Ok(read)) => read,
            Ok(Err(why)) => return unread(&visitor, why),
            Err(_) => return unread(&visitor, Unread::TooSlow),
        };
        if !is_own(&visitor, form.get("token")) {
            return unread(&visitor, Unread::Other(Trouble::Forbidden(OUT_OF_DATE.to_owned())));
        }
        let request = Asked { is_post: true, path: upload.path.to_owned(), form, files };
        self.page(visitor.clone(), request).await
    }

    /// Reads a form. The token is the first field of the page's form, so it is known before the files are.
    async fn read_upload<'a>(
        &'a self,
        visitor: &'a Visitor,
        body: Body,
        boundary: &str,
    ) -> Result<(Form, Vec<UploadedFile>, Option<Slot<'a>>), Unread> {
        let (mut body, mut bytes, mut slot) = (body.into_data_stream(), Vec::new(), None);
        if !stream::read_on(&mut body, &mut bytes, FORM_MAX).await.map_err(|_| Unread::TooLong)? {
            if !is_own(visitor, &multipart::token(boundary, &bytes).unwrap_or_default()) {
                return Err(Unread::Other(Trouble::Forbidden(OUT_OF_DATE.to_owned())));
            }
            slot = self.uploads.begin(&visitor.user);
            if slot.is_none() {
                let why = "Other files are being received: send these again in a moment.".to_owned();
                return Err(Unread::Other(Trouble::Refused(why)));
            }
            if !stream::read_on(&mut body, &mut bytes, UPLOAD_MAX).await.map_err(|_| Unread::TooLong)? {
                return Err(Unread::TooLong);
            }
        }
        let (form, files) = multipart::read(boundary, &bytes).map_err(Unread::Broken)?;
        Ok((form, files, slot))
    }
}

fn unread(visitor: &Visitor, why: Unread) -> Response {
    let (status, words) = match why {
        Unread::TooLong => {
            (StatusCode::PAYLOAD_TOO_LARGE, "These files are too large: a message takes 16 MiB of files.")
        }
        Unread::TooSlow => (StatusCode::REQUEST_TIMEOUT, "This form took too long to arrive."),
        Unread::Broken(words) => (StatusCode::BAD_REQUEST, words),
        Unread::Other(trouble) => return failed(Some(visitor), &trouble),
    };
    page(status, pages::trouble(Some(visitor), words))
}
