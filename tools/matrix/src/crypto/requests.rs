//! Requests of the crypto machine, as the server takes them, and answers, as the machine takes them.

use matrix_sdk_crypto::types::requests::{
    AnyOutgoingRequest, KeysQueryRequest, ToDeviceRequest, UploadSigningKeysRequest,
};
use ruma::api::IncomingResponse;
use ruma::api::client::keys::claim_keys::v3::Request as KeysClaim;
use ruma::api::client::keys::upload_keys::v3::Request as KeysUpload;

use hearth_bridge::program::settings::part;
use serde_json::{Value, json};

use crate::api::{Api, Trouble, as_response};

/// How long a server waits for other servers, in milliseconds.
const OTHERS: u64 = 10_000;

/// Reads an answer into the form of the machine.
pub(super) fn read<R: IncomingResponse>(answer: &Value) -> Result<R, Trouble> {
    R::try_from_http_response(as_response(answer))
        .map_err(|_| Trouble::Lost("its answer about keys cannot be read".to_owned()))
}

pub(super) fn query(api: &Api, request: &KeysQueryRequest) -> Result<Value, Trouble> {
    api.post("client/v3/keys/query", &json!({ "device_keys": request.device_keys, "timeout": OTHERS }))
}

pub(super) fn claim(api: &Api, request: &KeysClaim) -> Result<Value, Trouble> {
    api.post("client/v3/keys/claim", &json!({ "one_time_keys": request.one_time_keys, "timeout": OTHERS }))
}

pub(super) fn upload(api: &Api, request: &KeysUpload) -> Result<Value, Trouble> {
    let mut body = json!({ "one_time_keys": request.one_time_keys, "fallback_keys": request.fallback_keys });
    if let (Some(fields), Some(keys)) = (body.as_object_mut(), &request.device_keys) {
        fields.insert("device_keys".to_owned(), json!(keys));
    }
    api.post("client/v3/keys/upload", &body)
}

pub(super) fn to_device(api: &Api, request: &ToDeviceRequest) -> Result<Value, Trouble> {
    let (kind, id) = (part(&request.event_type.to_string()), part(request.txn_id.as_str()));
    api.put(&format!("client/v3/sendToDevice/{kind}/{id}"), &json!({ "messages": request.messages }))
}

pub(super) fn upload_signing(api: &Api, request: &UploadSigningKeysRequest) -> Result<Value, Trouble> {
    let keys = json!({
        "master_key": request.master_key,
        "self_signing_key": request.self_signing_key,
        "user_signing_key": request.user_signing_key,
    });
    api.post("client/v3/keys/device_signing/upload", &keys)
}

/// Sends a request of any kind; none of the answer if the machine sends what this bridge never asks it for.
pub(super) fn send(api: &Api, request: &AnyOutgoingRequest) -> Result<Option<Value>, Trouble> {
    match request {
        AnyOutgoingRequest::KeysUpload(request) => upload(api, request),
        AnyOutgoingRequest::KeysQuery(request) => query(api, request),
        AnyOutgoingRequest::KeysClaim(request) => claim(api, request),
        AnyOutgoingRequest::ToDeviceRequest(request) => to_device(api, request),
        AnyOutgoingRequest::SignatureUpload(request) => {
            api.post("client/v3/keys/signatures/upload", &json!(request.signed_keys))
        }
        // Verification in rooms: `verifying.rs` sends it, because the room may be encrypted.
        AnyOutgoingRequest::RoomMessage(_) => return Ok(None),
    }
    .map(Some)
}
