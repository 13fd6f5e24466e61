//! npm and PyPI packages of servers, pinned to one build.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A pinned package, as written by `mimir mcp add`.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct McpPackage {
    /// The registry, with the address that npm or pip is configured with.
    pub registry: PackageRegistry,
    /// The name of the package in the registry.
    pub name: String,
    /// The exact version.
    pub version: String,
    /// The digest of the downloaded package: `sha512-…` in base64 for npm, `sha256-…` in hex for PyPI. Another build
    /// is not installed.
    pub integrity: String,
    /// The digest of all installed packages, as `sha256-…` in hex: the dependencies, each with its version and digest.
    /// Others are not installed before `mimir mcp trust` has accepted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<String>,
    /// The program to start, one of the package's programs.
    pub program: String,
    /// Additional packages, as named by `uvx --with` or `npx -p`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<String>,
    /// Lets the package and its dependencies run install scripts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub install_scripts: bool,
}

/// A package registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PackageRegistry {
    /// npm, for Node.js packages.
    Npm,
    /// PyPI, for Python packages.
    Pypi,
}

impl PackageRegistry {
    /// Returns the spelling in the settings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pypi => "pypi",
        }
    }
}

impl fmt::Display for McpPackage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}@{}",
            self.registry.as_str(),
            self.name,
            self.version
        )
    }
}

/// Grants identify a server by this text. Without `dependencies`, it equals the text of older versions, so that their
/// grants remain valid.
impl fmt::Debug for McpPackage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("McpPackage");
        fields
            .field("registry", &self.registry)
            .field("name", &self.name)
            .field("version", &self.version)
            .field("integrity", &self.integrity)
            .field("program", &self.program)
            .field("with", &self.with)
            .field("install_scripts", &self.install_scripts);
        if let Some(dependencies) = &self.dependencies {
            fields.field("dependencies", dependencies);
        }
        fields.finish()
    }
}

/// Maximum length of a name, a version or a digest, in characters.
const TEXT_MAX: usize = 214;

impl McpPackage {
    /// Checks the fields, which become folder names and command-line arguments. Returns the fault, if any.
    pub(super) fn fault(&self) -> Option<String> {
        let is_valid = |text: &str, more: &str| {
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
            !text.is_empty()
                && text.len() <= TEXT_MAX
                && text.chars().all(is_allowed)
                && !text.starts_with(['-', '.'])
                && !text.contains("..")
        };
        let is_name_valid = match self.name.strip_prefix('@') {
            Some(scoped) => {
                let parts = scoped.split_once('/');
                parts.is_some_and(|(scope, name)| is_valid(scope, "-_.~") && is_valid(name, "-_.~"))
            }
            None => is_valid(&self.name, "-_.~"),
        };
        let fault = |key: &str, expected: &str| Some(format!("`package.{key}` is not {expected}"));
        match self {
            _ if !is_name_valid => fault("name", "the name of a package"),
            _ if !is_valid(&self.version, "-_.+!") => fault("version", "an exact version"),
            _ if !is_valid(&self.integrity, "-+/=") => {
                fault("integrity", "a digest such as `sha512-…`")
            }
            _ if !self
                .dependencies
                .as_deref()
                .is_none_or(|digest| is_valid(digest, "-")) =>
            {
                fault("dependencies", "a digest such as `sha256-…`")
            }
            _ if !is_valid(&self.program, "-_.") => fault("program", "the name of a program"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_without_dependencies_has_the_identity_of_older_versions() {
        let mut package = McpPackage {
            registry: PackageRegistry::Npm,
            name: "a".to_owned(),
            version: "1".to_owned(),
            integrity: "sha512-x".to_owned(),
            dependencies: None,
            program: "a".to_owned(),
            with: Vec::new(),
            install_scripts: false,
        };
        let before = r#"McpPackage { registry: Npm, name: "a", version: "1", integrity: "sha512-x", program: "a", with: [], install_scripts: false }"#;
        assert_eq!(format!("{package:?}"), before);
        package.dependencies = Some("sha256-00".to_owned());
        assert_ne!(format!("{package:?}"), before);
        assert_eq!(package.fault(), None);
        package.dependencies = Some("sha256 x".to_owned());
        assert!(package.fault().is_some());
    }
}
