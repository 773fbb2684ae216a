//! `migrate-addresses-block`.

use serde_json::{Value, json};

use super::{Place, Ran};

const FILE: &str = "user_profile.md";

fn run(place: &Place) -> Ran {
    place.run(&["migrate-addresses-block"], &[], "")
}

fn profile(stamp: &str) -> String {
    format!(
        "# Owner\n- schema_version: 7\n\n## Addresses\n<!-- made with schema v1, was schema v1 -->\n{stamp}- current_home: A Street 1: left\n- home_airport: BER\n\n### More\n- new_home_wip:\n\n## Other\n- schema_version: 7\n- current_home:\n"
    )
}

/// The text at the version's position, and its former version.
#[test]
fn old_blocks_are_stamped_and_nothing_else_changes() {
    for (stamp, from) in [
        ("- schema_version: 1\n", json!(1)),
        ("- schema_version: 0\n", json!(0)),
        ("- schema_version: -3\n", json!(-3)),
        ("", Value::Null),
    ] {
        let place = Place::new();
        place.put(FILE, profile(stamp));
        let ran = run(&place);
        let wanted = json!({"migrated": true, "from": from, "to": 2, "path": place.path(FILE)});
        assert_eq!((ran.code, ran.json(), ran.err.as_str()), (Some(0), wanted, ""), "{stamp}");
        let after = profile("- schema_version: 2\n").replacen("schema v1", "schema v2", 1);
        assert_eq!(place.text(FILE), after);
        let (again, stamp) = (run(&place), place.stamp(FILE));
        assert_eq!(again.json(), json!({"migrated": false, "from": 2, "to": 2, "path": place.path(FILE)}));
        assert_eq!((place.text(FILE), place.stamp(FILE)), (after, stamp));
    }
    let place = Place::new();
    place.put(FILE, " ##\t Addresses \n- current_home: x\n- home_airport: y\n### More\n## \n");
    assert_eq!(run(&place).code, Some(0));
    assert!(place.text(FILE).contains("\n- schema_version: 2\n- current_home"), "{}", place.text(FILE));
    let windows = profile("  - schema_version : 1\n").replace('\n', "\r\n");
    place.put(FILE, &windows);
    assert_eq!(run(&place).code, Some(0));
    assert_eq!(place.text(FILE), windows.replacen("n : 1", "n : 2", 1).replacen("schema v1", "schema v2", 1));
}

#[test]
fn a_current_block_is_not_looked_at_any_further() {
    let place = Place::new();
    place.put(FILE, "## Addresses\n- schema_version: 2\n");
    assert_eq!(run(&place).json()["migrated"], false);
    assert_eq!(place.text(FILE), "## Addresses\n- schema_version: 2\n");
}

#[test]
fn what_is_not_understood_or_not_complete_stays_as_it_is() {
    let missing = |keys: &str| format!("block is missing required key(s): {keys}");
    let none = "no `## Addresses` block".to_owned();
    for (content, why) in [
        (profile("- schema_version: 99\n"), "block is at schema_version=99, above this writer's 2".to_owned()),
        (profile("- schema_version: draft\n"), "unreadable schema_version 'draft'".to_owned()),
        (profile("- schema_version:\n"), "unreadable schema_version ''".to_owned()),
        ("# Owner\n".to_owned(), none.clone()),
        ("## addresses\n- current_home: x\n- home_airport: y\n".to_owned(), none.clone()),
        ("##Addresses\n- current_home: x\n- home_airport: y\n".to_owned(), none),
        ("## Addresses\n".to_owned(), missing("current_home, home_airport")),
        ("## Addresses\n- home_airport: y\n## B\n- current_home: x\n".to_owned(), missing("current_home")),
        ("## Addresses\n- home_airport: y\n \t##\tB\n- current_home: x\n".to_owned(), missing("current_home")),
        ("## Addresses\n- current_home:  \n- home_airport: y\n".to_owned(), missing("current_home")),
    ] {
        let place = Place::new();
        place.put(FILE, &content);
        let ran = run(&place);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{content}");
        let wanted = format!(
            "migrate-addresses-block: {why} in {} \u{2014} see skills/trusted-memory/state-schema.md for the canonical block shape; a stamp above this writer's version means upgrading this plugin, never hand-editing the block down\n",
            place.path(FILE).display()
        );
        assert_eq!(ran.err, wanted, "{content}");
        assert_eq!(place.text(FILE), content);
    }
}

#[test]
fn the_profile_is_told_by_flag_then_variable() {
    let place = Place::new();
    let ran = run(&place);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("owner profile not found"), "{}", ran.err);
    place.put("other.md", "## Addresses\n- current_home: x\n- home_airport: y");
    let other = place.path("other.md").display().to_string();
    assert_eq!(place.run(&["migrate-addresses-block", "--profile", &other], &[], "").json()["path"], other);
    assert_eq!(place.text("other.md"), "## Addresses\n- schema_version: 2\n- current_home: x\n- home_airport: y");
    assert_eq!(place.run(&["migrate-addresses-block"], &[("USER_PROFILE_PATH", "")], "").code, Some(1));
    assert_eq!(place.run(&["migrate-addresses-block", "x"], &[], "").code, Some(2));
}
