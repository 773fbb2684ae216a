//! Cards: a question to a person, with options to choose from.

use serde::{Deserialize, Serialize};

use super::id::{ApprovalId, QuestionId, SkipId};

/// What a card asks about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PromptSubject {
    /// A decision about an approval.
    Approval(ApprovalId),
    /// A question of an agent.
    Question(QuestionId),
    /// Work that a skill skipped.
    Skip(SkipId),
}

impl std::fmt::Display for PromptSubject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Approval(id) => id.fmt(f),
            Self::Question(id) => id.fmt(f),
            Self::Skip(id) => id.fmt(f),
        }
    }
}

impl std::str::FromStr for PromptSubject {
    type Err = super::id::BadId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let approval = text.parse().map(Self::Approval);
        let question = text.parse().map(Self::Question);
        text.parse().map(Self::Skip).or(question).or(approval)
    }
}

/// A choice that a card offers, as a button or a numbered line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardOption {
    /// Text on the button.
    pub label: String,
    /// Text that the card shows after it was chosen.
    pub chosen: String,
    /// Value returned to the asker when it is chosen.
    pub value: String,
}

impl CardOption {
    /// The same option without a label: it keeps its position among the others and cannot be chosen on this card.
    #[must_use]
    pub fn withheld(self) -> Self {
        Self { label: String::new(), ..self }
    }

    /// Whether it can be chosen on its card.
    #[must_use]
    pub const fn is_offered(&self) -> bool {
        !self.label.is_empty()
    }
}

/// A card as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// What it asks about.
    pub matter: PromptSubject,
    /// Unguessable. A card that is shown again gets another one, so buttons of the old card have no effect.
    pub nonce: u64,
    /// Heading of the card.
    pub title: String,
    /// The question, always treated as plain text.
    pub body: String,
    /// Choices, in the order in which they are shown.
    pub options: Vec<CardOption>,
}

/// Payload of a button: which card and which option. At most 64 bytes, the limit of the narrowest platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Button {
    /// What the card asks about.
    pub matter: PromptSubject,
    /// The card's nonce.
    pub nonce: u64,
    /// Position of the option.
    pub option: u32,
}

impl Card {
    /// The options that can be chosen, each with its position. A button carries the position; a reply by number counts
    /// from 1.
    pub fn offered(&self) -> impl Iterator<Item = (u32, &CardOption)> {
        (0_u32..).zip(&self.options).filter(|(_, option)| option.is_offered())
    }

    /// Payload of an option's button.
    #[must_use]
    pub fn button(&self, option: u32) -> Button {
        Button { matter: self.matter, nonce: self.nonce, option }
    }
}

impl std::fmt::Display for Button {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:016x}.{}", self.matter, self.nonce, self.option)
    }
}

impl Button {
    /// Parses the output of [`Display`](std::fmt::Display). Everything else is not a button of Hearth.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let (matter, nonce, option) = (parts.next()?, parts.next()?, parts.next()?);
        let button = Self {
            matter: matter.parse().ok()?,
            nonce: u64::from_str_radix(nonce, 16).ok()?,
            option: option.parse().ok()?,
        };
        (parts.next().is_none() && button.to_string() == text).then_some(button)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buttons_have_one_spelling_and_fit_everywhere() {
        let button = Button { matter: PromptSubject::Approval(ApprovalId::new(12)), nonce: 0xbeef, option: 2 };
        assert_eq!(button.to_string(), "ap12.000000000000beef.2");
        assert_eq!(Button::parse("ap12.000000000000beef.2"), Some(button));
        let question =
            Button { matter: PromptSubject::Question(QuestionId::new(u64::MAX)), nonce: u64::MAX, option: u32::MAX };
        assert!(question.to_string().len() <= 64);
        assert_eq!(Button::parse(&question.to_string()), Some(question));
        for forged in [
            "",
            "ap12",
            "ap12.beef.2",
            "ap12.000000000000beef.2.",
            "ap12.000000000000BEEF.2",
            "ms1.0000000000000000.0",
            "ap12.000000000000beef.-1",
            "ap12.000000000000beef.02",
            "ap012.000000000000beef.2",
        ] {
            assert_eq!(Button::parse(forged), None, "{forged}");
        }
    }
}
