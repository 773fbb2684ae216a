//! Forms with files: `multipart/form-data`, as browsers send it.

use super::form::{Form, decode};

/// Most parts of a form.
const PARTS_MAX: usize = 64;
/// Longest headers of a part.
const HEAD_MAX: usize = 4_096;

/// A file of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadedFile {
    /// Its name, as the browser gave it.
    pub name: String,
    /// Its media type, as the browser gave it.
    pub mime: Option<String>,
    pub bytes: Vec<u8>,
}

/// The boundary in a `Content-Type`; none if it is another type or has none.
pub(super) fn boundary(content_type: &str) -> Option<&str> {
    let (kind, rest) = content_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let found = rest.split(';').find_map(|part| part.trim().strip_prefix("boundary="))?;
    let boundary = found.trim_matches('"');
    let fits = (1..=70).contains(&boundary.len()) && boundary.bytes().all(|byte| byte.is_ascii_graphic());
    fits.then_some(boundary)
}

/// Reads the fields and files of a form. Fields of files without a name and bytes are left out: no file was chosen.
///
/// # Errors
/// What is wrong with the form.
pub(super) fn read(boundary: &str, body: &[u8]) -> Result<(Form, Vec<UploadedFile>), &'static str> {
    let unreadable = "This form cannot be read.";
    let between = format!("\r\n--{boundary}");
    let (mut form, mut files) = (Form::default(), Vec::new());
    let mut rest = body.strip_prefix(format!("--{boundary}").as_bytes()).ok_or(unreadable)?;
    for _ in 0..PARTS_MAX {
        if rest.starts_with(b"--") {
            return Ok((form, files));
        }
        let part = rest.strip_prefix(b"\r\n").ok_or(unreadable)?;
        let head_end = find(part.get(..HEAD_MAX.min(part.len())).unwrap_or_default(), b"\r\n\r\n").ok_or(unreadable)?;
        let (head, content) = part.split_at_checked(head_end).ok_or(unreadable)?;
        let content = content.get(4..).ok_or(unreadable)?;
        let end = find(content, between.as_bytes()).ok_or(unreadable)?;
        let (bytes, after) = content.split_at_checked(end).ok_or(unreadable)?;
        rest = after.get(between.len()..).ok_or(unreadable)?;
        let head = Head::read(head).ok_or(unreadable)?;
        match head.file {
            Some(name) if name.is_empty() && bytes.is_empty() => {}
            Some(name) => files.push(UploadedFile { name, mime: head.mime, bytes: bytes.to_vec() }),
            None => form.add(head.field, String::from_utf8_lossy(bytes).into_owned()),
        }
    }
    Err("This form has too many parts.")
}

/// The field `token` of a form of which only the beginning is known, if the form begins with it.
pub(super) fn token(boundary: &str, body: &[u8]) -> Option<String> {
    let part = body.strip_prefix(format!("--{boundary}\r\n").as_bytes())?;
    let (head, content) = part.split_at_checked(find(part.get(..HEAD_MAX.min(part.len()))?, b"\r\n\r\n")?)?;
    let content = content.get(4..)?;
    Head::read(head).filter(|head| head.file.is_none() && head.field == "token")?;
    let value = content.get(..find(content, format!("\r\n--{boundary}").as_bytes())?)?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// The headers of a part.
struct Head {
    field: String,
    file: Option<String>,
    mime: Option<String>,
}

impl Head {
    fn read(head: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(head).ok()?;
        let (mut disposition, mut mime) = (None, None);
        for line in text.split("\r\n") {
            let (name, value) = line.split_once(':')?;
            if name.eq_ignore_ascii_case("content-disposition") {
                disposition = Some(value.trim());
            } else if name.eq_ignore_ascii_case("content-type") {
                mime = Some(value.trim().to_owned());
            }
        }
        let parameters = disposition?.strip_prefix("form-data")?;
        Some(Self { field: parameter(parameters, "name")?, file: parameter(parameters, "filename"), mime })
    }
}

/// A quoted parameter. Browsers write a quote in it as `%22` and line breaks as `%0D%0A`.
fn parameter(parameters: &str, name: &str) -> Option<String> {
    let (_, rest) = parameters.split_once(&format!("; {name}=\""))?;
    let (value, _) = rest.split_once('"')?;
    // A plus sign stands for itself here.
    Some(decode(value.replace('+', "%2B").as_bytes()))
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let mut from = 0;
    loop {
        let at = bytes.get(from..)?.iter().position(|byte| *byte == first)?.saturating_add(from);
        if bytes.get(at..)?.starts_with(wanted) {
            return Some(at);
        }
        from = at.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn form(parts: &[(&str, &[u8])]) -> Vec<u8> {
        let mut body = Vec::new();
        for (head, bytes) in parts {
            body.extend_from_slice(format!("--xYx\r\nContent-Disposition: form-data; {head}\r\n\r\n").as_bytes());
            body.extend_from_slice(bytes);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"--xYx--\r\n");
        body
    }

    #[test]
    fn fields_and_files_are_read_as_they_were_sent() {
        let body = form(&[
            ("name=\"text\"", b"a\r\n--xY\r\nb"),
            ("name=\"file\"; filename=\"a%22 1+2.png\"\r\nContent-Type: image/png", b"\x00\xff\r\n\r\n"),
            ("name=\"file\"; filename=\"\"\r\nContent-Type: application/octet-stream", b""),
        ]);
        let (fields, files) = read("xYx", &body).unwrap();
        assert_eq!(fields.get("text"), "a\r\n--xY\r\nb");
        let mime = Some("image/png".to_owned());
        assert_eq!(files, [UploadedFile { name: "a\" 1+2.png".to_owned(), mime, bytes: b"\x00\xff\r\n\r\n".to_vec() }]);
        for (kind, expected) in [
            ("multipart/form-data; boundary=----Web7", Some("----Web7")),
            ("Multipart/Form-Data; charset=utf-8; boundary=\"a\"", Some("a")),
            ("multipart/form-data", None),
            ("multipart/mixed; boundary=a", None),
            ("multipart/form-data; boundary=", None),
            ("multipart/form-data; boundary=a b", None),
        ] {
            assert_eq!(boundary(kind), expected, "{kind}");
        }
    }

    #[test]
    fn the_token_is_known_before_the_files_are() {
        let file: (&str, &[u8]) = ("name=\"file\"; filename=\"a\"", b"def");
        let whole = form(&[("name=\"token\"", b"abc"), file]);
        assert_eq!(token("xYx", &whole[..whole.len() - 20]).as_deref(), Some("abc"));
        for other in [form(&[file, ("name=\"token\"", b"abc")]), form(&[("name=\"text\"", b"abc")]), Vec::new()] {
            assert_eq!(token("xYx", &other), None);
        }
        assert_eq!(token("xYx", &whole[..40]), None);
    }

    #[test]
    fn what_is_cut_off_or_too_much_is_refused() {
        let whole = form(&[("name=\"text\"", b"abc"), ("name=\"file\"; filename=\"a\"", b"def")]);
        for end in 0..whole.len() - 4 {
            assert!(read("xYx", &whole[..end]).is_err(), "{end}");
        }
        let many: Vec<(&str, &[u8])> = (0..=PARTS_MAX).map(|_| ("name=\"a\"", &b"b"[..])).collect();
        assert!(read("xYx", &form(&many)).is_err());
        let long = format!("name=\"{}\"", "x".repeat(HEAD_MAX));
        assert!(read("xYx", &form(&[(&long, b"a")])).is_err());
        assert!(read("xYx", &form(&[("filename=\"a\"", b"a")])).is_err(), "a part needs a name");
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(bytes: Vec<u8>, head: Vec<u8>) {
            let body = [&b"--xYx\r\n"[..], &head, b"\r\n\r\n", &bytes, b"\r\n--xYx--"].concat();
            for body in [&bytes, &body] {
                if let Ok((_, files)) = read("xYx", body) {
                    prop_assert!(files.iter().map(|file| file.bytes.len()).sum::<usize>() <= body.len());
                }
            }
        }

        #[test]
        fn bytes_of_a_file_arrive_unchanged(bytes: Vec<u8>) {
            prop_assume!(find(&bytes, b"\r\n--xYx").is_none());
            let (_, files) = read("xYx", &form(&[("name=\"file\"; filename=\"a\"", &bytes)])).unwrap();
            prop_assert_eq!(&files[0].bytes, &bytes);
        }
    }
}
