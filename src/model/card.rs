//! Cards: something a person is asked, with options to choose from.

use serde::{Deserialize, Serialize};

use super::id::{ApprovalId, QuestionId, SkipId};

/// What a card asks about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Matter {
    /// Something somebody has to decide.
    Approval(ApprovalId),
    /// A question of an agent.
    Question(QuestionId),
    /// Work that a skill left undone.
    Skip(SkipId),
}

impl std::fmt::Display for Matter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Approval(id) => id.fmt(f),
            Self::Question(id) => id.fmt(f),
            Self::Skip(id) => id.fmt(f),
        }
    }
}

impl std::str::FromStr for Matter {
    type Err = super::id::BadId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let question = text.parse().map(Self::Question);
        let skip = text.parse().map(Self::Skip);
        text.parse().map(Self::Approval).or(question).or(skip)
    }
}

/// One thing to choose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardOption {
    /// What is on the button.
    pub label: String,
    /// What the card says once it was chosen.
    pub chosen: String,
    /// What it means to whoever asked.
    pub value: String,
}

/// A card as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// What it asks about.
    pub matter: Matter,
    /// Unguessable; a card shown anew has another one, so that buttons of an old card mean nothing.
    pub nonce: u64,
    /// Its heading.
    pub title: String,
    /// The question: plain text, whatever it contains.
    pub body: String,
    /// What can be chosen.
    pub options: Vec<CardOption>,
}

/// What a button says when it is pressed: which card and which option. 64 bytes at most, as the narrowest platform wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Button {
    /// What the card asks about.
    pub matter: Matter,
    /// The card's nonce.
    pub nonce: u64,
    /// Position of the option.
    pub option: u32,
}

impl Card {
    /// What the button of an option says.
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
    /// Reads what [`Display`](std::fmt::Display) writes; everything else is no button of ours.
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
        let button = Button { matter: Matter::Approval(ApprovalId::new(12)), nonce: 0xbeef, option: 2 };
        assert_eq!(button.to_string(), "ap12.000000000000beef.2");
        assert_eq!(Button::parse("ap12.000000000000beef.2"), Some(button));
        let question =
            Button { matter: Matter::Question(QuestionId::new(u64::MAX)), nonce: u64::MAX, option: u32::MAX };
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
