//! The SDKs that are embedded in this binary. They are written to the user's cache, so that plugins can be built against
//! them: they are in no package registry, and the embedded copy matches the host exactly.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mimir_core::files::{LinkPolicy, read_text, reject_links};
use mimir_core::{ToolError, ToolErrorCode};
use serde_json::Value;
use sha2::{Digest, Sha256};

use mimir::file_error::{file_error, write_atomically};

mod files {
    include!(concat!(env!("OUT_DIR"), "/sdk_files.rs"));
}

/// Compilation target of plugins.
pub const TARGET: &str = "wasm32-wasip2";

/// Path of the crate below the root of the layout. The WIT contract is where the crate expects it.
const CRATE: &str = "sdk/rust";

/// Part of the paths of templates for new plugins, which no build reads.
const TEMPLATES: &str = "/templates/";

/// Size limit of `.cargo/config.toml`.
const MAX_CONFIG_SIZE: u64 = 1 << 20;

/// Location of the written SDKs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SdkLayout {
    /// Folder of all SDKs and the contract.
    pub root: PathBuf,
    /// Folder of the crate for Rust.
    pub package: PathBuf,
}

impl SdkLayout {
    /// Returns the folder of an SDK by its name below `sdk`, such as `go`.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.root.join("sdk").join(name)
    }
}

/// Returns the text of an embedded file, by its path below the root of the source tree.
pub fn embedded_text(path: &str) -> Option<&'static str> {
    let mut files = files::FILES.iter();
    let (_, content) = files.find(|(name, _)| *name == path)?;
    std::str::from_utf8(content).ok()
}

/// Writes the SDKs into the cache folder, unless it is already there and unchanged.
pub fn lay_out(cache: Option<&Path>) -> Result<SdkLayout, ToolError> {
    let Some(cache) = cache else {
        return Err(ToolError::unavailable(
            "cannot write the SDK: this system has no cache folder; set MIMIR_CACHE_DIR to a folder",
        ));
    };
    let root = cache.join("sdk").join(version());
    make_private(cache).map_err(|e| file_error("create", cache, &e))?;
    for (name, content) in files::FILES {
        if name.contains(TEMPLATES) {
            continue;
        }
        let path = root.join(name);
        // Files that are missing or were modified are written again.
        if fs::read(&path).is_ok_and(|existing| existing == *content) {
            continue;
        }
        write_atomically(&path, content).map_err(|e| file_error("write", &path, &e))?;
    }
    Ok(SdkLayout {
        package: root.join(CRATE),
        root,
    })
}

/// Writes a `.cargo/config.toml` into the plugin's folder `dir`, so that cargo and editors find the SDK. The file is
/// valid on this machine only. A file that mimir did not write is left unchanged; returns false in this case. Fails if
/// the file or its folder is a link, which could lead out of the folder of the plugin.
pub fn point_to(dir: &Path, sdk: &SdkLayout) -> Result<bool, ToolError> {
    const MARK: &str = "# Written by mimir, for this machine only.";
    let path = dir.join(".cargo/config.toml");
    reject_links(dir, &path).map_err(|e| file_error("write", &path, &e))?;
    match read_text(&path, LinkPolicy::Refuse, MAX_CONFIG_SIZE) {
        Ok(text) if !text.starts_with(MARK) => return Ok(false),
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(file_error("read", &path, &e)),
    }
    let Some(sdk) = sdk.package.to_str() else {
        let message = "the cache folder's path is not Unicode, which Cargo cannot read; set MIMIR_CACHE_DIR to another one";
        return Err(ToolError::new(ToolErrorCode::InvalidPath, message));
    };
    // A JSON string is also a valid TOML string.
    let sdk = Value::from(sdk);
    let text = format!("{MARK}\n[patch.crates-io]\nmimir-sdk = {{ path = {sdk} }}\n");
    write_atomically(&path, text.as_bytes()).map_err(|e| file_error("write", &path, &e))?;
    Ok(true)
}

/// Returns a hash of the SDK's content, so that each version has its own folder.
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

/// Creates the cache folder for this user only: it contains code that will run, so no other user may write there.
fn make_private(folder: &Path) -> io::Result<()> {
    mimir_core::platform::create_private_folder(folder, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sdk_layout_writes_crate_and_wit_and_repairs_them() {
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
            "the modified file was not repaired"
        );
        assert!(lay_out(None).is_err());
    }

    #[test]
    fn sdk_pointer_does_not_overwrite_a_foreign_cargo_config() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".cargo/config.toml");
        let layout = |place: &str| SdkLayout {
            root: PathBuf::new(),
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
        assert!(!point_to(dir.path(), &layout("/d")).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "[build]\n");
    }

    #[cfg(unix)]
    #[test]
    fn sdk_pointer_is_not_written_through_a_link() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let layout = SdkLayout {
            root: PathBuf::new(),
            package: "/a".into(),
        };
        let folder = dir.path().join(".cargo");
        std::os::unix::fs::symlink(outside.path(), &folder).unwrap();
        assert!(point_to(dir.path(), &layout).is_err());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
        fs::remove_file(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        let target = outside.path().join("new.toml");
        std::os::unix::fs::symlink(&target, folder.join("config.toml")).unwrap();
        assert!(point_to(dir.path(), &layout).is_err());
        assert!(!target.exists());
    }
}
