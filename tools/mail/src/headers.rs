//! The header fields of a mail as they are written, for everything that decides who may speak.

/// Longest header that is read.
pub(crate) const HEADER_BYTES_MAX: usize = 256 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    /// Its name in lower case.
    pub(crate) name: String,
    /// Its value without folds.
    pub(crate) value: String,
}

/// The fields of a mail, from the top.
#[derive(Debug, Default)]
pub(crate) struct Headers {
    fields: Vec<Field>,
    /// The header has bytes that programs read differently, so nothing in it proves who wrote it.
    pub(crate) is_ambiguous: bool,
}

impl Headers {
    /// Reads the header of a mail.
    pub(crate) fn read(raw: &[u8]) -> Self {
        let raw = raw.get(..HEADER_BYTES_MAX.min(raw.len())).unwrap_or_default();
        let mut headers = Self::default();
        for line in raw.split(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                break;
            }
            headers.is_ambiguous |= line.contains(&b'\r') || line.contains(&0);
            let text = String::from_utf8_lossy(line);
            if line.starts_with(b" ") || line.starts_with(b"\t") {
                match headers.fields.last_mut() {
                    Some(last) => {
                        last.value.push(' ');
                        last.value.push_str(text.trim());
                    }
                    None => headers.is_ambiguous = true,
                }
                continue;
            }
            match text.split_once(':') {
                Some((name, value)) => headers
                    .fields
                    .push(Field { name: name.trim().to_ascii_lowercase(), value: value.trim().to_owned() }),
                None => headers.is_ambiguous = true,
            }
        }
        headers
    }

    /// The values of a field, from the top.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.fields.iter().filter(move |field| field.name == name).map(|field| field.value.as_str())
    }

    /// The topmost value of a field.
    pub(crate) fn first<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.all(name).next()
    }

    /// The only value of a field; none if there are several.
    pub(crate) fn only<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        let mut all = self.all(name);
        all.next().filter(|_| all.next().is_none())
    }
}

/// The ids in a field, as in `<a@b> <c@d>`. Those that could not be written into a header again are left out.
pub(crate) fn ids(value: &str) -> Vec<String> {
    let found = value.split('<').skip(1).filter_map(|rest| rest.split_once('>')).map(|(id, _)| id);
    found.filter(|id| is_id(id)).map(str::to_owned).collect()
}

/// Whether a text can stand between `<` and `>`.
pub(crate) fn is_id(id: &str) -> bool {
    const LONGEST: usize = 250;
    !id.is_empty() && id.len() <= LONGEST && id.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>".contains(&byte))
}

/// Whether a text is an address to which mail can be sent, in its plain form.
#[must_use]
pub fn is_address(text: &str) -> bool {
    let Some((local, domain)) = text.split_once('@') else { return false };
    let atom = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte);
    let dots = |part: &str, is_char: &dyn Fn(u8) -> bool| {
        part.split('.').all(|label| !label.is_empty() && label.bytes().all(is_char))
    };
    let label = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    local.len() <= 64 && domain.len() <= 250 && dots(local, &atom) && dots(domain, &label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_are_written() {
        let headers = Headers::read(b"A: 1\r\nb : 2\r\n\tfold\r\na: 3\r\n\r\nC: body\r\n");
        assert_eq!(headers.all("a").collect::<Vec<_>>(), ["1", "3"]);
        assert_eq!((headers.first("b"), headers.only("a"), headers.first("c")), (Some("2 fold"), None, None));
        assert!(!headers.is_ambiguous);
        for text in ["A: 1\rFrom: x\r\n\r\n", "A: \0\r\n\r\n", " x\r\n\r\n", "no field\r\n\r\n"] {
            assert!(Headers::read(text.as_bytes()).is_ambiguous, "{text:?}");
        }
    }

    #[test]
    fn addresses_are_plain() {
        for text in ["ann@example.org", "a.b+c@x-y.test", "a@localhost"] {
            assert!(is_address(text), "{text}");
        }
        for text in [
            "",
            "ann",
            "@x",
            "a@",
            "a b@x",
            "a@x y",
            "a@b@c",
            "a..b@x",
            ".a@x",
            "a@x.",
            "<a@x>",
            "a@x>\r\nRCPT TO:<b@x",
            "\"a b\"@x",
            "ä@x",
            "a@ä",
            "a@[127.0.0.1]",
            "a,b@x",
            "a@x,b@y",
            "../a@x\0",
        ] {
            assert!(!is_address(text), "{text:?}");
        }
    }

    #[test]
    fn ids_are_those_that_can_be_written_again() {
        assert_eq!(ids("<a@b> x <c@d>\t<bad id@x> <é@x> <>  <open"), ["a@b", "c@d"]);
        assert_eq!(ids(&format!("<{}@x>", "a".repeat(300))), Vec::<String>::new());
    }
}
