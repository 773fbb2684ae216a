//! The property list of a launchd agent, as text.

use super::file::{Facts, MARK};
use crate::daemon::STOP_MAX;

/// The text of the property list.
pub(super) fn plist(facts: &Facts<'_>) -> String {
    let string = |text: &str| format!("<string>{}</string>", escaped(text));
    let path = facts.path.map_or_else(String::new, |path| {
        format!("    <key>EnvironmentVariables</key>\n    <dict><key>PATH</key>{}</dict>\n", string(path))
    });
    let log = facts.log.map_or_else(String::new, |log| {
        let log = string(log);
        format!("    <key>StandardOutPath</key>{log}\n    <key>StandardErrorPath</key>{log}\n")
    });
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!-- {MARK}, which writes it anew. Values of variables belong in files that hearth.toml refers to. -->\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <plist version=\"1.0\">\n\
         <dict>\n\
         \u{20}   <key>Label</key>{label}\n\
         \u{20}   <key>ProgramArguments</key>\n\
         \u{20}   <array>{program}<string>run</string><string>--data</string>{data}</array>\n\
         {path}{log}\
         \u{20}   <key>RunAtLoad</key><true/>\n\
         \u{20}   <key>KeepAlive</key>\n\
         \u{20}   <dict><key>SuccessfulExit</key><false/></dict>\n\
         \u{20}   <key>ThrottleInterval</key><integer>10</integer>\n\
         \u{20}   <key>ExitTimeOut</key><integer>{stop}</integer>\n\
         \u{20}   <key>Umask</key><integer>63</integer>\n\
         </dict>\n\
         </plist>\n",
        label = string(facts.name),
        program = string(facts.program),
        data = string(facts.data),
        stop = STOP_MAX.as_secs().saturating_mul(2),
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
        insta::assert_snapshot!(plist(&Facts {
            program: "/Applications/He & arth/hearth",
            data: "/Users/a/<data>",
            path: Some("/opt/homebrew/bin:/usr/bin"),
            environment: None,
            log: Some("/Users/a/Library/Logs/hearth.log"),
            name: "hearth.daemon",
        }));
    }
}
