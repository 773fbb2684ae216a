//! What styles do to the visibility of text.

use super::tokens::Tag;

/// Rules of all style sheets that are read.
const RULES_MAX: usize = 2_000;
/// Channels of colours that differ less are not told apart.
const CONTRAST_MIN: u8 = 48;
/// Pixels below which a text cannot be read.
const SIZE_MIN: f32 = 3.0;
/// Pixels by which a text is moved out of sight.
const FAR: f32 = -100.0;

pub(super) type Colour = [u8; 3];

/// What a style does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Effect {
    pub(super) hides: bool,
    pub(super) colour: Option<Colour>,
    pub(super) background: Option<Colour>,
}

impl Effect {
    /// Both; the other one is stronger.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            hides: self.hides || other.hides,
            colour: other.colour.or(self.colour),
            background: other.background.or(self.background),
        }
    }
}

/// Whether text in one colour can be read on the other.
pub(super) fn can_be_read(text: Colour, background: Colour) -> bool {
    text.iter().zip(background).any(|(one, other)| one.abs_diff(other) >= CONTRAST_MIN)
}

/// Which elements a rule is for.
#[derive(Debug, PartialEq, Eq)]
enum For {
    All,
    Tag(String),
    Class(String),
    Id(String),
    Attribute(String),
}

impl For {
    fn is(&self, tag: &Tag) -> bool {
        match self {
            Self::All => true,
            Self::Tag(name) => tag.name == *name,
            Self::Class(name) => {
                tag.get("class").is_some_and(|all| all.split_ascii_whitespace().any(|one| one == name))
            }
            Self::Id(name) => tag.get("id").is_some_and(|id| id == name),
            Self::Attribute(name) => tag.get(name).is_some(),
        }
    }
}

/// The rules of style sheets. A rule for some elements in some places is taken for one about all of these elements: too
/// much is hidden rather than too little.
#[derive(Debug, Default)]
pub(super) struct Sheets {
    rules: Vec<(For, Effect)>,
}

impl Sheets {
    pub(super) fn add(&mut self, sheet: &str) {
        let text = without_comments(sheet);
        let mut rest = text.as_str();
        while let Some(at) = rest.find(['{', '}', ';']) {
            let (before, tail) = rest.split_at(at);
            rest = tail.get(1..).unwrap_or_default();
            if !tail.starts_with('{') {
                continue;
            }
            let selectors = before.trim();
            if selectors.starts_with('@') {
                let inside = ["@media", "@supports", "@layer", "@container"];
                if !inside.iter().any(|word| selectors.starts_with(word)) {
                    rest = after_block(rest);
                }
                continue;
            }
            let (declarations, after) = rest.split_once('}').unwrap_or((rest, ""));
            rest = after;
            let effect = effect(declarations);
            if effect != Effect::default() {
                let room = RULES_MAX.saturating_sub(self.rules.len());
                self.rules.extend(selectors.split(',').filter_map(of).map(|of| (of, effect)).take(room));
            }
        }
    }

    /// What the sheets and its own attributes do to an element.
    pub(super) fn effect(&self, tag: &Tag) -> Effect {
        let rules = self.rules.iter().filter(|(of, _)| of.is(tag)).map(|(_, effect)| *effect);
        let attributes = Effect {
            hides: tag.get("hidden").is_some(),
            colour: tag.get("color").or_else(|| tag.get("text")).and_then(colour),
            background: tag.get("bgcolor").and_then(colour),
        };
        let own = tag.get("style").map(|style| effect(&without_comments(style))).unwrap_or_default();
        rules.fold(attributes, Effect::and).and(own)
    }
}

/// What follows the block whose `{` was read.
fn after_block(text: &str) -> &str {
    let mut depth = 1_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return text.get(at + 1..).unwrap_or_default();
        }
    }
    ""
}

/// The elements of a selector: those of its last part.
fn of(selector: &str) -> Option<For> {
    let last = selector.split([' ', '>', '+', '~', '\n', '\t', '\r']).rfind(|part| !part.is_empty())?;
    let plain = last.split(':').next().unwrap_or_default();
    let name = |text: &str| {
        let ends = |char: char| !(char.is_alphanumeric() || char == '-' || char == '_');
        text.split(ends).next().unwrap_or_default().to_owned()
    };
    if let Some((_, class)) = plain.split_once('.') {
        return Some(For::Class(name(class)));
    }
    if let Some((_, id)) = plain.split_once('#') {
        return Some(For::Id(name(id)));
    }
    if let Some((_, attribute)) = last.split_once('[') {
        return Some(For::Attribute(name(attribute).to_ascii_lowercase()));
    }
    let tag = name(plain).to_ascii_lowercase();
    // A tag in some place only, as in `.a p`: the whole place, or everything would be hidden.
    let place = selector.trim_end().strip_suffix(last).unwrap_or_default();
    match place.rfind(['.', '#']).filter(|_| !tag.is_empty()) {
        Some(at) if place.get(at..).is_some_and(|place| place.starts_with('.')) => {
            Some(For::Class(name(place.get(at + 1..).unwrap_or_default())))
        }
        Some(at) => Some(For::Id(name(place.get(at + 1..).unwrap_or_default()))),
        None => Some(if tag.is_empty() { For::All } else { For::Tag(tag) }),
    }
}

fn without_comments(text: &str) -> String {
    let (mut result, mut rest) = (String::new(), text);
    while let Some((before, comment)) = rest.split_once("/*") {
        result.push_str(before);
        rest = comment.split_once("*/").map_or("", |(_, rest)| rest);
    }
    result.push_str(rest);
    result
}

/// What declarations do.
fn effect(declarations: &str) -> Effect {
    let mut found = Effect::default();
    for declaration in declarations.split(';') {
        let Some((property, value)) = declaration.split_once(':') else { continue };
        let (property, value) = (property.trim().to_ascii_lowercase(), value.trim().to_ascii_lowercase());
        let value = value.split('!').next().unwrap_or_default().trim();
        // No mail program writes escapes there.
        found.hides |= property.contains('\\') || value.contains('\\') || hides(&property, value);
        match property.as_str() {
            "color" => found.colour = colour(value).or(found.colour),
            "background" | "background-color" => {
                found.background = value.split_ascii_whitespace().find_map(colour).or_else(|| colour(value));
            }
            _ => {}
        }
    }
    found
}

fn hides(property: &str, value: &str) -> bool {
    let pixels = pixels(value);
    let below = |limit: f32| pixels.is_some_and(|pixels| pixels < limit);
    match property {
        "display" => value == "none",
        "visibility" => value == "hidden" || value == "collapse",
        "content-visibility" => value == "hidden",
        "mso-hide" => value == "all",
        "opacity" => below(0.1),
        "font-size" => below(SIZE_MIN),
        "font" => value.split_ascii_whitespace().any(|word| {
            let size = word.split('/').next().unwrap_or_default();
            size.ends_with(|char: char| char.is_ascii_alphabetic() || char == '0')
                && self::pixels(size).is_some_and(|pixels| pixels < SIZE_MIN)
        }),
        "height" | "max-height" | "width" | "max-width" | "line-height" => below(0.5),
        "clip" | "clip-path" => value != "auto" && value != "none",
        "text-indent" | "left" | "right" | "top" | "bottom" | "margin" | "margin-left" | "margin-top"
        | "margin-right" => {
            let far = |word: &str| self::pixels(word).is_some_and(|pixels| pixels <= FAR);
            value.split_ascii_whitespace().any(far)
                || property == "text-indent" && pixels.is_some_and(|far| far > 900.0)
        }
        "transform" => value.contains("scale(0") || value.contains("scalex(0") || value.contains("scaley(0"),
        "filter" => value.contains("opacity(0"),
        "color" | "-webkit-text-fill-color" => {
            value == "transparent" || value.starts_with("rgba(") && value.replace(' ', "").ends_with(",0)")
        }
        _ => false,
    }
}

/// A length in pixels, or a number; `None` for what is no length.
fn pixels(value: &str) -> Option<f32> {
    let end = value.find(|char: char| !(char.is_ascii_digit() || ".-+".contains(char))).unwrap_or(value.len());
    let (number, unit) = value.split_at(end);
    let number: f32 = number.parse().ok()?;
    let scale = match unit.trim() {
        "pt" => 1.3,
        "em" | "rem" | "ex" | "ch" => 16.0,
        "%" => 0.16,
        "cm" => 38.0,
        "in" => 96.0,
        "vw" | "vh" => 10.0,
        _ => 1.0,
    };
    Some(number * scale)
}

/// Reads a colour.
fn colour(value: &str) -> Option<Colour> {
    let value = value.trim().to_ascii_lowercase();
    if let Some(hex) = value.strip_prefix('#').or_else(|| (value.len() == 6).then_some(value.as_str()))
        && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
    {
        let number = u32::from_str_radix(hex, 16).ok()?;
        let [_, red, green, blue] = number.to_be_bytes();
        return match hex.len() {
            6 => Some([red, green, blue]),
            8 => colour(&format!("#{}", hex.get(..6)?)),
            3 | 4 => {
                let digit = |at: usize| hex.get(at..=at).and_then(|digit| u8::from_str_radix(digit, 16).ok());
                Some([digit(0)? * 17, digit(1)? * 17, digit(2)? * 17])
            }
            _ => None,
        };
    }
    if let Some(numbers) = value.strip_prefix("rgb").map(|rest| rest.trim_start_matches(['a', '('])) {
        let mut channels = numbers.split([',', ' ', '/', ')']).filter(|word| !word.is_empty()).map(|word| {
            let percent = word.strip_suffix('%').and_then(|word| word.parse::<f32>().ok()).map(|part| part * 2.55);
            percent.or_else(|| word.parse().ok())
        });
        // A conversion of floats keeps to the limits of the type.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "colours have 8 bits")]
        let mut next = || channels.next().flatten().map(|channel| channel as u8);
        return Some([next()?, next()?, next()?]);
    }
    const NAMES: [(&str, Colour); 14] = [
        ("white", [255, 255, 255]),
        ("black", [0, 0, 0]),
        ("snow", [255, 250, 250]),
        ("ivory", [255, 255, 240]),
        ("whitesmoke", [245, 245, 245]),
        ("ghostwhite", [248, 248, 255]),
        ("floralwhite", [255, 250, 240]),
        ("red", [255, 0, 0]),
        ("green", [0, 128, 0]),
        ("blue", [0, 0, 255]),
        ("gray", [128, 128, 128]),
        ("grey", [128, 128, 128]),
        ("yellow", [255, 255, 0]),
        ("navy", [0, 0, 128]),
    ];
    NAMES.iter().find(|(name, _)| *name == value).map(|(_, colour)| *colour)
}
