//! Checks from its ELF header whether a program can be the runner of an image.

use std::fmt;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// `p_type` of the program header that names a dynamic linker.
const INTERPRETER: u32 = 3;

/// Processors that agent images exist for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// 64-bit x86.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

impl Machine {
    /// By the name that Podman has for it.
    #[must_use]
    pub fn of_podman(arch: &str) -> Option<Self> {
        match arch {
            "amd64" => Some(Self::X86_64),
            "arm64" => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// By `e_machine` of an ELF header.
    const fn of_elf(number: u16) -> Option<Self> {
        match number {
            62 => Some(Self::X86_64),
            183 => Some(Self::Aarch64),
            _ => None,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        })
    }
}

/// Why a file cannot be the runner of an image.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The file is not a program for Linux.
    #[error("it is not a program for 64-bit Linux")]
    NoProgram,
    /// It is for another processor.
    #[error("it is made for {}, and the containers run on {wanted}", found.map_or("another processor".to_owned(), |it| it.to_string()))]
    Machine {
        /// The processor it was built for.
        found: Option<Machine>,
        /// The processor that Podman runs on.
        wanted: Machine,
    },
    /// It needs libraries.
    #[error(
        "it is linked dynamically and needs libraries that an image may lack; make a static one with `cargo runner`"
    )]
    Dynamic,
}

/// Examines a file.
///
/// # Errors
///
/// [`Problem`] says why it cannot be the runner.
pub fn check(path: &Path, wanted: Machine) -> Result<(), Problem> {
    let mut file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(Problem::NoProgram);
    }
    let mut header = [0; 64];
    file.read_exact(&mut header).map_err(|_| Problem::NoProgram)?;
    // 64 bits, little-endian.
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return Err(Problem::NoProgram);
    }
    let number = |at: usize, length: usize| number(&header, at, length).ok_or(Problem::NoProgram);
    let found = u16::try_from(number(18, 2)?).ok().and_then(Machine::of_elf);
    if found != Some(wanted) {
        return Err(Problem::Machine { found, wanted });
    }
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    if size < 4 {
        return Err(Problem::NoProgram);
    }
    file.seek(SeekFrom::Start(table))?;
    let mut entries = Vec::new();
    file.take(size * count).read_to_end(&mut entries)?;
    let kinds = entries.chunks_exact(usize::try_from(size).unwrap_or(4)).filter_map(|entry| self::number(entry, 0, 4));
    if kinds.into_iter().any(|kind| kind == u64::from(INTERPRETER)) { Err(Problem::Dynamic) } else { Ok(()) }
}

/// A little-endian number.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    const HERE: (Machine, Machine) = (Machine::X86_64, Machine::Aarch64);
    #[cfg(all(target_os = "linux", target_arch = "aarch64"))]
    const HERE: (Machine, Machine) = (Machine::Aarch64, Machine::X86_64);

    #[test]
    fn only_static_programs_of_the_right_kind_are_runners() {
        let (own, other) = HERE;
        let this = std::env::current_exe().unwrap();
        assert!(matches!(check(&this, own), Err(Problem::Dynamic)), "tests are linked dynamically");
        assert!(matches!(check(&this, other), Err(Problem::Machine { found: Some(found), .. }) if found == own));

        // The same program, without the name of its dynamic linker.
        let mut program = std::fs::read(&this).unwrap();
        let at = usize::try_from(number(&program, 32, 8).unwrap()).unwrap();
        let size = usize::try_from(number(&program, 54, 2).unwrap()).unwrap();
        let count = usize::try_from(number(&program, 56, 2).unwrap()).unwrap();
        for entry in program[at..at + size * count].chunks_exact_mut(size) {
            if entry[0] == 3 {
                entry[0] = 4;
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("runner");
        std::fs::write(&path, &program).unwrap();
        check(&path, own).unwrap();

        for bytes in [&b"#!/bin/sh\n"[..], b"", &program[..40]] {
            std::fs::write(&path, bytes).unwrap();
            assert!(matches!(check(&path, own), Err(Problem::NoProgram)));
        }
        assert!(matches!(check(dir.path(), own), Err(Problem::NoProgram)));
        assert!(matches!(check(&dir.path().join("none"), own), Err(Problem::Io(_))));
    }
}
