//! EDGE: providers of agents: what each needs and costs, and a trial of its credentials that costs nothing.

use crate::model::entity::ProviderKind;

mod local;
mod login;
mod speech;
mod trial;

pub use local::{LocalServer, local_servers};
pub use login::{Credential, Login, LoginError};
pub use speech::{AudioFile, SpeechFailure, SpeechServer, SpokenText};
pub use trial::{Accepted, Rejected, try_login};

/// What a provider is, for people who choose one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    pub provider: ProviderKind,
    /// What it does, in a phrase.
    pub is: &'static str,
    /// What it needs before it can answer.
    pub needs: &'static str,
    /// What an answer costs.
    pub costs: &'static str,
}

impl Offer {
    /// Whether it cannot be chosen without naming a program.
    #[must_use]
    pub const fn needs_command(&self) -> bool {
        matches!(self.provider, ProviderKind::Command | ProviderKind::Acp)
    }
}

/// Every provider, the most useful first.
pub const OFFERS: [Offer; 5] = [
    Offer {
        provider: ProviderKind::Claude,
        is: "the Claude Code command line: reads, writes and runs things for you",
        needs: "the program `claude`, which the image has, and one of: an API key of console.anthropic.com, a \
                subscription token that `claude setup-token` prints, or the address of a server with the same API, like \
                LiteLLM or Ollama",
        costs: "with an API key, the price of the tokens; with a subscription, a part of its limits; with your own server, what that server charges",
    },
    Offer {
        provider: ProviderKind::OpenAi,
        is: "a small agent of Hearth's own for chat, without a shell and files, for any server with OpenAI's API, like Ollama, llama.cpp or vLLM",
        needs: "the address of the server, the name of a model, and a key if the server wants one",
        costs: "what that server charges; nothing for a model on your machine",
    },
    Offer {
        provider: ProviderKind::Acp,
        is: "any other agent that speaks the Agent Client Protocol",
        needs: "the agent's program and arguments, and what it needs to reach its model",
        costs: "what the agent's model costs",
    },
    Offer {
        provider: ProviderKind::Command,
        is: "any program of yours that reads and writes JSON lines",
        needs: "the program and its arguments; container/agent-runner/COMMAND.md describes the lines",
        costs: "what the program costs",
    },
    Offer {
        provider: ProviderKind::Echo,
        is: "repeats what you write, to try Hearth without a model",
        needs: "nothing",
        costs: "nothing",
    },
];

#[cfg(test)]
mod tests;
