//! The component to export, with the facts that the manifests of all formats contain.

use std::collections::BTreeSet;
use std::sync::Arc;

use mimir_core::files::{self, LinkPolicy};
use mimir_core::needs::{Needs, SecretNeed};
use mimir_core::text::visible;
use mimir_core::{Tool, ToolError, ToolErrorCode};
use mimir_registry::wasm_artifact::ComponentFacts;
use sha2::{Digest, Sha256};

use super::super::local_components::LocalComponent;
use super::super::tools_add::MAX_COMPONENT_SIZE;
use super::super::tools_push::component_facts;
use crate::args::ToolsExportArgs;
use crate::exit::CommandResult;
use mimir::file_error::file_error;
use mimir::setup::HostSetup;
use mimir::team_authoring::InspectedPlugin;

/// Version in manifests if the plugin does not have one of the form X.Y.Z.
const NO_VERSION: &str = "0.0.0";

/// Author in manifests that require one, if neither the user nor the component names one.
const NO_AUTHOR: &str = "unknown";

/// A component of `.mimir/tools`.
pub struct ExportedPlugin {
    /// Name in manifests: lower-case letters, digits and single hyphens.
    pub name: String,
    /// Name of the component's file.
    pub file_name: String,
    /// The component.
    pub component: Vec<u8>,
    /// SHA-256 of the component in lower-case hex.
    pub digest: String,
    /// Version of the form X.Y.Z.
    pub version: String,
    /// One line about the plugin.
    pub summary: String,
    /// Its tools.
    pub tools: Vec<Arc<Tool>>,
    /// Facts for registries, as `mimir tools push` collects them.
    pub facts: ComponentFacts,
    author: Option<String>,
}

impl ExportedPlugin {
    /// Finds the plugin that the arguments name, and reads its file.
    pub async fn find(setup: &HostSetup, args: &ToolsExportArgs) -> CommandResult<Self> {
        let LocalComponent {
            path, mut tools, ..
        } = LocalComponent::find(setup, &args.name).await?;
        let file_name = path.file_name().and_then(|name| name.to_str());
        let file_name = file_name.unwrap_or_default();
        let stem = file_name.strip_suffix(".wasm").unwrap_or(file_name);
        // The manifests repeat the descriptions.
        if let Some(tool) = tools.first() {
            setup.verify_description(tool).await?;
        }
        let component = files::read(&path, LinkPolicy::Follow, MAX_COMPONENT_SIZE)
            .map_err(|error| file_error("read", &path, &error))?;
        let digest = format!("{:x}", Sha256::digest(&component));
        if tools.is_empty() {
            // A team may keep it from being loaded.
            let (bytes, needs) = (component.clone(), Needs::default());
            let inspected = InspectedPlugin::inspect(setup, file_name, bytes, &needs);
            tools = inspected.await?.tools;
        }
        if tools.iter().any(|tool| tool.origin.digest != digest) {
            let message = format!(
                "{} changed during the export; try again",
                visible(file_name)
            );
            return Err(ToolError::unavailable(message).into());
        }
        let name = manifest_name(stem);
        if name.is_empty() {
            let message = format!(
                "{} has no letters or digits of ASCII in its name, which manifests need: rename the file",
                visible(file_name)
            );
            return Err(ToolError::new(ToolErrorCode::InvalidInput, message).into());
        }
        let facts = component_facts(setup, &path, &component).await?;
        let version = facts.version.as_deref().unwrap_or_default();
        let described = facts.description.as_deref().map(first_line);
        Ok(Self {
            name,
            file_name: file_name.to_owned(),
            component,
            digest,
            version: manifest_version(version),
            summary: described
                .filter(|line| !line.is_empty())
                .unwrap_or_else(|| summary(&tools)),
            author: args.author.clone().or_else(|| facts.authors.clone()),
            tools,
            facts,
        })
    }

    /// Returns the author for a manifest that requires one.
    pub fn author(&self) -> &str {
        self.author.as_deref().unwrap_or(NO_AUTHOR)
    }

    /// Returns the author that the user or the component names.
    pub fn named_author(&self) -> Option<&str> {
        self.author.as_deref()
    }

    /// Returns the needs of all tools, one line each.
    pub fn need_lines(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let lines = self.needs().flat_map(|needs| needs.lines());
        let new = lines.filter(|line| seen.insert(line.clone()));
        new.map(|line| visible(&line)).collect()
    }

    /// Returns the secrets that the tools need, each name once.
    pub fn secrets(&self) -> Vec<&SecretNeed> {
        let mut seen = BTreeSet::new();
        let secrets = self.needs().flat_map(|needs| &needs.secrets);
        secrets.filter(|need| seen.insert(&need.name)).collect()
    }

    /// Returns the names of the environment variables that the tools need, each once.
    pub fn variables(&self) -> BTreeSet<&str> {
        let variables = self.needs().flat_map(|needs| &needs.variables);
        variables.map(String::as_str).collect()
    }

    /// Returns the names of the other tools that the tools call.
    pub fn called_tools(&self) -> Vec<String> {
        let called = self.needs().flat_map(|needs| &needs.tools);
        let called: BTreeSet<&String> = called
            .filter(|name| {
                !self
                    .tools
                    .iter()
                    .any(|tool| tool.own_name() == name.as_str())
            })
            .collect();
        called.into_iter().map(|name| visible(name)).collect()
    }

    fn needs(&self) -> impl Iterator<Item = &Needs> {
        self.tools.iter().map(|tool| &tool.definition.needs)
    }
}

/// Converts a file name to a name that all manifests accept.
fn manifest_name(stem: &str) -> String {
    let lower = stem.chars().map(|c| c.to_ascii_lowercase());
    let spaced: String = lower
        .map(|c| if c.is_ascii_alphanumeric() { c } else { ' ' })
        .collect();
    let joined = spaced.split_whitespace().collect::<Vec<_>>().join("-");
    // The shortest maximum, that of skills.
    let short: String = joined.chars().take(64).collect();
    short.trim_end_matches('-').to_owned()
}

/// Returns the version if it is a semantic version.
fn manifest_version(version: &str) -> String {
    let core = version.split(['-', '+']).next().unwrap_or_default();
    let numbers: Vec<&str> = core.split('.').collect();
    let is_number = |part: &&str| {
        !part.is_empty()
            && part.bytes().all(|c| c.is_ascii_digit())
            && (*part == "0" || !part.starts_with('0'))
    };
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || b".-+".contains(&c);
    if numbers.len() == 3 && numbers.iter().all(is_number) && version.bytes().all(is_plain) {
        version.to_owned()
    } else {
        NO_VERSION.to_owned()
    }
}

/// Describes a plugin in one line: by its only tool, or by the names of its tools.
fn summary(tools: &[Arc<Tool>]) -> String {
    let text = match tools {
        [tool] => first_line(&tool.definition.description),
        _ => String::new(),
    };
    if !text.is_empty() {
        return text;
    }
    let names: Vec<&str> = tools.iter().map(|tool| tool.own_name()).collect();
    match names[..] {
        [name] => format!("The tool {name}"),
        _ => format!("The tools {}", names.join(", ")),
    }
}

/// Returns the first line of a text that is not empty, with control characters escaped.
pub fn first_line(text: &str) -> String {
    let mut lines = text.lines().map(str::trim);
    visible(lines.find(|line| !line.is_empty()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn export_names_fit_every_manifest() {
        for (stem, name) in [
            ("weather", "weather"),
            ("Word_Count 2", "word-count-2"),
            ("__a..b__", "a-b"),
            ("wörter", "w-rter"),
            ("日本", ""),
        ] {
            assert_eq!(manifest_name(stem), name, "{stem}");
        }
        let long = manifest_name(&format!("{}_{}", "a".repeat(63), "b"));
        assert_eq!(long, "a".repeat(63));
    }

    #[test]
    fn export_versions_are_semantic() {
        for good in ["1.2.3", "0.1.0", "1.2.3-rc.1", "1.2.3+build.5"] {
            assert_eq!(manifest_version(good), good);
        }
        for bad in [
            "", "1", "1.2", "v1.2.3", "01.2.3", "1.2.3 x", "1.2.3-ä", "1.2.3.4",
        ] {
            assert_eq!(manifest_version(bad), NO_VERSION, "{bad}");
        }
    }
}
