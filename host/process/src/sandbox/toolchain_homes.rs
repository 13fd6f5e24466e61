//! Folders of toolchains, for sandboxes in which the home is another folder.

use std::path::{Path, PathBuf};

/// Returns the toolchains in a home, keyed by the variable for their location, and their readable settings files. Cargo
/// fails if it cannot read its settings, so `CARGO_HOME` is omitted if they contain a credential.
pub(super) fn toolchains(home: &Path) -> (Vec<(&'static str, PathBuf)>, Vec<PathBuf>) {
    let mut homes = Vec::new();
    let mut settings = Vec::new();
    for (name, below) in [
        ("CARGO_HOME", ".cargo"),
        ("NVM_DIR", ".nvm"),
        ("PYENV_ROOT", ".pyenv"),
        ("RUSTUP_HOME", ".rustup"),
        ("VOLTA_HOME", ".volta"),
    ] {
        let folder = home.join(below);
        if !folder.is_dir() {
            continue;
        }
        if name == "CARGO_HOME" {
            let file = folder.join("config.toml");
            match std::fs::read_to_string(&file) {
                Ok(text) if text.contains("token") => continue,
                Ok(_) => settings.push(file),
                Err(_) => {}
            }
        }
        homes.push((name, folder));
    }
    (homes, settings)
}
