//! The tools that ship, as a toolbox takes them.

use mimir_testkit::Bundled;

/// The components in the binary.
pub fn builtins() -> Vec<Bundled> {
    let all = mimir_builtins::ALL.iter();
    all.map(|builtin| Bundled {
        name: builtin.name,
        bytes: builtin.bytes,
        sha256: builtin.sha256,
        keeps_backups: builtin.keeps_backups,
        aliases: builtin.aliases,
        description: Some(builtin.description),
    })
    .collect()
}
