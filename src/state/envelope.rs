//! Storage format of a record: `format · version · checksum · body`.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | format of the envelope: 1 |
//! | 2 | version of the record, big-endian |
//! | 4 | CRC-32 over version and body, big-endian: LMDB's pages have no checksums |
//! | rest | the record in bincode 2 with its standard configuration: little-endian, variable-length integers, no names |
//!
//! Bodies carry no field names, so a changed record is a new version with the old one frozen in `legacy`.

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use bincode::enc::write::Writer;
use bincode::error::EncodeError;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest body. The largest records are messages, whose payloads are bounded far below this at the edges.
pub const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;

const FORMAT: u8 = 1;
const HEADER_BYTES: usize = 7;
const CHECKSUM_BYTES: usize = 4;
/// Room for most records.
const USUAL_BYTES: usize = 1024;
const CONFIG: Configuration<LittleEndian, Varint, Limit<MAX_BODY_BYTES>> =
    bincode::config::standard().with_limit::<MAX_BODY_BYTES>();

/// A record of a table.
pub trait Record: std::fmt::Debug + Clone + Serialize + DeserializeOwned + 'static {
    /// Name in golden files.
    const NAME: &'static str;

    /// Version that is written. Any change of the type, or of a type within it, needs a new version.
    const VERSION: u16;

    /// Reads the body of an older version through its frozen type.
    ///
    /// # Errors
    /// [`Unreadable`] if there never was such a version, or the body is damaged.
    fn upgrade(version: u16, body: &[u8]) -> Result<Self, Unreadable> {
        let _ = body;
        Err(Unreadable::Damaged(format!("version {version} never existed of {}", Self::NAME)))
    }

    /// Redacts people's texts and names, for dumps that are shared.
    fn redact(&mut self);
}

/// Why bytes are not a record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum Unreadable {
    /// A newer Hearth wrote them.
    TooNew { found: u16 },
    /// They are broken.
    Damaged(String),
}

/// Why a record cannot be encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unwritable {
    /// Over [`MAX_BODY_BYTES`].
    TooLarge(usize),
    /// Its type cannot be encoded.
    Encoding(String),
}

/// Encodes a record in its envelope.
///
/// # Errors
///
/// [`Unwritable`] if it is too large.
pub fn seal<R: Record>(record: &R) -> Result<Vec<u8>, Unwritable> {
    seal_version(R::VERSION, record)
}

/// Like [`seal`], for a frozen type.
pub(super) fn seal_version<T: Serialize>(version: u16, record: &T) -> Result<Vec<u8>, Unwritable> {
    let mut out = Vec::with_capacity(USUAL_BYTES);
    seal_into(&mut out, version, record)?;
    Ok(out)
}

/// Like [`seal_version`], into an empty buffer.
pub(super) fn seal_into<T: Serialize>(out: &mut Vec<u8>, version: u16, record: &T) -> Result<(), Unwritable> {
    let version = version.to_be_bytes();
    begin(out, version);
    bincode::serde::encode_into_writer(record, Appended(out), CONFIG)
        .map_err(|e| Unwritable::Encoding(e.to_string()))?;
    let body = out.len() - HEADER_BYTES;
    if body > MAX_BODY_BYTES {
        return Err(Unwritable::TooLarge(body));
    }
    end(out, version);
    Ok(())
}

/// Output of the encoder: appends, mostly byte by byte.
struct Appended<'a>(&'a mut Vec<u8>);

impl Writer for Appended<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        match bytes {
            [byte] => self.0.push(*byte),
            bytes => self.0.extend_from_slice(bytes),
        }
        Ok(())
    }
}

/// Wraps any body in an envelope.
pub(super) fn around(version: u16, body: &[u8]) -> Vec<u8> {
    let version = version.to_be_bytes();
    let mut out = Vec::with_capacity(HEADER_BYTES + body.len());
    begin(&mut out, version);
    out.extend_from_slice(body);
    end(&mut out, version);
    out
}

fn begin(out: &mut Vec<u8>, version: [u8; 2]) {
    out.push(FORMAT);
    out.extend_from_slice(&version);
    out.extend_from_slice(&[0; CHECKSUM_BYTES]);
}

fn end(out: &mut [u8], version: [u8; 2]) {
    let sum = checksum(version, out.get(HEADER_BYTES..).unwrap_or_default()).to_be_bytes();
    if let Some(place) = out.get_mut(HEADER_BYTES - CHECKSUM_BYTES..HEADER_BYTES) {
        place.copy_from_slice(&sum);
    }
}

/// Takes a record out of its envelope, upgrading it if it is old.
///
/// # Errors
/// [`Unreadable`] if it is newer than this program, or damaged.
pub fn open<R: Record>(bytes: &[u8]) -> Result<R, Unreadable> {
    let (version, body) = split(bytes)?;
    match version {
        found if found > R::VERSION => Err(Unreadable::TooNew { found }),
        found if found == R::VERSION => decode(body),
        0 => Err(Unreadable::Damaged("records have no version 0".to_owned())),
        older => R::upgrade(older, body),
    }
}

/// Version of the record in an intact envelope.
pub(super) fn version_of(bytes: &[u8]) -> Result<u16, Unreadable> {
    split(bytes).map(|(version, _)| version)
}

/// Decodes a whole body. Trailing bytes count as damage.
///
/// # Errors
/// [`Unreadable::Damaged`].
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, Unreadable> {
    let (value, used) =
        bincode::serde::borrow_decode_from_slice(body, CONFIG).map_err(|e| Unreadable::Damaged(e.to_string()))?;
    match body.len().saturating_sub(used) {
        0 => Ok(value),
        left => Err(Unreadable::Damaged(format!("{left} bytes after the record's end"))),
    }
}

fn split(bytes: &[u8]) -> Result<(u16, &[u8]), Unreadable> {
    let short = || Unreadable::Damaged(format!("{} bytes, an envelope has at least {HEADER_BYTES}", bytes.len()));
    let ([format], rest) = bytes.split_first_chunk::<1>().ok_or_else(short)?;
    let (version, rest) = rest.split_first_chunk::<2>().ok_or_else(short)?;
    let (expected, body) = rest.split_first_chunk::<4>().ok_or_else(short)?;
    if *format != FORMAT {
        return Err(Unreadable::Damaged(format!("envelope format {format}, only {FORMAT} is known")));
    }
    if checksum(*version, body) != u32::from_be_bytes(*expected) {
        return Err(Unreadable::Damaged("the checksum is wrong".to_owned()));
    }
    Ok((u16::from_be_bytes(*version), body))
}

/// Checksum of a line of text.
pub(super) fn checksum_of(text: &[u8]) -> u32 {
    crc32fast::hash(text)
}

fn checksum(version: [u8; 2], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&version);
    hasher.update(body);
    hasher.finalize()
}
