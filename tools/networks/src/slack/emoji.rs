//! Slack's names of emoji, which its reactions need. Those of the documentation of Unicode that people use often.

/// Signs and their names.
const NAMES: [(&str, &str); 96] = [
    ("👍", "+1"),
    ("👎", "-1"),
    ("👌", "ok_hand"),
    ("👏", "clap"),
    ("🙏", "pray"),
    ("🙌", "raised_hands"),
    ("💪", "muscle"),
    ("👋", "wave"),
    ("🤝", "handshake"),
    ("✌", "v"),
    ("🤞", "crossed_fingers"),
    ("👀", "eyes"),
    ("🧠", "brain"),
    ("❤", "heart"),
    ("💔", "broken_heart"),
    ("💯", "100"),
    ("💥", "boom"),
    ("💡", "bulb"),
    ("🔥", "fire"),
    ("✨", "sparkles"),
    ("⭐", "star"),
    ("🌟", "star2"),
    ("🎉", "tada"),
    ("🎊", "confetti_ball"),
    ("🎁", "gift"),
    ("🏆", "trophy"),
    ("🚀", "rocket"),
    ("✅", "white_check_mark"),
    ("☑", "ballot_box_with_check"),
    ("✔", "heavy_check_mark"),
    ("❌", "x"),
    ("❎", "negative_squared_cross_mark"),
    ("➕", "heavy_plus_sign"),
    ("➖", "heavy_minus_sign"),
    ("❓", "question"),
    ("❗", "exclamation"),
    ("⚠", "warning"),
    ("🚫", "no_entry_sign"),
    ("⛔", "no_entry"),
    ("🛑", "octagonal_sign"),
    ("🆗", "ok"),
    ("🔄", "arrows_counterclockwise"),
    ("⏳", "hourglass_flowing_sand"),
    ("⌛", "hourglass"),
    ("⏰", "alarm_clock"),
    ("📌", "pushpin"),
    ("📎", "paperclip"),
    ("📝", "memo"),
    ("📅", "date"),
    ("📈", "chart_with_upwards_trend"),
    ("📉", "chart_with_downwards_trend"),
    ("📊", "bar_chart"),
    ("📦", "package"),
    ("📣", "mega"),
    ("🔔", "bell"),
    ("🔒", "lock"),
    ("🔑", "key"),
    ("🔍", "mag"),
    ("🔧", "wrench"),
    ("🐛", "bug"),
    ("💬", "speech_balloon"),
    ("💤", "zzz"),
    ("💰", "moneybag"),
    ("☕", "coffee"),
    ("🍺", "beer"),
    ("🍕", "pizza"),
    ("🎂", "birthday"),
    ("🌈", "rainbow"),
    ("☀", "sunny"),
    ("🌙", "crescent_moon"),
    ("😀", "grinning"),
    ("😃", "smiley"),
    ("😄", "smile"),
    ("😁", "grin"),
    ("😆", "laughing"),
    ("😅", "sweat_smile"),
    ("😂", "joy"),
    ("🤣", "rolling_on_the_floor_laughing"),
    ("🙂", "slightly_smiling_face"),
    ("🙃", "upside_down_face"),
    ("😉", "wink"),
    ("😊", "blush"),
    ("😍", "heart_eyes"),
    ("😘", "kissing_heart"),
    ("😎", "sunglasses"),
    ("🤔", "thinking_face"),
    ("😐", "neutral_face"),
    ("🙄", "face_with_rolling_eyes"),
    ("😬", "grimacing"),
    ("😢", "cry"),
    ("😭", "sob"),
    ("😡", "rage"),
    ("😱", "scream"),
    ("🤯", "exploding_head"),
    ("🤖", "robot_face"),
    ("🦀", "crab"),
];

/// The name of an emoji: of a sign, or as Slack writes it, with colons around it or without.
pub(super) fn name(emoji: &str) -> Option<&str> {
    let bare = emoji.trim().trim_end_matches('\u{fe0f}');
    if let Some((_, name)) = NAMES.iter().find(|(sign, _)| *sign == bare) {
        return Some(name);
    }
    let name = bare.strip_prefix(':').and_then(|name| name.strip_suffix(':')).unwrap_or(bare);
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-+'".contains(&byte);
    (!name.is_empty() && name.len() <= 100 && name.bytes().all(is_name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_and_names_are_known() {
        assert_eq!(
            ["👍", "❤️", ":tada:", " eyes ", "🪿", "", "a b", "::", "../x"].map(name),
            [Some("+1"), Some("heart"), Some("tada"), Some("eyes"), None, None, None, None, None]
        );
    }
}
