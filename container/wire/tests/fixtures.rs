//! The golden files: each is parsed as its type and must be written again unchanged. A change here is a change of the
//! contract.

#[cfg(test)] // marks the whole crate as a test for the lints
mod fixtures {
    use std::path::PathBuf;

    use hearth_wire::{
        Ack, AckName, AckStatus, Context, Heartbeat, InMessage, OutId, OutMessage, Reply, SessionFile, State,
        WIRE_VERSION,
    };
    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    fn dir() -> PathBuf {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures"))
    }

    fn names() -> Vec<String> {
        let entries = std::fs::read_dir(dir()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn text(name: &str) -> String {
        std::fs::read_to_string(dir().join(name)).unwrap()
    }

    /// Parses a file as `T`, writes it again, and compares the result.
    fn check<T: DeserializeOwned + Serialize>(name: &str) -> T {
        let golden: Value = serde_json::from_str(&text(name)).unwrap();
        assert_eq!(golden["v"], WIRE_VERSION, "{name}");
        let read: T = serde_json::from_str(&text(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(serde_json::to_value(&read).unwrap(), golden, "{name}");
        read
    }

    #[test]
    fn every_fixture_is_read_and_written_as_it_is() {
        for name in names() {
            match name.trim_end_matches(".json").split('-').next().unwrap() {
                "context" => drop(check::<Context>(&name)),
                "in" => drop(check::<InMessage>(&name)),
                "ack" => drop(check::<Ack>(&name)),
                "out" => drop(check::<OutMessage>(&name)),
                "reply" => drop(check::<Reply>(&name)),
                "state" => drop(check::<State>(&name)),
                "session" => drop(check::<SessionFile>(&name)),
                "heartbeat" => assert_eq!(check::<Heartbeat>(&name).beat, 2, "{name}"),
                other => panic!("{other}: a fixture of no known type"),
            }
        }
    }

    #[test]
    fn every_type_has_a_fixture() {
        for kind in ["context", "in-", "ack-", "out-", "reply", "state", "session", "heartbeat"] {
            assert!(names().iter().any(|name| name.starts_with(kind)), "{kind}");
        }
        for status in [AckStatus::Processing, AckStatus::Completed, AckStatus::Failed] {
            let ack: Ack = check(&format!("ack-{}.json", status.as_str()));
            assert_eq!(ack.status, status);
            let name = AckName { seq: ack.seq, incarnation: ack.incarnation, status };
            assert_eq!(AckName::parse(&name.to_string()), Some(name));
            assert!(ack.ends.is_empty());
        }
        assert_eq!(check::<Ack>("ack-ends.json").ends, [8, 10]);
    }

    #[test]
    fn fields_of_a_later_minor_change_are_passed_over_and_wrong_ones_refused() {
        let mut message: Value = serde_json::from_str(&text("in-message.json")).unwrap();
        message["added_later"] = true.into();
        assert!(serde_json::from_value::<InMessage>(message.clone()).is_ok());
        message["reply"]["typo"] = true.into();
        assert!(serde_json::from_value::<InMessage>(message).is_err(), "an address is an identity");
        let mut out: Value = serde_json::from_str(&text("out-message.json")).unwrap();
        out["id"] = "../../escape".into();
        assert!(serde_json::from_value::<OutMessage>(out).is_err());
        assert_eq!(OutId::from_file_name("3-13-12.json").unwrap().as_str(), "3-13-12");
    }

    /// An answer matters more than what an agent says of its tokens.
    #[test]
    fn usage_that_cannot_be_read_is_left_out() {
        let mut ack: Value = serde_json::from_str(&text("ack-usage.json")).unwrap();
        let good = ack["usage"][1].clone();
        for (usage, left) in [
            (json!([{"input": -1}, good, {"input": 1.5}, {"output": "many"}, 7, null]), 1),
            (json!("lots"), 0),
            (json!({}), 0),
            (json!(null), 0),
            (Value::Array(vec![good.clone(); 1_000]), hearth_wire::limits::USAGES_PER_ACK),
        ] {
            ack["usage"] = usage;
            let read: Ack = serde_json::from_value(ack.clone()).unwrap();
            assert_eq!(read.usage.len(), left, "{ack}");
        }
    }
}
