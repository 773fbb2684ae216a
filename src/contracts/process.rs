//! Identifies a process by its pid, its start time and the boot of the machine.

/// Start time of a process, in ticks since boot; `None` if it does not exist.
#[must_use]
pub fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in the second field may contain spaces and parentheses.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    // A zombie has ended, even if its parent has not reaped it.
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    // The state is the third field, the start the twenty-second.
    fields.nth(18)?.parse().ok()
}

/// The id of the current boot; `None` if the system does not tell.
#[must_use]
pub fn boot() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Whether a process is certainly dead: it was from another boot, or its pid is unused or belongs to another process
/// now. Always false where the system does not show processes.
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
