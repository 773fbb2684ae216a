//! Older versions of the settings.

use serde::{Deserialize, Serialize};

use crate::envelope::{Unreadable, decode};
use crate::legacy::unknown;
use crate::model::address::{ChannelName, ForeignId, UserId};
use crate::model::backup_plan::BackupPlan;
use crate::model::bound_secret::BoundSecret;
use crate::model::budget::{Budget, BudgetPeriod, BudgetScope};
use crate::model::configure::{RuntimeKind, Settings};
use crate::model::entity::Folder;
use crate::model::id::TaskId;
use crate::model::retention::{Keep, Retention};
use crate::model::spend::{ModelPrice, Money, Price};
use crate::model::time::Millis;
use crate::model::voice::{SpeechTool, Transcriber, Voice};

#[derive(Serialize, Deserialize)]
pub(crate) struct SettingsV1 {
    pub(crate) default_agent: Option<Folder>,
    pub(crate) store_max_bytes: Option<u64>,
    pub(crate) max_containers: Option<u32>,
    pub(crate) retention: RetentionV1,
    pub(crate) timezone: Option<String>,
    pub(crate) runtime: Option<RuntimeKindV1>,
    pub(crate) image: Option<String>,
}

/// A field was added at the end.
#[derive(Serialize, Deserialize)]
pub(crate) struct SettingsV2 {
    pub(crate) first: SettingsV1,
    pub(crate) backup: Option<BackupPlanV1>,
}

/// Two fields were added at the end.
#[derive(Serialize, Deserialize)]
pub(crate) struct SettingsV3 {
    pub(crate) second: SettingsV2,
    pub(crate) session_files_max_bytes: Option<u64>,
    pub(crate) prices: Vec<ModelPriceV1>,
}

/// Two fields were added at the end.
#[derive(Serialize, Deserialize)]
pub(crate) struct SettingsV4 {
    pub(crate) third: SettingsV3,
    pub(crate) budgets: Vec<BudgetV1>,
    pub(crate) grace: Option<u32>,
}

/// A field was added at the end.
#[derive(Serialize, Deserialize)]
pub(crate) struct SettingsV5 {
    pub(crate) fourth: SettingsV4,
    pub(crate) secrets: Vec<BoundSecret>,
}

/// A field was added at the end.
#[derive(Serialize, Deserialize)]
pub(crate) struct SettingsV6 {
    pub(crate) fifth: SettingsV5,
    pub(crate) voice: Option<VoiceV1>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct VoiceV1 {
    pub(crate) transcribe: Option<TranscriberV1>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct TranscriberV1 {
    pub(crate) tool: SpeechToolV1,
    pub(crate) language: Option<String>,
    pub(crate) max_bytes: u64,
    pub(crate) timeout: Millis,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum SpeechToolV1 {
    Command(Vec<String>),
    Server { url: String, model: Option<String>, key: Option<String> },
}

#[derive(Serialize, Deserialize)]
pub(crate) struct BudgetV1 {
    pub(crate) scope: BudgetScopeV1,
    pub(crate) per: BudgetPeriodV1,
    pub(crate) money: Option<u64>,
    pub(crate) tokens: Option<u64>,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum BudgetScopeV1 {
    All,
    Agent(Folder),
    Person(UserId),
    Chat(ChannelName, ForeignId),
    Task(TaskId),
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ModelPriceV1 {
    pub(crate) model: String,
    pub(crate) price: PriceV1,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct PriceV1 {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct BackupPlanV1 {
    pub(crate) every: Millis,
    pub(crate) keep: u32,
    pub(crate) to: Option<String>,
    pub(crate) with_secrets: bool,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct RetentionV1 {
    pub(crate) bodies: Option<KeepV1>,
    pub(crate) journal: Option<KeepV1>,
    pub(crate) attachments: Option<KeepV1>,
    pub(crate) dedup: Option<KeepV1>,
    pub(crate) drops: Option<KeepV1>,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum KeepV1 {
    Days(u32),
    Forever,
}

super::frozen_enum! {
    RuntimeKindV1 => RuntimeKind { Podman, Process }
    BudgetPeriodV1 => BudgetPeriod { Day, Month }
}

impl From<BackupPlanV1> for BackupPlan {
    fn from(old: BackupPlanV1) -> Self {
        let BackupPlanV1 { every, keep, to, with_secrets } = old;
        Self { every, keep, to, with_secrets }
    }
}

impl From<KeepV1> for Keep {
    fn from(old: KeepV1) -> Self {
        match old {
            KeepV1::Days(days) => Self::Days(days),
            KeepV1::Forever => Self::Forever,
        }
    }
}

impl From<RetentionV1> for Retention {
    fn from(old: RetentionV1) -> Self {
        let RetentionV1 { bodies, journal, attachments, dedup, drops } = old;
        Self {
            bodies: bodies.map(Keep::from),
            journal: journal.map(Keep::from),
            attachments: attachments.map(Keep::from),
            dedup: dedup.map(Keep::from),
            drops: drops.map(Keep::from),
        }
    }
}

impl From<SettingsV1> for SettingsV2 {
    fn from(first: SettingsV1) -> Self {
        Self { first, backup: None }
    }
}

impl From<ModelPriceV1> for ModelPrice {
    fn from(old: ModelPriceV1) -> Self {
        let ModelPriceV1 { model, price: PriceV1 { input, output, cache_read, cache_write } } = old;
        Self { model, price: Price { input, output, cache_read, cache_write } }
    }
}

impl From<SettingsV2> for SettingsV3 {
    fn from(second: SettingsV2) -> Self {
        Self { second, session_files_max_bytes: None, prices: Vec::new() }
    }
}

impl From<BudgetV1> for Budget {
    fn from(old: BudgetV1) -> Self {
        let BudgetV1 { scope, per, money, tokens } = old;
        let scope = match scope {
            BudgetScopeV1::All => BudgetScope::All,
            BudgetScopeV1::Agent(folder) => BudgetScope::Agent(folder),
            BudgetScopeV1::Person(person) => BudgetScope::Person(person),
            BudgetScopeV1::Chat(channel, chat) => BudgetScope::Chat(channel, chat),
            BudgetScopeV1::Task(task) => BudgetScope::Task(task),
        };
        Self { scope, per: per.into(), money: money.map(Money::micros), tokens }
    }
}

impl From<SettingsV3> for SettingsV4 {
    fn from(third: SettingsV3) -> Self {
        Self { third, budgets: Vec::new(), grace: None }
    }
}

impl From<SettingsV4> for SettingsV5 {
    fn from(fourth: SettingsV4) -> Self {
        Self { fourth, secrets: Vec::new() }
    }
}

impl From<SettingsV5> for SettingsV6 {
    fn from(fifth: SettingsV5) -> Self {
        Self { fifth, voice: None }
    }
}

impl From<VoiceV1> for Voice {
    fn from(old: VoiceV1) -> Self {
        let transcribe = old.transcribe.map(|TranscriberV1 { tool, language, max_bytes, timeout }| {
            let tool = match tool {
                SpeechToolV1::Command(line) => SpeechTool::Command(line),
                SpeechToolV1::Server { url, model, key } => SpeechTool::Server { url, model, key },
            };
            Transcriber { tool, language, max_bytes, timeout }
        });
        Self { transcribe, speak: None }
    }
}

impl From<SettingsV6> for Settings {
    fn from(old: SettingsV6) -> Self {
        let SettingsV6 { fifth: SettingsV5 { fourth: SettingsV4 { third, budgets, grace }, secrets }, voice } = old;
        let SettingsV3 { second: SettingsV2 { first, backup }, session_files_max_bytes, prices } = third;
        let SettingsV1 { default_agent, store_max_bytes, max_containers, retention, timezone, runtime, image } = first;
        Self {
            default_agent,
            store_max_bytes,
            max_containers,
            retention: retention.into(),
            timezone,
            runtime: runtime.map(RuntimeKind::from),
            image,
            backup: backup.map(BackupPlan::from),
            session_files_max_bytes,
            prices: prices.into_iter().map(ModelPrice::from).collect(),
            budgets: budgets.into_iter().map(Budget::from).collect(),
            grace,
            secrets,
            voice: voice.map(Voice::from),
        }
    }
}

pub(crate) fn upgrade(version: u16, body: &[u8]) -> Result<Settings, Unreadable> {
    let fourth = match version {
        1 => SettingsV3::from(SettingsV2::from(decode::<SettingsV1>(body)?)).into(),
        2 => SettingsV3::from(decode::<SettingsV2>(body)?).into(),
        3 => decode::<SettingsV3>(body)?.into(),
        4 => decode::<SettingsV4>(body)?,
        5 => return decode::<SettingsV5>(body).map(|old| SettingsV6::from(old).into()),
        6 => return decode::<SettingsV6>(body).map(Settings::from),
        _ => return Err(unknown(version)),
    };
    Ok(SettingsV6::from(SettingsV5::from(fourth)).into())
}
