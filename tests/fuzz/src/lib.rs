//! The laws that the fuzzer checks. They are also compiled into the ordinary tests (`tests/it/fuzz.rs`).

use std::path::Path;
use std::sync::OnceLock;

pub mod laws;

/// The law that this process runs. One of its arguments names the law, as `corpus/wire` and `artifacts/wire/crash-1`
/// name `wire`.
pub fn law() -> laws::Law {
    static CHOSEN: OnceLock<laws::Law> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let arguments: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
        let names = arguments.iter().flat_map(|path| Path::new(path).iter().rev());
        let mut named = names.filter_map(|name| laws::LAWS.iter().find(|(law, _)| name == *law));
        named.next().expect("an argument names a law: corpus/LAW").1
    })
}
