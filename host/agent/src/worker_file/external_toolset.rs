//! `toolsets.external`: tools of an npm package.

use mimir_core::config::ApprovalDefaults;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::check_approvals;

/// `toolsets.external`
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExternalToolset {
    /// npm package in `node_modules` of the workspace, such as `@scope/name` or, for one version only,
    /// `@scope/name@1.2.3`.
    pub package: String,
    /// Export of the package: a tool, a list of tools, or an object with tools.
    pub import: String,
    /// Tools of the export that the worker may call. Default: all.
    #[serde(default)]
    pub tools: Option<Vec<String>>,
    /// Prefix of the tools' names, such as `kit_`, if other tools have the same names.
    #[serde(default)]
    pub prefix: String,
    /// Rights that the tools need, as `needs` of a TypeScript tool. You grant them with `mimir tools trust`.
    #[serde(default)]
    pub needs: Option<Value>,
    /// Decisions for calls of these tools.
    #[serde(default)]
    pub approval: ApprovalDefaults,
}

/// Maximum length of a package name, as in the registry of npm.
const MAX_NAME_LENGTH: usize = 214;

/// Maximum length of a prefix, half of that of a tool's name.
const MAX_PREFIX_LENGTH: usize = 32;

impl ExternalToolset {
    /// Returns the name of the package, and the version if it is set.
    pub fn name_and_version(&self) -> (&str, Option<&str>) {
        match self.package.rfind('@') {
            None | Some(0) => (&self.package, None),
            Some(at) => (&self.package[..at], self.package.get(at + 1..)),
        }
    }

    /// Describes the toolset for display.
    pub(super) fn summary(&self) -> String {
        let tools = match &self.tools {
            Some(tools) => tools.join(", "),
            None => "all tools".to_owned(),
        };
        format!("{tools} of {} in the package {}", self.import, self.package)
    }

    /// Checks the values. The error is the invalid key and the reason.
    pub(super) fn check(&self) -> Result<(), (String, String)> {
        let invalid = |key: &str, why: &str| {
            let key = format!("toolsets.external.{key}");
            Err((key, why.to_owned()))
        };
        let (name, version) = self.name_and_version();
        let (scope, rest) = match name.strip_prefix('@') {
            Some(scoped) => scoped.split_once('/').unwrap_or(("", "")),
            None => ("scope", name),
        };
        if name.len() > MAX_NAME_LENGTH || !is_name_part(scope) || !is_name_part(rest) {
            return invalid(
                "package",
                "the package is not valid: expected the name of an npm package, such as `@scope/name`",
            );
        }
        if version.is_some_and(|version| !is_exact_version(version)) {
            return invalid(
                "package",
                "the version is not valid: expected an exact version, such as `1.2.3`",
            );
        }
        if !is_identifier(&self.import) {
            return invalid(
                "import",
                "`import` is not valid: expected the name of an export",
            );
        }
        let is_prefix_byte =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if self.prefix.len() > MAX_PREFIX_LENGTH || !self.prefix.bytes().all(is_prefix_byte) {
            return invalid(
                "prefix",
                "`prefix` is not valid: use at most 32 characters of a-z, 0-9 and _",
            );
        }
        match &self.tools {
            None => Ok(()),
            Some(tools) if tools.is_empty() => invalid(
                "tools",
                "`tools` is empty: list the worker's tools, or remove the key",
            ),
            Some(tools) => check_approvals("toolsets.external", tools, &self.approval),
        }
    }
}

/// Returns true for a part of a package name. It must not be a path.
fn is_name_part(part: &str) -> bool {
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    !part.is_empty() && !part.starts_with('.') && part.bytes().all(is_name_byte)
}

fn is_exact_version(version: &str) -> bool {
    let core_end = version.find(['-', '+']).unwrap_or(version.len());
    let (core, suffix) = version.split_at(core_end);
    let numbers: Vec<&str> = core.split('.').collect();
    let is_number =
        |number: &&str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let is_suffix_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-+.".contains(&byte);
    numbers.len() == 3 && numbers.iter().all(is_number) && suffix.bytes().all(is_suffix_byte)
}

fn is_identifier(name: &str) -> bool {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_' || c == '$';
    name.starts_with(is_start) && name.chars().all(|c| is_start(c) || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(package: &str, import: &str) -> Result<(), (String, String)> {
        let toolset = json!({ "package": package, "import": import });
        let toolset: ExternalToolset = serde_json::from_value(toolset).unwrap();
        toolset.check()
    }

    #[test]
    fn external_package_is_a_name_with_an_exact_version() {
        for package in ["a", "@s/a", "@s/a@1.2.3", "a.b@1.0.0-rc.1", "a_b~c"] {
            assert_eq!(check(package, "tools"), Ok(()), "{package}");
        }
        for package in [
            "", "@", "@s", "@s/", "@/a", "../a", "@../a", "@s/..", "a/b", "a@^1", "a@1", "a@",
            "a@1.2.x", "@s/a/b",
        ] {
            let (key, _) = check(package, "tools").unwrap_err();
            assert_eq!(key, "toolsets.external.package", "{package}");
        }
    }

    #[test]
    fn external_import_is_an_identifier() {
        for import in ["", "a b", "a.b", "1a", "a\"", "*"] {
            let (key, _) = check("a", import).unwrap_err();
            assert_eq!(key, "toolsets.external.import", "{import}");
        }
    }
}
