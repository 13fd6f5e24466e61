//! The Rust SDK as it is in this binary, laid out in the user's cache so that plugins can be built
//! against it. It is on no registry, and this one fits this host exactly.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use mimir_core::files::{Links, read_text};
use mimir_core::{Code, ToolError};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::exit::file_error;

mod files {
    include!(concat!(env!("OUT_DIR"), "/sdk_files.rs"));
}

/// What plugins are compiled for.
pub const TARGET: &str = "wasm32-wasip2";

/// Where the crate is below a layout's root; the contract is beside it, where the crate expects it.
const CRATE: &str = "sdk/rust";

/// A longer `.cargo/config.toml` is none.
const CONFIG_LONGEST: u64 = 1 << 20;

/// Where the SDK is on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The crate.
    pub package: PathBuf,
}

/// Lays the SDK out below the cache folder, unless it is there already.
pub fn lay_out(cache: Option<&Path>) -> Result<Layout, ToolError> {
    let Some(cache) = cache else {
        let message = "there is no cache folder to put the SDK into; set MIMIR_CACHE_DIR to a folder of yours";
        return Err(ToolError::new(Code::Unavailable, message));
    };
    let root = cache.join("sdk").join(version());
    make_private(cache).map_err(|e| file_error("make", cache, &e))?;
    for (name, content) in files::FILES {
        let path = root.join(name);
        // A layout that was broken off, or changed since, is mended.
        if fs::read(&path).is_ok_and(|there| there == *content) {
            continue;
        }
        put(&path, content).map_err(|e| file_error("write", &path, &e))?;
    }
    Ok(Layout {
        package: root.join(CRATE),
    })
}

/// Writes the plugin's `.cargo/config.toml`, which holds for this machine only. A config that somebody
/// else wrote there stays as it is. With it cargo alone, and with it an editor, can check and test the plugin.
pub fn point_to(dir: &Path, sdk: &Layout) -> Result<(), ToolError> {
    const MARK: &str = "# Written by mimir, for this machine only.";
    let path = dir.join(".cargo/config.toml");
    match read_text(&path, Links::Followed, CONFIG_LONGEST) {
        Ok(text) if !text.starts_with(MARK) => return Ok(()),
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(file_error("read", &path, &e)),
    }
    let Some(sdk) = sdk.package.to_str() else {
        let message = "the cache folder's path is not Unicode, which Cargo cannot read; set MIMIR_CACHE_DIR to another one";
        return Err(ToolError::new(Code::InvalidPath, message));
    };
    // A JSON string is a TOML string.
    let sdk = Value::from(sdk);
    let text = format!("{MARK}\n[patch.crates-io]\nmimir-sdk = {{ path = {sdk} }}\n");
    put(&path, text.as_bytes()).map_err(|e| file_error("write", &path, &e))
}

/// Names the content: another SDK is another folder.
fn version() -> String {
    let mut hash = Sha256::new();
    for (name, content) in files::FILES {
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name.as_bytes());
        hash.update((content.len() as u64).to_le_bytes());
        hash.update(content);
    }
    hash.finalize()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A file that is there whole or not at all.
pub fn put(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new()
        .prefix(".mimir-")
        .suffix(".tmp")
        .tempfile_in(folder)?;
    file.write_all(content)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        file.as_file()
            .set_permissions(fs::Permissions::from_mode(0o644))?;
    }
    file.persist(path)?;
    Ok(())
}

/// The cache holds code that will run: nobody else may write there.
fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crate_and_its_contract_are_there() {
        let dir = tempfile::tempdir().unwrap();
        let layout = lay_out(Some(&dir.path().join("new"))).unwrap();
        let sdk = &layout.package;
        assert!(sdk.join("Cargo.toml").is_file() && sdk.join("src/lib.rs").is_file());
        let contract = sdk.join("../../wit/tool.wit");
        assert!(
            fs::read_to_string(&contract)
                .unwrap()
                .contains("package mimir:tool@")
        );
        fs::write(&contract, "changed").unwrap();
        assert_eq!(lay_out(Some(&dir.path().join("new"))).unwrap(), layout);
        assert!(
            fs::read_to_string(&contract)
                .unwrap()
                .contains("package mimir:tool@"),
            "it is mended"
        );
        assert!(lay_out(None).is_err());
    }

    #[test]
    fn a_config_of_somebody_else_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".cargo/config.toml");
        let layout = |place: &str| Layout {
            package: place.into(),
        };
        point_to(dir.path(), &layout("/a \"b\"")).unwrap();
        assert!(
            fs::read_to_string(&path)
                .unwrap()
                .contains(r#"path = "/a \"b\"""#)
        );
        point_to(dir.path(), &layout("/c")).unwrap();
        assert!(fs::read_to_string(&path).unwrap().contains("path = \"/c\""));
        fs::write(&path, "[build]\n").unwrap();
        point_to(dir.path(), &layout("/d")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "[build]\n");
    }
}
