//! Records of older versions, byte by byte, and the current records they become. These bytes never change.

use crate::Meta;
use crate::envelope::{Record, Unreadable, decode, open, seal_version};
use crate::legacy::agent::{AgentV1, NetworkV1, OldAgent, SettingsV2, SettingsV3, SettingsV4, SettingsV5, SettingsV6};
use crate::model::address::{ForeignId, UserId};
use crate::model::backup_plan::BackupPlan;
use crate::model::budget::{Caps, OnLimit};
use crate::model::channel::{ChannelInstance, ChannelKind, UnknownChats};
use crate::model::configure::Settings;
use crate::model::entity::{
    Agent, Engage, Folder, Ignored, Network, Origin, Permissions, SenderScope, SessionMode, Verbosity, Wiring,
};
use crate::model::id::ChatId;
use crate::model::message::{Drop, Reason};
use crate::model::recall::RecallReach;
use crate::model::time::Millis;
use crate::model::tool::ToolSettings;
use crate::tests::samples::{agent, at, telegram};

const META: &str = "01000136ca2fe901fceeffc00000";
const CHANNEL: &str = "01000117b9d81a0874656c656772616d01010c656e763a54454c454752414d00000000fd0250b5ed36030000";
const DROP: &str =
    "01000108ced6bbfd0650b5ed360300000874656c656772616d042d31303001010000010874656c656772616d023432010341646109";
const WIRING: &str = "010001d253077d00045e6865790101010500fd0450b5ed36030000";
const AGENT: &str = concat!(
    "0100012cf7f432046d61696e07477573746176610102056167656e74062d2d6a736f6e02044d4f4445000463616c6d05544f4b454e010965",
    "6e763a544f4b454e01016d0001000104426173680a0401026a7100010566696c6573096d63702d66696c657301052d2d616c6c01034b4559",
    "0107656e763a4b4559000101077e2f6e6f74657301056e6f7465730001fc000000400001fb000201010777656174686572010d4575726f70",
    "652f4265726c696e0100fd0050b5ed360300000000",
);
/// With variables for requests and the host's loopback.
const AGENT_2: &str = concat!(
    "0100020fee9404046d61696e07477573746176610102056167656e74062d2d6a736f6e02044d4f4445000463616c6d05544f4b454e010965",
    "6e763a544f4b454e01016d0001000104426173680a0401026a7100010566696c6573096d63702d66696c657301052d2d616c6c01034b4559",
    "0107656e763a4b4559000101077e2f6e6f74657301056e6f7465730001fc000000400001fb000201010777656174686572010d4575726f70",
    "652f4265726c696e010105544f4b454e0100fd0050b5ed360300000000",
);
/// With access to its folder.
const AGENT_3: &str = concat!(
    "010003a5af0086046d61696e07477573746176610102056167656e74062d2d6a736f6e02044d4f4445000463616c6d05544f4b454e010965",
    "6e763a544f4b454e01016d0001000104426173680a0401026a7100010566696c6573096d63702d66696c657301052d2d616c6c01034b4559",
    "0107656e763a4b4559000101077e2f6e6f74657301056e6f7465730001fc000000400001fb000201010777656174686572010d4575726f70",
    "652f4265726c696e010105544f4b454e01010100fd0050b5ed360300000000",
);

const SETTINGS: &str = "0100019bb2e7f201046d61696e00000000000000000000";
/// With a plan of backups.
const SETTINGS_2: &str = "010002c6db5d5b01046d61696e0000000000000000000001fc80ee36000301097e2f6261636b75707301";

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn read<R: Record>(hex: &str) -> R {
    open(&bytes(hex)).unwrap()
}

#[test]
fn a_store_without_epochs_keeps_its_outgoing_ids() {
    assert_eq!(read::<Meta>(META), Meta { format: 1, install: 0x00c0_ffee, runs: 0, epochs: Vec::new() });
}

#[test]
fn a_channel_asks_about_chats_and_shows_no_previews() {
    let channel = ChannelInstance {
        name: telegram(),
        kind: ChannelKind::Telegram,
        token: Some("env:TELEGRAM".to_owned()),
        base_url: None,
        secret: None,
        listen: None,
        program: None,
        link_previews: false,
        unknown_chats: UnknownChats::Ask,
        tell_strangers: false,
        origin: Origin::File,
        created: at(1),
    };
    assert_eq!(read::<ChannelInstance>(CHANNEL), channel);
}

#[test]
fn a_dropped_event_is_in_no_known_thread() {
    let drop = Drop {
        at: at(3),
        channel: telegram(),
        platform_id: ForeignId::new("chat", "-100").unwrap(),
        thread: None,
        chat: Some(ChatId::new(1)),
        agent: None,
        platform_message: None,
        sender: UserId::parse("telegram:42").ok(),
        sender_name: Some("Ada".to_owned()),
        reason: Reason::UnknownSenderStrict,
    };
    assert_eq!(read::<Drop>(DROP), drop);
}

#[test]
fn a_wiring_has_context_by_the_rule_of_its_chat() {
    let wiring = Wiring {
        engage: Engage::Pattern("^hey".to_owned()),
        senders: SenderScope::Known,
        ignored: Ignored::Accumulate,
        session: SessionMode::PerThread,
        priority: -3,
        context_from: None,
        origin: Origin::File,
        created: at(2),
    };
    assert_eq!(read::<Wiring>(WIRING), wiring);
}

#[test]
fn settings_without_backups_schedule_none() {
    let expected = Settings { default_agent: Some(Folder::new("main").unwrap()), ..Settings::default() };
    assert_eq!(read::<Settings>(SETTINGS), expected);
    let backup =
        BackupPlan { every: Millis::minutes(60), keep: 3, to: Some("~/backups".to_owned()), with_secrets: true };
    assert_eq!(read::<Settings>(SETTINGS_2), Settings { backup: Some(backup), ..expected });
}

#[test]
fn an_agent_is_read_as_it_was() {
    let mut expected = agent("main");
    (expected.settings.on_limit, expected.settings.caps) = (OnLimit::Ask, Caps::default());
    expected.settings.fallback = Vec::new();
    expected.settings.verbosity = Verbosity::Normal;
    (expected.settings.allow, expected.settings.deny) = (Vec::new(), Vec::new());
    expected.settings.secrets = Vec::new();
    expected.settings.tools = ToolSettings::default();
    expected.settings.recall = RecallReach::Chat;
    (expected.settings.gateway, expected.settings.models) = (true, Vec::new());
    (expected.settings.mode, expected.settings.permissions) = (None, Permissions::Allow);
    assert_eq!(read::<Agent>(AGENT_3), expected);
    expected.settings.folder_access = None;
    assert_eq!(read::<Agent>(AGENT_2), expected);
    (expected.settings.request_env, expected.settings.allow_host_loopback) = (Vec::new(), false);
    assert_eq!(read::<Agent>(AGENT), expected);
}

/// Its version reached the host's loopback interface, and the agent may depend on that.
#[test]
fn only_an_agent_that_reached_everything_keeps_the_hosts_loopback() {
    for (network, now, loopback) in [
        (NetworkV1::None, Network::None, false),
        (NetworkV1::Host, Network::Host, false),
        (NetworkV1::Open, Network::Open, true),
    ] {
        let mut old: AgentV1 = decode(&bytes(AGENT)[7..]).unwrap();
        old.settings.network = network;
        let settings = open::<Agent>(&seal_version(1, &old).unwrap()).unwrap().settings;
        assert_eq!((settings.network, settings.allow_host_loopback), (now, loopback));
    }
}

/// Version 6 brought networks with rules.
#[test]
fn an_agent_with_rules_for_its_network_keeps_them() {
    for (network, now) in
        [(NetworkV1::Listed, Network::Listed), (NetworkV1::Ask, Network::Ask), (NetworkV1::Public, Network::Public)]
    {
        assert_eq!(seal_version(6, &network).unwrap(), seal_version(6, &now).unwrap());
        let mut old: AgentV1 = decode(&bytes(AGENT)[7..]).unwrap();
        old.settings.network = network;
        let old: OldAgent<SettingsV6> =
            old.next::<SettingsV2>().next::<SettingsV3>().next::<SettingsV4>().next::<SettingsV5>().next();
        let settings = open::<Agent>(&seal_version(6, &old).unwrap()).unwrap().settings;
        assert_eq!(settings.network, now);
    }
}

#[test]
fn damaged_records_of_an_older_version_are_refused() {
    let short = seal_version(1, &1_u8).unwrap();
    assert!(matches!(open::<Agent>(&short), Err(Unreadable::Damaged(_))));
    assert!(matches!(open::<Wiring>(&short), Err(Unreadable::Damaged(_))));
    assert!(matches!(open::<ChannelInstance>(&short), Err(Unreadable::Damaged(_))));
    assert!(matches!(open::<Meta>(&seal_version(0, &1_u8).unwrap()), Err(Unreadable::Damaged(_))));
}
