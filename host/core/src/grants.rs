//! Grants of plugins, and the check that they still fit the plugins' current builds.
//!
//! A grant is bound to the bytes of a plugin. When these change, the imports, the needs and the definitions of its
//! tools show whether the new build requests anything else. Out of scope: reading and writing the file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::needs::{HostNeed, NeedKind, Needs};
use crate::text;
use crate::tool::{ListedEntry, Tool, ToolDefinition, ToolOrigin, ToolSource, ToolTrust};

mod named_rights;

pub use named_rights::{
    apply_prefixes, files_remedy, is_foreign, lacks_files, named_folder, named_host,
    retain_importable, takes_config, takes_files, takes_hosts, takes_variables,
};

/// `.mimir/tools.lock`: the grants of a workspace, by the location of the plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolsLock {
    /// The format version of the file.
    pub version: u32,
    /// The grants.
    #[serde(default)]
    pub plugins: BTreeMap<String, Grant>,
    /// The prefixes of tool names, by the path of the plugin. They grant nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prefixes: BTreeMap<String, String>,
}

/// The format version that this release writes and reads.
pub const LOCK_VERSION: u32 = 1;

impl Default for ToolsLock {
    fn default() -> Self {
        Self {
            version: LOCK_VERSION,
            plugins: BTreeMap::new(),
            prefixes: BTreeMap::new(),
        }
    }
}

/// A person's consent to the needs of one build of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// sha256 of the file in lower-case hex.
    pub digest: String,
    /// The interfaces that it imports, sorted.
    pub imports: Vec<String>,
    /// Its tools, by name.
    pub tools: BTreeMap<String, ToolGrant>,
    /// Kinds of needs that were withheld.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<NeedKind>,
    /// Hosts that a person has granted to a component that cannot declare its needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostNeed>,
    /// The other rights granted to such a component: folders, variables, settings and secrets.
    #[serde(default, skip_serializing_if = "Needs::is_empty")]
    pub named: Needs,
    /// The prompts, resources and templates that a server listed at that time, in lines. Grants of older versions do
    /// not have the field, and cover the tools alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed: Option<BTreeSet<String>>,
}

/// The grant for one tool of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolGrant {
    /// sha256 over its name, title, description, schemas, default approval and risk, in lower-case hex.
    pub definition: String,
    /// The needs at that time.
    #[serde(default, skip_serializing_if = "Needs::is_empty")]
    pub needs: Needs,
    /// The definition of a server's tool at that time, line by line, to show changes to the person.
    #[serde(default, rename = "said", skip_serializing_if = "Vec::is_empty")]
    pub declaration: Vec<String>,
}

/// The relation of a plugin to its grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantStatus {
    /// The granted build.
    Granted,
    /// Another build.
    Changed(GrantChanges),
}

/// The differences between a plugin's build and the granted one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GrantChanges {
    /// The differences, one line each; empty if the needs are equal.
    pub lines: Vec<String>,
    /// The kinds of needs that were withheld.
    pub withheld: Vec<NeedKind>,
}

impl GrantChanges {
    /// Identifies the changes: sha256 over all of them, in lower-case hex.
    pub(crate) fn id(&self) -> String {
        let text = serde_json::to_vec(&(&self.lines, &self.withheld)).unwrap_or_default();
        format!("{:x}", Sha256::digest(text))
    }
}

impl Grant {
    /// Creates the grant of these tools of one plugin, without the withheld kinds.
    pub fn new(tools: &[Arc<Tool>], withheld: Vec<NeedKind>) -> Option<Self> {
        let origin = &tools.first()?.origin;
        let tool_grants = tools.iter().map(|tool| {
            let needs = match is_foreign(tool) {
                // Named rights of the previous grant do not carry over: the person names them again.
                true => Needs::default(),
                false => tool.definition.needs.clone(),
            };
            let grant = ToolGrant {
                definition: definition_hash(tool),
                needs,
                declaration: match tool.source {
                    ToolSource::Mcp => declaration_lines(&tool.definition),
                    _ => Vec::new(),
                },
            };
            (tool.own_name().to_owned(), grant)
        });
        Some(Self {
            digest: origin.digest.clone(),
            imports: sorted(&origin.imports),
            tools: tool_grants.collect(),
            withheld,
            hosts: Vec::new(),
            named: Needs::default(),
            listed: tools
                .iter()
                .any(|tool| tool.source == ToolSource::Mcp)
                .then(|| seen_entries(origin).collect()),
        })
    }

    /// Covers all entries that the server of these tools lists. Call it only after a person has read every one of them.
    #[must_use]
    pub fn with_listed(mut self, tools: &[Arc<Tool>]) -> Self {
        let entries = tools.first().map(|tool| listed_lines(&tool.origin));
        self.listed = entries.map(|entries| entries.map(str::to_owned).collect());
        self
    }

    /// Adds rights that a person names for tools that cannot declare their needs.
    #[must_use]
    pub fn with_named(mut self, mut named: Needs) -> Self {
        self.hosts = std::mem::take(&mut named.hosts);
        self.named = named;
        self
    }

    /// The rights that a person has named for tools that cannot declare their needs.
    pub fn named(&self) -> Needs {
        Needs {
            hosts: self.hosts.clone(),
            ..self.named.clone()
        }
    }

    /// Identifies the grant of the plugin at `location`: sha256 over all of it, in lower-case hex. The user's own
    /// record of consents stores this id, so that a lock file from a checkout grants nothing.
    pub fn id(&self, location: &str) -> String {
        let mut hash = Sha256::new();
        hash.update((location.len() as u64).to_le_bytes());
        hash.update(location);
        // Maps are sorted and fields are in order: equal grants give equal texts.
        hash.update(serde_json::to_vec(self).unwrap_or_default());
        format!("{:x}", hash.finalize())
    }

    /// Compares the current tools of a plugin with this grant.
    pub fn status(&self, tools: &[Arc<Tool>]) -> GrantStatus {
        match tools.first() {
            Some(tool) if tool.origin.digest == self.digest => GrantStatus::Granted,
            Some(_) => GrantStatus::Changed(GrantChanges {
                lines: self.changes(tools),
                withheld: self.withheld.clone(),
            }),
            None => GrantStatus::Changed(GrantChanges::default()),
        }
    }

    /// The granted part of a tool's needs.
    pub fn granted_needs(&self, tool: &Tool) -> Needs {
        let Some(grant) = self.tools.get(tool.own_name()) else {
            return Needs::default();
        };
        let mut needs = match is_foreign(tool) {
            true => retain_importable(tool, self.named()),
            false => {
                let mut needs = tool.definition.needs.clone();
                needs.retain_granted(&grant.needs);
                needs
            }
        };
        self.withheld.iter().for_each(|kind| needs.clear(*kind));
        needs
    }

    /// Returns true if a server's tool has the definition that a person has seen, and the server is started or reached
    /// as it was then.
    fn matches_seen_tool(&self, tool: &Tool) -> bool {
        let granted = self.tools.get(tool.own_name());
        self.imports == sorted(&tool.origin.imports)
            && granted.is_some_and(|granted| granted.definition == definition_hash(tool))
    }

    /// The origin of a server's tools, with the entries marked that a person has seen.
    fn mark_seen(&self, origin: &ToolOrigin) -> ToolOrigin {
        let mut origin = origin.clone();
        for entry in &mut origin.listed {
            entry.is_seen = self
                .listed
                .as_ref()
                .is_some_and(|listed| listed.contains(&entry.text));
        }
        origin
    }

    fn changes(&self, tools: &[Arc<Tool>]) -> Vec<String> {
        let mut changes = Vec::new();
        let imports = tools.first().map_or_else(Vec::new, |tool| {
            without_patch_versions(&tool.origin.imports)
        });
        let is_server = tools
            .first()
            .is_some_and(|tool| tool.source == ToolSource::Mcp);
        // The "imports" of a server are the lines that say how it is started or reached.
        let verb = if is_server { "is" } else { "imports" };
        differences(
            verb,
            &without_patch_versions(&self.imports),
            &imports,
            &mut changes,
        );
        for tool in tools {
            let name = tool.own_name();
            let Some(before) = self.tools.get(name) else {
                changes.push(format!("has a new tool `{name}`"));
                let needs = tool.definition.needs.lines();
                differences(&format!("`{name}` may"), &[], &needs, &mut changes);
                if tool.source == ToolSource::Mcp {
                    let declaration = declaration_lines(&tool.definition);
                    differences(&format!("`{name}` says"), &[], &declaration, &mut changes);
                }
                continue;
            };
            let (old, new) = (before.needs.lines(), tool.definition.needs.lines());
            differences(&format!("`{name}` may"), &old, &new, &mut changes);
            if before.definition != definition_hash(tool) {
                changes.push(format!(
                    "`{name}` has another description, schema, approval or risk"
                ));
                if tool.source == ToolSource::Mcp {
                    let declaration = declaration_lines(&tool.definition);
                    differences(
                        &format!("`{name}` says"),
                        &before.declaration,
                        &declaration,
                        &mut changes,
                    );
                }
            }
        }
        if let (Some(before), Some(tool)) = (&self.listed, tools.first()) {
            let before: Vec<String> = before.iter().cloned().collect();
            let now: Vec<String> = listed_lines(&tool.origin).map(str::to_owned).collect();
            differences("lists", &before, &now, &mut changes);
        }
        for name in self.tools.keys() {
            if !tools.iter().any(|tool| tool.own_name() == name) {
                changes.push(format!("no longer has the tool `{name}`"));
            }
        }
        changes.iter().map(|line| text::visible(line)).collect()
    }
}

/// Applies the grants of the lock to the tools. `has_consent` gets the plugin's location and the grant's id, and
/// returns true if a person has consented to it. Returns a line for each grant that does not count.
pub fn apply(
    lock: &ToolsLock,
    tools: &mut [Tool],
    has_consent: impl Fn(&str, &str) -> bool,
) -> Vec<String> {
    let mut problems = Vec::new();
    for (location, grant) in &lock.plugins {
        let named = grant.named();
        // A component that can reach nothing by itself reaches what a person grants it by name.
        let takes_grant = |tool: &Tool| match tool.trust {
            ToolTrust::Untrusted => true,
            ToolTrust::Harmless => is_foreign(tool) && !named.is_empty(),
            ToolTrust::Trusted => false,
        };
        let is_affected = |tool: &&mut Tool| tool.origin.location == *location && takes_grant(tool);
        let plugin_tools: Vec<Arc<Tool>> = tools
            .iter()
            .filter(|tool| tool.origin.location == *location)
            .map(|tool| Arc::new(tool.clone()))
            .collect();
        if !has_consent(location, &grant.id(location)) {
            if let Some(tool) = plugin_tools.first() {
                problems.push(format!(
                    "the grant of {location} in tools.lock was not given by you on this machine and does not count; to give it, run `mimir tools trust {}`",
                    tool.name()
                ));
            }
            continue;
        }
        let status = grant.status(&plugin_tools);
        let loses_rights =
            |tool: &&Arc<Tool>| tool.trust == ToolTrust::Harmless && takes_grant(tool);
        if let (GrantStatus::Changed(_), Some(tool)) =
            (&status, plugin_tools.iter().find(loses_rights))
        {
            problems.push(format!(
                "{location} has changed since it was granted files or settings, and has lost them; to review and grant them again, run `mimir tools trust {}`",
                tool.name()
            ));
        }
        let marked_origin = plugin_tools
            .first()
            .filter(|tool| !tool.origin.listed.is_empty())
            .map(|tool| Arc::new(grant.mark_seen(&tool.origin)));
        for tool in tools.iter_mut().filter(is_affected) {
            if let Some(origin) = &marked_origin {
                tool.origin = Arc::clone(origin);
            }
            match &status {
                GrantStatus::Granted => {
                    if is_foreign(tool) {
                        // Treated as declared needs, so that they are shown with them.
                        tool.definition.needs = retain_importable(tool, named.clone());
                    }
                    tool.granted = grant.granted_needs(tool);
                    tool.trust = ToolTrust::Trusted;
                }
                // A changed tool of a server does not affect the grants of its unchanged tools.
                GrantStatus::Changed(_)
                    if tool.source == ToolSource::Mcp && grant.matches_seen_tool(tool) =>
                {
                    tool.trust = ToolTrust::Trusted;
                }
                GrantStatus::Changed(_) if tool.trust == ToolTrust::Harmless => {}
                GrantStatus::Changed(changes) => tool.changes = Some(changes.clone()),
            }
        }
    }
    problems
}

/// The entries of a server's lists that its grant covers.
fn seen_entries(origin: &ToolOrigin) -> impl Iterator<Item = String> {
    let seen = origin.listed.iter().filter(|entry| entry.is_seen);
    seen.map(|entry| entry.text.clone())
}

/// The entries of a server's lists, in lines.
fn listed_lines(origin: &ToolOrigin) -> impl Iterator<Item = &str> {
    origin
        .listed
        .iter()
        .map(|entry: &ListedEntry| entry.text.as_str())
}

/// Describes the lines that were added to a list and removed from it: `now {verb} …` and `no longer {verb} …`.
fn differences(verb: &str, old: &[String], new: &[String], changes: &mut Vec<String>) {
    for line in new.iter().filter(|line| !old.contains(line)) {
        changes.push(format!("now {verb} {line}"));
    }
    for line in old.iter().filter(|line| !new.contains(line)) {
        changes.push(format!("no longer {verb} {line}"));
    }
}

fn sorted(imports: &[String]) -> Vec<String> {
    let mut imports = imports.to_vec();
    imports.sort();
    imports
}

/// Imports without the patch numbers of WASI's packages: a patch changes no interface, and every new toolchain brings
/// new patch numbers.
fn without_patch_versions(imports: &[String]) -> Vec<String> {
    let unpatched = imports.iter().map(|import| {
        let versioned = import.split_once('@');
        let Some((name, version)) = versioned.filter(|(name, _)| name.starts_with("wasi:")) else {
            return import.clone();
        };
        let parts: Vec<&str> = version.split('.').collect();
        let number = |part: &&str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
        match parts.as_slice() {
            // Release versions only: pre-releases may differ in everything.
            [major, minor, _] if parts.iter().all(number) => format!("{name}@{major}.{minor}"),
            _ => import.clone(),
        }
    });
    let mut unpatched: Vec<String> = unpatched.collect();
    unpatched.sort();
    unpatched.dedup();
    unpatched
}

/// The definition of a tool, in lines.
fn declaration_lines(definition: &ToolDefinition) -> Vec<String> {
    let mut lines = Vec::new();
    let title = definition.title.iter();
    lines.extend(title.map(|title| format!("title: {title}")));
    let description = definition.description.lines();
    lines.extend(description.map(|line| format!("description: {line}")));
    let schemas = [
        ("input", Some(&definition.input_schema)),
        ("output", definition.output_schema.as_ref()),
    ];
    for (direction, schema) in schemas {
        let Some(schema) = schema else { continue };
        let value = schema.to_value();
        let Some(object) = value.as_object() else {
            continue;
        };
        // Property by property, so that a change is shown at its position.
        for (key, value) in object {
            match value.as_object().filter(|_| key == "properties") {
                Some(properties) => lines.extend(
                    properties
                        .iter()
                        .map(|(name, value)| format!("{direction}.{name}: {value}")),
                ),
                None => lines.push(format!("{direction} {key}: {value}")),
            }
        }
    }
    lines.iter().map(|line| text::visible(line)).collect()
}

fn definition_hash(tool: &Tool) -> String {
    let (name, definition) = (tool.own_name(), &tool.definition);
    let parts = [
        Some(name),
        definition.title.as_deref(),
        Some(&definition.description),
        Some(definition.input_schema.as_str()),
        definition
            .output_schema
            .as_ref()
            .map(|schema| schema.as_str()),
        Some(definition.approval.as_str()),
        Some(definition.risk.as_str()),
    ];
    let mut hash = Sha256::new();
    for part in parts {
        let length = part.map_or(u64::MAX, |part| part.len() as u64);
        hash.update(length.to_le_bytes());
        hash.update(part.unwrap_or_default());
    }
    format!("{:x}", hash.finalize())
}

#[cfg(test)]
mod tests;
