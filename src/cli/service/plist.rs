//! The property list of a launchd agent, as text.

use super::file::{INSTALLATION, MARK, UnitFields};
use super::unit::STOP;

/// The text of the property list.
pub(super) fn plist(facts: &UnitFields<'_>) -> String {
    let string = |text: &str| format!("<string>{}</string>", escaped(text));
    let path = facts.path.map_or_else(String::new, |path| {
        format!("    <key>EnvironmentVariables</key>\n    <dict><key>PATH</key>{}</dict>\n", string(path))
    });
    let log = facts.log.map_or_else(String::new, |log| {
        let log = string(log);
        format!("    <key>StandardOutPath</key>{log}\n    <key>StandardErrorPath</key>{log}\n")
    });
    let installation = facts
        .installation
        .map_or_else(String::new, |id| format!("{}{}", string(INSTALLATION), string(&id.to_string())));
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!-- {MARK}, which writes it anew. Values of variables belong in files that hearth.toml refers to. -->\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <plist version=\"1.0\">\n\
         <dict>\n\
         \u{20}   <key>Label</key>{label}\n\
         \u{20}   <key>ProgramArguments</key>\n\
         \u{20}   <array>{program}<string>run</string><string>--data</string>{data}{installation}</array>\n\
         {path}{log}\
         \u{20}   <key>RunAtLoad</key><true/>\n\
         \u{20}   <key>KeepAlive</key>\n\
         \u{20}   <dict><key>SuccessfulExit</key><false/></dict>\n\
         \u{20}   <key>ThrottleInterval</key><integer>10</integer>\n\
         \u{20}   <key>ExitTimeOut</key><integer>{STOP}</integer>\n\
         \u{20}   <key>Umask</key><integer>63</integer>\n\
         </dict>\n\
         </plist>\n",
        label = string(facts.name),
        program = string(facts.program),
        data = string(facts.data),
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_property_list_as_it_is_written() {
        insta::assert_snapshot!(plist(&UnitFields {
            program: "/Applications/He & arth/hearth",
            data: "/Users/a/<data>",
            path: Some("/opt/homebrew/bin:/usr/bin"),
            environment: None,
            installation: Some(crate::daemon::opening::Installation(0xab)),
            log: Some("/Users/a/Library/Logs/hearth.log"),
            name: "hearth.daemon",
        }));
    }
}
