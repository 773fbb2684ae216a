//! Makes the kernel refuse system calls, for tests.

/// Runs a function on a thread on which the kernel refuses every file system call with this error. This simulates what
/// a broken disk, a resource limit or missing permissions do to the function, whatever it calls.
#[expect(clippy::unwrap_used, reason = "only tests call it")]
pub(crate) fn refused<T: Send>(errno: i32, work: impl FnOnce() -> T + Send) -> T {
    const CALLS: [&str; 25] = [
        "openat",
        "openat2",
        "mkdirat",
        "unlinkat",
        "renameat",
        "renameat2",
        "linkat",
        "symlinkat",
        "readlinkat",
        "fstat",
        "newfstatat",
        "statx",
        "getdents64",
        "utimensat",
        "fchmod",
        "fchmodat",
        "fchown",
        "fchownat",
        "fsync",
        "fdatasync",
        "flock",
        "dup3",
        "fallocate",
        "ftruncate",
        "copy_file_range",
    ];
    // Newer architectures have no such calls.
    let older: &[&str] = if cfg!(target_arch = "x86_64") { &["open", "readlink"] } else { &[] };
    let rules: Vec<String> = CALLS.iter().chain(older).map(|call| format!(r#"{{"syscall": "{call}"}}"#)).collect();
    let asked = format!(
        r#"{{"it": {{"mismatch_action": "allow", "match_action": {{"errno": {errno}}}, "filter": [{}]}}}}"#,
        rules.join(",")
    );
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let made = seccompiler::compile_from_json(asked.as_bytes(), arch).unwrap();
    let first = made.get("it").unwrap();
    std::thread::scope(|scope| {
        let refused = scope.spawn(|| {
            seccompiler::apply_filter(first).unwrap();
            work()
        });
        refused.join().unwrap()
    })
}

/// The errors that every function has to report, with the system's texts for them.
pub(crate) fn errors() -> [(i32, &'static str); 5] {
    use rustix::io::Errno;
    [
        (Errno::NOSPC, "No space left on device"),
        (Errno::MFILE, "Too many open files"),
        (Errno::ROFS, "Read-only file system"),
        (Errno::ACCESS, "Permission denied"),
        (Errno::NOENT, "No such file or directory"),
    ]
    .map(|(errno, words)| (errno.raw_os_error(), words))
}
