//! Proofs from an import list: a component cannot do anything that it does not import.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::interface::InterfaceName;

/// A capability that a component provably lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Proof {
    /// The component cannot use the network.
    NoNetwork,
    /// The component cannot run programs on the host.
    NoCommands,
    /// The component cannot see or change files.
    NoFiles,
    /// The component cannot call other tools.
    NoTools,
    /// The component cannot query a language model.
    NoModel,
    /// A call leaves no data for a later one.
    NoMemory,
}

impl Proof {
    /// Every proof, in display order.
    pub const ALL: [Proof; 6] = [
        Proof::NoNetwork,
        Proof::NoCommands,
        Proof::NoFiles,
        Proof::NoTools,
        Proof::NoModel,
        Proof::NoMemory,
    ];

    /// Returns the proof as the end of a sentence that begins with the tool's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Proof::NoNetwork => "cannot reach the network",
            Proof::NoCommands => "cannot run commands",
            Proof::NoFiles => "cannot read or write files",
            Proof::NoTools => "cannot call other tools",
            Proof::NoModel => "cannot ask a model",
            Proof::NoMemory => "keeps nothing between calls",
        }
    }

    /// Returns the import capabilities that rule out the proof, directly or indirectly: a command can do anything that
    /// a program can, and another tool anything that it was granted.
    const fn broken_by(self) -> &'static [ImportPower] {
        use ImportPower::{Commands, Files, Model, Network, Storage, Tools};
        match self {
            Proof::NoNetwork => &[Network, Commands, Tools, Model],
            Proof::NoCommands => &[Commands, Tools],
            Proof::NoFiles => &[Files, Commands, Tools],
            Proof::NoTools => &[Tools, Commands],
            Proof::NoModel => &[Model, Network, Commands, Tools],
            Proof::NoMemory => &[Storage, Files, Network, Commands, Tools, Model],
        }
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The capability that an import gives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ImportPower {
    Network,
    Commands,
    Files,
    Tools,
    Model,
    Storage,
    /// Nothing beyond computing, clocks, random numbers, captured output and the environment.
    Nothing,
    /// A name that this host does not know; it rules out every proof.
    Unknown,
}

fn import_power(import: &str) -> ImportPower {
    let Some(interface) = InterfaceName::parse(import) else {
        return ImportPower::Unknown;
    };
    match (interface.package, interface.name) {
        // The types alone send no request.
        ("wasi:http", "types") => ImportPower::Nothing,
        ("wasi:sockets" | "wasi:http", _) => ImportPower::Network,
        ("wasi:filesystem", _) => ImportPower::Files,
        (
            "wasi:cli" | "wasi:clocks" | "wasi:config" | "wasi:io" | "wasi:logging" | "wasi:random",
            _,
        ) => ImportPower::Nothing,
        ("wasi:keyvalue", _) => ImportPower::Storage,
        ("mimir:tool", "types" | "log" | "progress") => ImportPower::Nothing,
        ("mimir:tool", "commands") => ImportPower::Commands,
        ("mimir:tool", "tools") => ImportPower::Tools,
        ("mimir:tool", "model") => ImportPower::Model,
        ("mimir:tool", "storage") => ImportPower::Storage,
        _ => ImportPower::Unknown,
    }
}

/// Returns the proofs that follow from the imports of a component (those of
/// [`DetectedComponent`](super::DetectedComponent)) alone.
///
/// Nearly every component that links a standard library imports `wasi:filesystem`. Without a preopened directory it
/// gives access to no file, but that depends on the host, so the import rules out [`Proof::NoFiles`].
pub fn proofs(imports: &[String]) -> Vec<Proof> {
    let powers: Vec<ImportPower> = imports.iter().map(|import| import_power(import)).collect();
    Proof::ALL
        .into_iter()
        .filter(|proof| {
            powers
                .iter()
                .all(|power| *power != ImportPower::Unknown && !proof.broken_by().contains(power))
        })
        .collect()
}

/// Returns true if the imports allow nothing beyond computing, clocks, random numbers, logging, progress and captured
/// streams, *provided that no directory is preopened*: `wasi:filesystem` counts as harmless here, since no file can be
/// opened without a preopened directory.
pub fn is_pure(imports: &[String]) -> bool {
    imports.iter().all(|import| {
        matches!(
            import_power(import),
            ImportPower::Nothing | ImportPower::Files
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn proofs_without_imports_are_complete() {
        assert_eq!(proofs(&[]), Proof::ALL);
        assert!(is_pure(&[]));
        let quiet = list(&[
            "wasi:clocks/wall-clock@0.2.6",
            "mimir:tool/log@1.0.0",
            "wasi:cli/environment@0.2.6",
        ]);
        assert_eq!(proofs(&quiet), Proof::ALL);
        assert!(is_pure(&quiet));
    }

    #[test]
    fn proofs_are_ruled_out_by_imports() {
        let files = list(&["wasi:filesystem/types@0.2.6"]);
        assert!(is_pure(&files), "no preopen, no file");
        assert!(!proofs(&files).contains(&Proof::NoFiles));
        assert!(!proofs(&files).contains(&Proof::NoMemory));
        assert!(proofs(&files).contains(&Proof::NoNetwork));

        let web = list(&["wasi:http/outgoing-handler@0.2.6"]);
        assert!(!is_pure(&web));
        assert!(!proofs(&web).contains(&Proof::NoNetwork));
        assert!(proofs(&web).contains(&Proof::NoFiles));

        // A tool that can call others can do everything that they can.
        assert_eq!(
            proofs(&list(&["mimir:tool/tools@1.0.0"])),
            [Proof::NoModel; 0]
        );
        assert_eq!(
            proofs(&list(&["mimir:tool/commands@1.0.0"])),
            [Proof::NoModel; 0]
        );
        let storage = proofs(&list(&["mimir:tool/storage@1.0.0"]));
        assert!(!storage.contains(&Proof::NoMemory) && storage.len() == 5);
    }

    #[test]
    fn proofs_are_ruled_out_by_unknown_imports() {
        assert!(proofs(&list(&["else:where/x"])).is_empty());
        assert!(!is_pure(&list(&["log"])));
    }
}
