//! Fetches a package that nobody compiles, by its pin manifest, for the compiled code that it carries.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// A package that was fetched.
pub struct Pinned {
    name: &'static str,
    folder: PathBuf,
}

/// The package of the manifest in `folder`.
pub fn package(folder: &Path, name: &'static str) -> Result<Pinned> {
    // Packages for other platforms are not fetched: one is enough, and it is the same file for all.
    package_for(folder, name, &env::var("HOST").context("HOST")?)
}

/// The package that what is built for `target` by the manifest in `folder` needs.
pub fn package_for(folder: &Path, name: &'static str, target: &str) -> Result<Pinned> {
    let manifest = folder.join("Cargo.toml");
    // What was fetched before needs no network.
    let packages =
        metadata(&manifest, target, true).or_else(|_| metadata(&manifest, target, false))?;
    let packages = packages["packages"].as_array();
    let mut packages = packages.context("packages")?.iter();
    let found = packages.find(|package| package["name"] == name);
    let found = found.and_then(|package| package["manifest_path"].as_str());
    let folder = Path::new(found.context(name)?).parent();
    Ok(Pinned {
        name,
        folder: folder.context("its folder")?.to_owned(),
    })
}

impl Pinned {
    /// Where a part of the package is.
    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    /// A file of the package, which the caller looks at: the lock of the manifest names what the registry hands out.
    pub fn read(&self, path: &str) -> Result<Vec<u8>> {
        let file = self.path(path);
        fs::read(&file).with_context(|| format!("reading {}", file.display()))
    }

    /// A file of the package. What was looked at is what is used, whatever the registry hands out.
    pub fn file(&self, path: &str, sha256: &str) -> Result<Vec<u8>> {
        let bytes = self.read(path)?;
        let digest = hex(&Sha256::digest(&bytes));
        if digest != sha256 {
            bail!(
                "{path} of {} has the sha256 {digest}, and not {sha256}",
                self.name
            );
        }
        Ok(bytes)
    }
}

/// A digest as people write it.
pub fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn metadata(manifest: &Path, target: &str, offline: bool) -> Result<Value> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--locked", "--format-version", "1"]);
    command.arg("--manifest-path").arg(manifest);
    command.args(["--filter-platform", target]);
    if offline {
        command.arg("--offline");
    }
    let output = command.output().context("running cargo metadata")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!(
            "what {} names cannot be fetched: {said}",
            manifest.display()
        );
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
