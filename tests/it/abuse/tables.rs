//! Generates the attack tables of docs/security.md from the list, so that they promise exactly what is tested. With
//! `HEARTH_UPDATE_DOCS=1` the test writes them.

use hearth::model::attack::{ATTACKS, Attack, By, Stand};

use crate::host::documents::generated;

fn cell(stand: Stand) -> String {
    match stand {
        Stand::Held => "held".to_owned(),
        Stand::Tested(why) => format!("held, as only the project's tests show: {why}"),
        Stand::Moot(why) => format!("does not apply: {why}"),
        Stand::With(what) => format!("held with {what}"),
        Stand::Open(why) => format!("**not held**: {why}"),
    }
}

fn agent_rows(text: &mut String, attack: &Attack, (process, podman): (Stand, Stand)) {
    let Attack { name, tries, holds, .. } = attack;
    let (process, podman) = (cell(process), cell(podman));
    text.push_str(&format!("| {tries} | {holds} | {process} | {podman} | `{name}` |\n"));
}

fn tables() -> String {
    let mut text = String::new();
    let mut heading = ("", false);
    for attack in ATTACKS {
        if (attack.about, attack.is_by_agent()) != heading {
            heading = (attack.about, attack.is_by_agent());
            let (about, by) = match attack.by {
                By::Agent { .. } => (
                    "an agent",
                    "| an agent that | what must hold | in a confined process | in a container | |\n|---|---|---|---|---|\n",
                ),
                By::Sender => ("a sender", "| a sender who | what must hold | |\n|---|---|---|\n"),
            };
            text.push_str(&format!("\n{}, by {about}:\n\n{by}", attack.about));
        }
        match attack.by {
            By::Agent { process, podman } => agent_rows(&mut text, attack, (process, podman)),
            By::Sender => {
                text.push_str(&format!("| {} | {} | `{}` |\n", attack.tries, attack.holds, attack.name));
            }
        }
    }
    text.push('\n');
    text
}

#[test]
fn the_security_document_shows_the_list() {
    generated("docs/security.md", "attacks: generated from src/model/attack.rs", "attacks", &tables());
}
