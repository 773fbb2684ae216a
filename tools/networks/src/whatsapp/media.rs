//! What kinds of files WhatsApp takes, and how large they may be. It takes a kind for what its type says, so a file without a
//! type that it knows goes as a document of plain text, with its own name.

/// How WhatsApp shows a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Image,
    Video,
    Audio,
    Document,
}

/// A type of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Media {
    pub(super) kind: Kind,
    pub(super) mime: &'static str,
}

const TYPES: [(&str, Media); 21] = {
    const fn of(kind: Kind, mime: &'static str) -> Media {
        Media { kind, mime }
    }
    [
        ("jpg", of(Kind::Image, "image/jpeg")),
        ("jpeg", of(Kind::Image, "image/jpeg")),
        ("png", of(Kind::Image, "image/png")),
        ("mp4", of(Kind::Video, "video/mp4")),
        ("3gp", of(Kind::Video, "video/3gpp")),
        ("aac", of(Kind::Audio, "audio/aac")),
        ("amr", of(Kind::Audio, "audio/amr")),
        ("mp3", of(Kind::Audio, "audio/mpeg")),
        ("m4a", of(Kind::Audio, "audio/mp4")),
        ("ogg", of(Kind::Audio, "audio/ogg")),
        ("opus", of(Kind::Audio, "audio/ogg")),
        ("pdf", of(Kind::Document, "application/pdf")),
        ("doc", of(Kind::Document, "application/msword")),
        ("docx", of(Kind::Document, "application/vnd.openxmlformats-officedocument.wordprocessingml.document")),
        ("xls", of(Kind::Document, "application/vnd.ms-excel")),
        ("xlsx", of(Kind::Document, "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet")),
        ("ppt", of(Kind::Document, "application/vnd.ms-powerpoint")),
        ("pptx", of(Kind::Document, "application/vnd.openxmlformats-officedocument.presentationml.presentation")),
        ("txt", OTHER),
        ("md", OTHER),
        ("csv", OTHER),
    ]
};
const OTHER: Media = Media { kind: Kind::Document, mime: "text/plain" };

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Video => "video",
            Self::Audio => "audio",
            Self::Document => "document",
        }
    }

    /// The most bytes that it may have.
    const fn bytes(self) -> u64 {
        match self {
            Self::Image => 5_000_000,
            Self::Video | Self::Audio => 16_000_000,
            Self::Document => 100_000_000,
        }
    }
}

impl Media {
    /// The type of a file, by its name. One that is too large to be shown is a document.
    pub(super) fn of(name: &str, size: u64) -> Self {
        let end = name.rsplit_once('.').map(|(_, end)| end.to_ascii_lowercase()).unwrap_or_default();
        let known = TYPES.iter().find(|(known, _)| *known == end).map_or(OTHER, |(_, media)| *media);
        if size <= known.kind.bytes() { known } else { Self { kind: Kind::Document, ..known } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_a_file_is() {
        for (name, size, kind, mime) in [
            ("a.JPG", 1, Kind::Image, "image/jpeg"),
            ("a.jpg", 6_000_000, Kind::Document, "image/jpeg"),
            ("a.tar.mp3", 1, Kind::Audio, "audio/mpeg"),
            ("a.zip", 1, Kind::Document, "text/plain"),
            ("pdf", 1, Kind::Document, "text/plain"),
            ("", 0, Kind::Document, "text/plain"),
        ] {
            assert_eq!(Media::of(name, size), Media { kind, mime }, "{name}");
        }
    }
}
