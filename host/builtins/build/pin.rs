//! Fetches packages pinned by a manifest, for files that they contain. The packages themselves are never compiled.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// A fetched package.
pub struct PinnedPackage {
    name: &'static str,
    folder: PathBuf,
}

/// Fetches the package `name` that the manifest in `folder` pins.
pub fn package(folder: &Path, name: &'static str) -> Result<PinnedPackage> {
    // Packages for other platforms are not fetched: one is enough, and its file is the same for all.
    package_for(folder, name, &env::var("HOST").context("HOST")?)
}

/// Fetches the package `name` that a build of the manifest in `folder` for `target` needs.
pub fn package_for(folder: &Path, name: &'static str, target: &str) -> Result<PinnedPackage> {
    let manifest = folder.join("Cargo.toml");
    // Try offline first: a package that was fetched before needs no network.
    let packages =
        metadata(&manifest, target, true).or_else(|_| metadata(&manifest, target, false))?;
    let packages = packages["packages"].as_array();
    let mut packages = packages.context("packages")?.iter();
    let found = packages.find(|package| package["name"] == name);
    let found = found.and_then(|package| package["manifest_path"].as_str());
    let folder = Path::new(found.context(name)?).parent();
    Ok(PinnedPackage {
        name,
        folder: folder.context("its folder")?.to_owned(),
    })
}

impl PinnedPackage {
    /// Returns the path of a part of the package.
    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    /// Reads a file of the package without verifying it. The lock file pins the version of the package, but the caller
    /// should verify the content.
    pub fn read(&self, path: &str) -> Result<Vec<u8>> {
        let file = self.path(path);
        fs::read(&file).with_context(|| format!("reading {}", file.display()))
    }

    /// Reads a file of the package and verifies its hash, so that only reviewed content is used, whatever the registry
    /// returns.
    pub fn file(&self, path: &str, sha256: &str) -> Result<Vec<u8>> {
        let bytes = self.read(path)?;
        let digest = hex(&Sha256::digest(&bytes));
        if digest != sha256 {
            bail!(
                "{path} of {} has the sha256 {digest}, expected {sha256}",
                self.name
            );
        }
        Ok(bytes)
    }
}

/// Returns a digest in hex.
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
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!(
            "cannot fetch the packages of {}: {stderr}",
            manifest.display()
        );
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
