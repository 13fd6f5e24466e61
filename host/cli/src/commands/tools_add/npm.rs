//! Components and toolsets in packages of npm.
//!
//! npm downloads the package in the sandbox of commands, from the configured registry only, and checks its integrity.
//! Neither install scripts nor programs of the package run: a toolset is bundled by the user's own bundler.

use std::path::Path;

use mimir_core::grants::SourceRecord;
use mimir_core::text::{prefix, visible};
use mimir_core::{ToolError, ToolErrorCode};
use sha2::{Digest, Sha256};

use super::{FetchedComponent, check_stem, folder};
use crate::commands::tools_build::{self, BuildContext, PluginFolder};
use crate::exit::{CommandFailure, CommandResult};
use crate::output::ResultPrinter;
use mimir::packages::{DownloadedPackage, PackageInstaller};
use mimir::setup::HostSetup;

/// Modules with the tools of a package, in order of preference.
const TOOLSETS: [&str; 2] = ["tools.ts", "tools.js"];

/// Maximum length of a package's name, as npm allows it.
const MAX_NAME: usize = 214;

/// Version that is asked for if a package is named without one.
const LATEST: &str = "latest";

/// A downloaded package.
pub struct NpmPackage {
    name: String,
    /// The version range, tag or exact version that was asked for.
    requested: String,
    downloaded: DownloadedPackage,
}

/// Downloads a package, `NAME` or `NAME@VERSION`, and returns its component.
pub async fn fetch_package(setup: &HostSetup, package: &str) -> CommandResult<FetchedComponent> {
    let package = NpmPackage::download(setup, package).await?;
    package.read_component(setup).await
}

impl NpmPackage {
    /// Downloads a package, `NAME` or `NAME@VERSION`. Progress goes to stderr.
    pub async fn download(setup: &HostSetup, package: &str) -> CommandResult<Self> {
        let (name, requested) = name_and_version(package)?;
        let installer = PackageInstaller::new(setup, false);
        let downloaded = installer.download_npm(package).await?;
        Ok(Self {
            name: name.to_owned(),
            requested: requested.to_owned(),
            downloaded,
        })
    }

    /// Returns the exact version.
    pub fn version(&self) -> &str {
        &self.downloaded.version
    }

    /// Returns the component of the package. If it has a toolset instead, the toolset is built.
    pub async fn read_component(&self, setup: &HostSetup) -> CommandResult<FetchedComponent> {
        let (name, root) = (self.name.as_str(), self.downloaded.path());
        let bytes = match folder::find_component(&root)? {
            Some(path) => folder::read_below(&root, &path)?,
            None => build_toolset(setup, &root, name).await?,
        };
        let stem = name.rsplit('/').next().unwrap_or(name);
        let digest = format!("{:x}", Sha256::digest(&bytes));
        let DownloadedPackage {
            version, integrity, ..
        } = &self.downloaded;
        let mut source = SourceRecord::new(format!("npm:{name}@{version}"), &digest);
        source.version = Some(version.clone());
        source.requested = (self.requested != LATEST).then(|| self.requested.clone());
        let mut fetched = FetchedComponent::new(bytes, check_stem(Some(stem))?).with_source(source);
        let line = format!("npm package {name} {version}, {integrity}");
        fetched.notes.push(visible(&line));
        Ok(fetched)
    }
}

/// Returns what to ask the registry of npm for, to find an update of a component: `NAME@RANGE`. `None` if the component
/// does not come from a package, or if an exact version was asked for.
pub fn update_request(source: &SourceRecord) -> Option<String> {
    let package = source.reference.strip_prefix("npm:")?;
    let (name, version) = name_and_version(package).ok()?;
    let requested = source.requested.as_deref().unwrap_or(LATEST);
    (requested != version).then(|| format!("{name}@{requested}"))
}

/// Builds the toolset of a package, as `mimir tools build` does.
async fn build_toolset(setup: &HostSetup, root: &Path, name: &str) -> CommandResult<Vec<u8>> {
    let toolset = TOOLSETS.iter().map(|file| root.join(file));
    let Some(module) = toolset.into_iter().find(|file| file.is_file()) else {
        let message = format!(
            "the npm package {} has no tools: expected `mimir.component` in package.json, one .wasm file, tools.ts or tools.js",
            visible(name)
        );
        return Err(ToolError::new(ToolErrorCode::FileNotFound, message).into());
    };
    let plugin = PluginFolder::find(&module, None)?;
    let cx = BuildContext::new(setup, ResultPrinter::new(false), false)?;
    let built = tools_build::build(&cx, &plugin).await;
    let built = built.map_err(explain_missing_bundler)?;
    built.print_notes();
    Ok(built.bytes)
}

/// Replaces the advice to install a bundler next to the module, which is in a temporary folder.
fn explain_missing_bundler(failure: CommandFailure) -> CommandFailure {
    let CommandFailure::Reported { mut error, exit } = failure else {
        return failure;
    };
    if error.code == ToolErrorCode::Unavailable && error.message.contains("no bundler was found") {
        error.message = "the tools of the package import other modules, but no bundler was found: put esbuild or rolldown on the PATH".to_owned();
    }
    CommandFailure::Reported { error, exit }
}

/// Returns the name and the version in `NAME` or `NAME@VERSION`. Other forms that npm knows, such as addresses, folders and repositories,
/// are not accepted: they have no integrity in a registry.
fn name_and_version(package: &str) -> CommandResult<(&str, &str)> {
    let at = package.char_indices().skip(1).find(|(_, c)| *c == '@');
    let (name, version) = match at {
        Some((at, _)) => (&package[..at], &package[at + 1..]),
        None => (package, LATEST),
    };
    let is_part = |part: &str| {
        let is_first = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let is_inner = |c: char| is_first(c) || "-._~".contains(c);
        part.starts_with(is_first) && part.chars().all(is_inner)
    };
    let is_name = match name.strip_prefix('@').map(|scoped| scoped.split_once('/')) {
        Some(parts) => parts.is_some_and(|(scope, name)| is_part(scope) && is_part(name)),
        None => is_part(name),
    };
    let is_version = !version.is_empty()
        && version
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || ".-+^~".contains(c));
    if is_name && is_version && name.len() <= MAX_NAME {
        return Ok((name, version));
    }
    Err(CommandFailure::usage(format!(
        "`npm:{}` is not a package: expected npm:NAME, npm:NAME@VERSION or npm:@SCOPE/NAME@VERSION",
        visible(prefix(package, 100))
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn npm_source_names_a_package_of_the_registry() {
        for (package, name) in [
            ("weather", "weather"),
            ("weather@1.2.0", "weather"),
            ("weather@^1.2", "weather"),
            ("@acme/weather", "@acme/weather"),
            ("@acme/weather@next", "@acme/weather"),
        ] {
            assert_eq!(name_and_version(package).unwrap().0, name);
        }
        for bad in [
            "",
            "@",
            "-g",
            "--prefix=/",
            "acme/weather",
            "weather@",
            "weather@file:../x",
            "weather@https://example.com/x.tgz",
            "git+ssh://example.com/x",
            "./weather",
            "../weather",
            "@acme/../weather",
            "Weather",
            "we ather",
            "@acme/weather/more",
            "weather@npm:other",
        ] {
            assert!(name_and_version(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn npm_update_asks_for_the_same_range_as_before() {
        let request = |reference: &str, requested: Option<&str>| {
            let mut source = SourceRecord::new(reference, "ab");
            source.requested = requested.map(str::to_owned);
            update_request(&source)
        };
        for (requested, expected) in [
            (None, Some("@acme/weather@latest")),
            (Some("^1.2"), Some("@acme/weather@^1.2")),
            (Some("1.2.0"), None),
            // A lock file from a checkout.
            (Some("file:../x"), Some("@acme/weather@file:../x")),
        ] {
            let found = request("npm:@acme/weather@1.2.0", requested);
            assert_eq!(found.as_deref(), expected);
        }
        assert!(name_and_version("@acme/weather@file:../x").is_err());
        assert_eq!(request("https://example.com/x.wasm", None), None);
        assert_eq!(request("npm:../x@1.0.0", None), None);
    }
}
