//! Decides which tool calls of an agent are allowed, asked about or denied. Pure: the host and the runner give the same
//! answer.
//!
//! The order of rules does not matter: `deny` beats `ask`, `ask` beats `allow`, and a call that no rule matches is
//! decided by the preset. A grant is a person's answer to later questions: it turns `ask` into `allow`, and never a
//! `deny`.
//!
//! A rule about a shell command is help against mistakes and no wall, because a shell can say the same in other words.
//! In doubt, `deny` and `ask` match more calls, and `allow` and grants match fewer.

mod call;
mod digest;
mod effect;
mod glob;
mod path;
mod pattern;
mod shell;
#[cfg(test)]
mod tests;

pub use call::{Call, Place};
pub use digest::digest;
pub use effect::Effect;
pub use pattern::{PATTERN_CHARS, Pattern};
use serde::{Deserialize, Serialize};

/// Maximum number of rules of one agent.
pub const RULES_MAX: usize = 200;

/// What happens to a tool call that no rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolPreset {
    /// It is allowed.
    #[default]
    Open,
    /// Messages and requests to others than the conversation, and changes outside the agent's folder, are asked about.
    Careful,
    /// Everything that leaves the agent's folder is asked about.
    Locked,
}

impl ToolPreset {
    /// All presets, from the least to the most strict one.
    pub const ALL: [Self; 3] = [Self::Open, Self::Careful, Self::Locked];

    /// The word in files and for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Careful => "careful",
            Self::Locked => "locked",
        }
    }

    const fn decide(self, effect: Effect) -> ToolVerdict {
        let asks = match (self, effect) {
            (Self::Open, _) | (_, Effect::Inside) | (Self::Careful, Effect::Reads | Effect::Shell) => false,
            (Self::Careful, Effect::Writes | Effect::Sends | Effect::Unknown) | (Self::Locked, _) => true,
        };
        if asks { ToolVerdict::Ask } else { ToolVerdict::Allow }
    }
}

/// The answer to a tool call, from the weakest to the strongest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolVerdict {
    /// The tool may run.
    Allow,
    /// A person is asked.
    Ask,
    /// The tool may not run.
    Deny,
}

impl ToolVerdict {
    pub const ALL: [Self; 3] = [Self::Allow, Self::Ask, Self::Deny];

    /// The word in files and for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// A rule: what happens to the calls that a pattern matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRule {
    pub verdict: ToolVerdict,
    /// The pattern as it was written.
    pub pattern: String,
}

/// What decides about the tool calls of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolPolicy {
    /// For calls that no rule matches.
    #[serde(default)]
    pub preset: ToolPreset,
    #[serde(default)]
    pub rules: Vec<ToolRule>,
    /// Patterns of calls that people allowed for longer than one call.
    #[serde(default)]
    pub granted: Vec<String>,
}

/// Why a call got its verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Basis {
    /// The preset decided.
    Preset(ToolPreset),
    /// A rule decided.
    Rule(ToolRule),
    /// A person had allowed such calls; contains the pattern.
    Granted(String),
}

/// A verdict and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    pub verdict: ToolVerdict,
    pub basis: Basis,
}

impl ToolPolicy {
    /// Whether every call is allowed, so that none has to be judged.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.preset == ToolPreset::Open && self.rules.iter().all(|rule| rule.verdict == ToolVerdict::Allow)
    }

    /// Decides about a call.
    #[must_use]
    pub fn judge(&self, call: &Call<'_>) -> Judgement {
        let judged = self.by_rules(call);
        if judged.verdict != ToolVerdict::Ask {
            return judged;
        }
        match self.granted.iter().find(|pattern| grants(pattern, call)) {
            Some(pattern) => Judgement { verdict: ToolVerdict::Allow, basis: Basis::Granted(pattern.clone()) },
            None => judged,
        }
    }

    fn by_rules(&self, call: &Call<'_>) -> Judgement {
        let strongest = self.rules.iter().filter(|rule| applies(rule, call)).max_by_key(|rule| rule.verdict);
        match strongest {
            Some(rule) => Judgement { verdict: rule.verdict, basis: Basis::Rule(rule.clone()) },
            None => {
                let verdict = self.preset.decide(effect::of(call));
                Judgement { verdict, basis: Basis::Preset(self.preset) }
            }
        }
    }
}

/// Whether a rule is about a call. A rule that cannot be read is about every call, unless it allows.
fn applies(rule: &ToolRule, call: &Call<'_>) -> bool {
    match (rule.verdict, Pattern::parse(&rule.pattern)) {
        (ToolVerdict::Allow, Ok(pattern)) => pattern.covers(call),
        (ToolVerdict::Allow, Err(_)) => false,
        (ToolVerdict::Ask | ToolVerdict::Deny, Ok(pattern)) => pattern.touches(call),
        (ToolVerdict::Ask | ToolVerdict::Deny, Err(_)) => true,
    }
}

/// Like [`grants`], for an input that is JSON text.
#[must_use]
pub fn grants_text(pattern: &str, tool: &str, input: &str, folder: &str) -> bool {
    let place = Place { folder: folder.to_owned(), ..Place::default() };
    serde_json::from_str(input)
        .is_ok_and(|input| grants(pattern, &Call { tool, kind: "", input: &input, place: &place }))
}

/// Whether a grant allows a call.
#[must_use]
pub fn grants(pattern: &str, call: &Call<'_>) -> bool {
    Pattern::parse(pattern).is_ok_and(|pattern| pattern.covers(call))
}
