//! The content of a turn, and why one did not succeed.

use std::path::Path;

use hearth_wire::{Context, InMessage, Retry};

use crate::failure::Failure;
use crate::prompt::prompt;
use crate::stop::{Error, Stop};

/// The content of one turn.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    /// The context as it was when the turn began.
    pub(crate) context: Context,
    /// Context messages, the newest ones.
    pub(crate) background: Vec<InMessage>,
    /// Triggering messages; empty only between turns.
    pub(crate) asked: Vec<InMessage>,
    /// The prompt text.
    pub(crate) prompt: String,
    /// The text of a native command for the provider, such as `/compact`.
    pub(crate) native: Option<String>,
}

impl Turn {
    /// Builds a turn: all triggering messages, and the newest context.
    pub(crate) fn compose(root: &Path, context: Context, messages: Vec<InMessage>) -> Self {
        let (asked, mut background): (Vec<_>, Vec<_>) = messages.into_iter().partition(|message| message.trigger);
        let most = usize::try_from(context.limits.max_prompt_messages).unwrap_or(usize::MAX);
        background.drain(..background.len().saturating_sub(most));
        let prompt = prompt(root, &context, &background, &asked);
        Self { context, background, asked, prompt, native: None }
    }
}

/// Why a turn did not succeed.
#[derive(Debug)]
pub(crate) enum TurnError {
    /// The provider failed permanently; the host gets the reason.
    Failed(String),
    /// The provider failed temporarily; the host sends the messages again.
    Passing(String, Retry),
    /// The runner must stop.
    Stopped(Stop),
}

impl From<Stop> for TurnError {
    fn from(stop: Stop) -> Self {
        Self::Stopped(stop)
    }
}

impl From<Error> for TurnError {
    fn from(error: Error) -> Self {
        Self::Stopped(Stop::Broken(error))
    }
}

impl From<Failure> for TurnError {
    fn from(Failure { error, retry }: Failure) -> Self {
        match retry {
            Some(retry) => Self::Passing(error, retry),
            None => Self::Failed(error),
        }
    }
}
