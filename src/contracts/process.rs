//! Whether a process is the one that somebody spoke of: its number, when it started, and in which boot.

/// When a process started, in ticks since the machine did; none if there is no such process.
#[must_use]
pub fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in the second field may have blanks and brackets of its own.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    // A zombie has ended, whoever has not looked yet.
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    // The state is the third field, the start the twenty-second.
    fields.nth(18)?.parse().ok()
}

/// The boot of this machine; none where nobody says.
#[must_use]
pub fn boot() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Whether a process is dead beyond doubt: it was of another boot, or its number is of nobody or of somebody else by now.
/// Where processes cannot be looked at, nobody is.
#[must_use]
pub fn is_dead(pid: u32, began: u64, in_boot: &str) -> bool {
    let Some(now) = boot() else { return false };
    now != in_boot || started(pid) != Some(began)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_others_of_its_number_do_not() {
        let own = std::process::id();
        let (began, boot) = (started(own).unwrap(), boot().unwrap());
        assert!(!is_dead(own, began, &boot));
        assert!(is_dead(own, began + 1, &boot));
        assert!(is_dead(own, began, "another"));
        assert!(is_dead(u32::MAX, began, &boot));
    }
}
